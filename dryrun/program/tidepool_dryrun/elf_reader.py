# SPDX-License-Identifier: Apache-2.0
"""Reads the references and definitions of a shared library. 64-bit ELF, little endian: System V ABI, gABI 4.1 and its GNU extensions."""
import dataclasses
import mmap
import struct

DYNAMIC, DYNSYM, VERNEED, VERSYM = 6, 11, 0x6FFFFFFE, 0x6FFFFFFF  # types of sections
NEEDED = 1  # tag of an entry of the dynamic section
HIDDEN = 0x8000  # bit of a symbol's version
FUNCTION_TYPES = (2, 10)  # STT_FUNC, and STT_GNU_IFUNC, of which a function chooses the code
SYMBOL = struct.Struct("<IBBHQQ")


@dataclasses.dataclass(frozen=True)
class Reference:
    """A function that a library leaves to others."""
    name: str
    library: "str | None"  # the name of the library, where the reference has a version
    node: "str | None"  # the version


@dataclasses.dataclass
class Library:
    machine: int  # EM_X86_64 is 62, EM_AARCH64 is 183
    needed: list  # names of libraries
    nodes: dict  # the versions that each of them must have, by its name
    references: list
    defined: set  # names of functions and data
    functions: set  # those of functions alone


class _Sections:
    def __init__(self, data):
        begin, = struct.unpack_from("<Q", data, 40)
        size, count = struct.unpack_from("<HH", data, 58)
        self.data = data
        self.rows = [struct.unpack_from("<IIQQQQIIQQ", data, begin + i * size) for i in range(count)]

    def bytes_of(self, kind):
        """Returns the bytes of the only section of the kind, and those of the strings that it names."""
        row = next((row for row in self.rows if row[1] == kind), None)
        if row is None and kind == DYNSYM:
            raise ValueError("no symbols")
        return (b"", b"") if row is None else (self._bytes(row), self._bytes(self.rows[row[6]]))

    def _bytes(self, row):
        return self.data[row[4]:row[4] + row[5]]


def _text(strings, at):
    return strings[at:strings.index(b"\0", at)].decode()


def _versions(section, strings):
    """Returns (library, node) by the number that symbols have for it."""
    found = {}
    at, more = 0, bool(section)
    while more:
        _, count, file, first, following = struct.unpack_from("<HHIII", section, at)
        node = at + first
        for _ in range(count):
            _, _, number, name, next_node = struct.unpack_from("<IHHII", section, node)
            found[number & ~HIDDEN] = (_text(strings, file), _text(strings, name))
            node += next_node
        at, more = at + following, following > 0
    return found


def read(path):
    """Returns the Library. Raises OSError, or ValueError for a file that is no such library."""
    return _open(path, _read)


def needed(path):
    """Returns the names of the libraries that a library needs. Raises like `read`, and takes less time."""
    return _open(path, lambda data: _needed(_Sections(data)))


def _open(path, reader):
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path}: not a 64-bit ELF library")
        try:
            return reader(data)
        except (struct.error, IndexError, OverflowError, ValueError) as error:
            raise ValueError(f"{path}: not a whole ELF library ({error})") from error


def _needed(sections):
    dynamic, names = sections.bytes_of(DYNAMIC)
    return [_text(names, value) for tag, value in struct.iter_unpack("<QQ", dynamic) if tag == NEEDED]


def _read(data):
    sections = _Sections(data)
    versions = _versions(*sections.bytes_of(VERNEED))
    nodes = {}
    for library, node in versions.values():
        nodes.setdefault(library, []).append(node)
    symbols, names = sections.bytes_of(DYNSYM)
    numbers = [number & ~HIDDEN for number, in struct.iter_unpack("<H", sections.bytes_of(VERSYM)[0])]
    references, defined, functions = [], set(), set()
    for index, (name, info, _, section, _, _) in enumerate(SYMBOL.iter_unpack(symbols)):
        if section != 0:
            defined.add(_text(names, name))
            if info & 15 in FUNCTION_TYPES:
                functions.add(_text(names, name))
        elif name != 0:
            library, node = versions.get(numbers[index] if numbers else 0, (None, None))
            references.append(Reference(_text(names, name), library, node))
    return Library(struct.unpack_from("<H", data, 18)[0], _needed(sections), nodes, references, defined, functions)

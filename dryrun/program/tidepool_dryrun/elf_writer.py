# SPDX-License-Identifier: Apache-2.0
"""Writes shared libraries of functions that do nothing and return a number, without a compiler. 64-bit ELF, little endian: System V
ABI, gABI 4.1 and its GNU extensions.

A library has two segments: one with all that is only read and the two functions that all names share, and one for the
dynamic section, which the dynamic linker writes to.
"""
import dataclasses
import struct

# A function that returns 0, by machine.
RETURN_0 = {62: bytes.fromhex("31c0c3"),  # x86-64: xor eax, eax; ret
            183: bytes.fromhex("00008052c0035fd6")}  # AArch64: mov w0, #0; ret
REFUSE = {62: bytes.fromhex("b80f000000c3"),  # x86-64: mov eax, 15; ret
          183: bytes.fromhex("e0018052c0035fd6")}  # AArch64: mov w0, #15; ret
PAGE = 1 << 16  # the largest of both machines
EXECUTABLE, WRITABLE, READABLE = 1, 2, 4
LOAD, DYNAMIC, STACK = 1, 2, 0x6474E551  # types of segments
NULL, NEEDED, HASH, STRTAB, SYMTAB, STRSZ, SYMENT, SONAME = 0, 1, 4, 5, 6, 10, 11, 14  # tags
VERSYM, VERDEF, VERDEFNUM = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD
GLOBAL_FUNCTION, SECTION = 0x12, 1
FIRST_NODE = 2  # 1 is the library itself, and the version of symbols without one


@dataclasses.dataclass
class EmptyLibrary:
    soname: str
    machine: int
    needed: list  # names of libraries
    nodes: list  # its versions
    functions: dict  # the version of each, by name; None: without
    refused: set = frozenset()  # names of those that return 15, an error of each of NVIDIA's libraries


class _Strings:
    def __init__(self):
        self.bytes = b"\0"
        self.offsets = {}

    def add(self, text):
        if text not in self.offsets:
            self.offsets[text] = len(self.bytes)
            self.bytes += text.encode() + b"\0"
        return self.offsets[text]


class _Image:
    """Bytes that are appended one part after the other."""

    def __init__(self, size):
        self.bytes = bytearray(size)

    def append(self, part, alignment=8):
        """Returns the offset of the part."""
        self.bytes += bytes(-len(self.bytes) % alignment)
        offset = len(self.bytes)
        self.bytes += part
        return offset


def _elf_hash(name):
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high & 0xFFFFFFFF
    return value


def _hash_table(names):
    """Returns the table for symbols 1, 2, ... of these names. Each bucket begins a chain of symbols."""
    count = max(1, len(names) // 4)
    buckets, chain = [0] * count, [0] * (len(names) + 1)
    for index, name in enumerate(names, 1):
        bucket = _elf_hash(name) % count
        chain[index], buckets[bucket] = buckets[bucket], index
    return struct.pack(f"<{2 + count + len(chain)}I", count, len(chain), *buckets, *chain)


def _version_definitions(soname, nodes, strings):
    rows = [soname, *nodes]
    out = b""
    for number, name in enumerate(rows, 1):
        is_last = number == len(rows)
        out += struct.pack("<HHHHIII", 1, 1 if number == 1 else 0, number, 1, _elf_hash(name), 20, 0 if is_last else 28)
        out += struct.pack("<II", strings.add(name), 0)
    return out


def contents(library):
    """Returns the bytes of the file. Raises ValueError for a machine of another kind."""
    code = RETURN_0.get(library.machine)
    if code is None:
        raise ValueError(f"libraries for machine {library.machine} of ELF cannot be made, expected x86-64 or AArch64")
    image = _Image(64 + 4 * 56)
    strings = _Strings()
    names = list(library.functions)
    refusal = REFUSE[library.machine]
    places = {False: (image.append(code, 16), len(code)), True: (image.append(refusal, 16), len(refusal))}
    symbols = bytes(24) + b"".join(
        struct.pack("<IBBHQQ", strings.add(name), GLOBAL_FUNCTION, 0, SECTION, *places[name in library.refused]) for name in names)
    numbers = {node: number for number, node in enumerate(library.nodes, FIRST_NODE)}
    numbers[None] = 1
    dynamic = [(NEEDED, strings.add(name)) for name in library.needed]
    dynamic += [(SONAME, strings.add(library.soname)), (HASH, image.append(_hash_table(names))),
                (SYMTAB, image.append(symbols)), (SYMENT, 24)]
    if library.nodes:
        versions = [0] + [numbers[library.functions[name]] for name in names]
        dynamic += [(VERSYM, image.append(struct.pack(f"<{len(versions)}H", *versions))),
                    (VERDEF, image.append(_version_definitions(library.soname, library.nodes, strings))),
                    (VERDEFNUM, 1 + len(library.nodes))]
    dynamic += [(STRTAB, image.append(strings.bytes)), (STRSZ, len(strings.bytes)), (NULL, 0)]
    read_only = len(image.bytes)
    words = b"".join(struct.pack("<QQ", *entry) for entry in dynamic)
    offset = image.append(words)
    segments = [(LOAD, READABLE | EXECUTABLE, 0, 0, read_only, PAGE),
                (LOAD, READABLE | WRITABLE, offset, offset + PAGE, len(words), PAGE),
                (DYNAMIC, READABLE | WRITABLE, offset, offset + PAGE, len(words), 8),
                (STACK, READABLE | WRITABLE, 0, 0, 0, 16)]
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack(
        "<HHIQQQIHHHHHH", 3, library.machine, 1, 0, 64, 0, 0, 64, 56, len(segments), 64, 0, 0)
    for kind, flags, at, address, size, alignment in segments:
        header += struct.pack("<IIQQQQQQ", kind, flags, at, address, address, size, size, alignment)
    image.bytes[:len(header)] = header
    return bytes(image.bytes)

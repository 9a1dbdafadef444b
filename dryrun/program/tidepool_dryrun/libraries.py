#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the libraries of NVIDIA that PyTorch only links with, for machines without a GPU.

usage: libraries.py TO TORCH_LIBRARIES STAND_IN...

Reads which libraries, versions and functions PyTorch's own libraries and the extensions beside it need, and writes libraries with
these names, versions and functions into the folder TO. They have the interfaces of NVIDIA's own libraries where these are installed
beside PyTorch, since extensions may look for functions by name. These libraries come first in the process, so they have no other
symbols of NVIDIA's libraries, which define parts of the C++ library and variables too. The folders STAND_IN have the libraries that do more. Where they have one
of the same name, none is written, and functions that it lacks go into one more library. Each written library needs the library of
answers there, libcuda_libraries.so. A function that the library of answers has is left to it. Every other function does nothing and
returns 0, which is success in all of them, or an error where it would tell a size: the caller would take memory of an unknown size.
"""
import errno
import os
import pathlib
import re
import sys

if __package__:
    from . import elf_reader, elf_writer
else:
    import elf_reader
    import elf_writer

ANSWERS = "libcuda_libraries.so"
LACKING = "libcuda_lacking.so"
SHARED = re.compile(r"\.so(\.[0-9.]+)?$")
# Functions that write a size, a count or an attribute for their caller.
TELLS_A_SIZE = re.compile(r"cu(blas|dnn|fft|solver|sparse)(?!Set).*(size|nnz|workspace|makeplan|getattribute)", re.IGNORECASE)
# Libraries of NVIDIA: cuBLAS, cuDNN, NCCL, NVRTC, NVSHMEM, ...
NVIDIA = re.compile(r"lib(cu|nv|nccl)[A-Za-z_]*\.so")


def sources(torch_libraries):
    """Returns PyTorch's own libraries, without those that came from elsewhere, such as libgomp.so.1."""
    return sorted(pathlib.Path(torch_libraries).glob("lib*.so"))


def packages_of(torch_libraries):
    """Returns the folder in which PyTorch and other packages are installed, or None for a PyTorch in its own source tree."""
    folder = pathlib.Path(torch_libraries).parent.parent
    return folder if folder.name in ("site-packages", "dist-packages") else None


def readable(paths, read):
    """Yields each path with the result of `read`. PyTorch needs none of these libraries, so unreadable ones are left out."""
    for path in paths:
        try:
            yield path, read(path)
        except (OSError, ValueError):
            pass


def extensions(packages):
    """Returns the libraries of other packages that are linked with those of NVIDIA."""
    found = []
    for folder, folders, files in os.walk(packages) if packages else ():
        if pathlib.Path(folder) == packages:
            folders[:] = set(folders) - {"torch", "nvidia"}
        found += [pathlib.Path(folder, name) for name in files if SHARED.search(name)]
    return sorted(path for path, needed in readable(found, elf_reader.needed) if any(map(NVIDIA.match, needed)))


def originals(packages):
    """Returns NVIDIA's own libraries, as its wheels install them."""
    return sorted((packages / "nvidia").glob("**/lib*.so.*")) if packages else []


def owner_of(name, sonames):
    """Returns the library of a function without a version: the one with the longest name that the function begins with."""
    def beginning(soname):
        return soname[3:soname.index(".so")].lower()

    owners = [soname for soname in sonames if re.match("p?" + beginning(soname), name.lower())]
    return max(owners, key=lambda soname: len(beginning(soname)), default=None)


def empty_libraries(readers, present, answered):
    """Returns the libraries that the read ones need, by name: without those that are present, and without the functions
    that are answered."""
    sonames = {name for one in readers for name in one.needed if NVIDIA.match(name) and name not in present}
    made = {soname: elf_writer.EmptyLibrary(soname, readers[0].machine, [ANSWERS], [], {}) for soname in sorted(sonames)}
    for one in readers:
        for soname in sonames & one.nodes.keys():
            made[soname].nodes += [node for node in one.nodes[soname] if node not in made[soname].nodes]
        for reference in one.references:
            soname = reference.library or owner_of(reference.name, sonames)
            if soname in made and reference.name not in answered:
                made[soname].functions[reference.name] = reference.node
    return made


def lacking(readers, present):
    """Returns the functions without a version that the present libraries should have and lack, such as those of a newer NCCL.
    `present` has the paths of libraries by name."""
    sonames = {name for one in readers for name in one.needed if NVIDIA.match(name) and name in present}
    defined = {name for soname in sonames for name in elf_reader.read(present[soname]).defined}
    wanted = {reference.name for one in readers for reference in one.references if reference.library is None}
    return sorted(name for name in wanted - defined if owner_of(name, sonames))


def fits_runtime(reader, present):
    """Returns whether an extension uses the CUDA runtime that is present, or none itself."""
    return all(name in present for name in reader.needed if name.startswith("libcudart.so."))


def interface_of(soname, library):
    """Returns the functions of a library that begin with its name: cusparseLtInit of libcusparseLt.so.0. Functions without it
    are those of the C++ library and of others that it holds."""
    name = re.match(r"lib([A-Za-z0-9]+)", soname)[1].lower()
    return {function for function in library.functions if re.match("_*p?" + name, function.lower())}


def add_interfaces(made, paths, others):
    """Adds the interfaces of NVIDIA's own libraries to the libraries of the same names, without the names that others define."""
    for path, library in readable([path for path in paths if path.name in made], elf_reader.read):
        functions = made[path.name].functions
        functions.update(dict.fromkeys(interface_of(path.name, library) - others - functions.keys()))


def make_all(folder, torch_libraries, stand_in):
    """Writes the libraries into the folder. `stand_in` are folders. Raises OSError, and ValueError for files that are no
    libraries."""
    folder = pathlib.Path(folder)
    readers = [elf_reader.read(path) for path in sources(torch_libraries)]
    present = {path.name: path for one in stand_in for path in pathlib.Path(one).iterdir()}
    packages = packages_of(torch_libraries)
    readers += [one for _, one in readable(extensions(packages), elf_reader.read) if fits_runtime(one, present)]
    if ANSWERS not in present:
        raise FileNotFoundError(errno.ENOENT, "no such library", str(pathlib.Path(stand_in[-1]) / ANSWERS))
    answered = elf_reader.read(present[ANSWERS]).defined
    folder.mkdir(parents=True, exist_ok=True)
    made = empty_libraries(readers, present, answered)
    add_interfaces(made, originals(packages), answered.union(*(one.defined for one in readers)))
    others = lacking(readers, present)
    if others:
        for library in made.values():
            library.needed.append(LACKING)
        made[LACKING] = elf_writer.EmptyLibrary(LACKING, readers[0].machine, [], [], dict.fromkeys(others))
    for soname, library in made.items():
        library.refused = set(filter(TELLS_A_SIZE.match, library.functions))
        (folder / soname).write_bytes(elf_writer.contents(library))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__.split("\n\n")[1])
    make_all(sys.argv[1], sys.argv[2], sys.argv[3:])

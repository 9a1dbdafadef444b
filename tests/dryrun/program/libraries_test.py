#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The libraries in the place of those of NVIDIA: read from and loaded by small libraries that stand for PyTorch.

libraries_test.py SOURCE COMPILER
"""
import ctypes
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

SOURCE, COMPILER = pathlib.Path(sys.argv.pop(1)), sys.argv.pop(1)
sys.path.insert(0, str(SOURCE / "dryrun" / "program"))

from tidepool_dryrun import elf_reader, elf_writer, libraries  # noqa: E402


def compile_library(path, lines, *options):
    source = path.with_suffix(".c")
    source.write_text(lines)
    subprocess.run([COMPILER, "-w", "-shared", "-fPIC", "-x", "c", str(source), "-x", "none", "-o", str(path),
                    f"-Wl,-soname,{path.name}", *map(str, options)], check=True)
    return path


class LibrariesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.torch = self.folder / "site-packages" / "torch" / "lib"
        self.torch.mkdir(parents=True)
        for name in ("real", "stand_in", "made"):
            (self.folder / name).mkdir()

    # A library of NVIDIA: `node` is the version of its functions, or None.
    def real(self, soname, functions, node):
        options = []
        if node is not None:
            versions = self.folder / "real" / f"{soname}.map"
            versions.write_text(node + " { global: *; };\n")
            options.append(f"-Wl,--version-script={versions}")
        return compile_library(self.folder / "real" / soname, "".join(f"int {name}() {{ return 7; }}\n" for name in functions), *options)

    # PyTorch: libraries that call functions of cuBLAS (with a version) and NCCL (without).
    def make(self, answers="int answer() { return 5; }\n"):
        blas = self.real("libcublas.so.77", ["cublasInit", "cublasVersion"], "libcublas.so.77")
        light = self.real("libcublasLt.so.77", ["cublasLtMatmul"], None)
        nccl = self.real("libnccl.so.2", ["ncclSend", "pncclSend"], None)
        compile_library(self.torch / "libtorch_x.so",
                        "int cublasInit(); int cublasVersion(); int cublasLtMatmul(); int ncclSend(); int pncclSend();\n"
                        "int all() { return cublasInit() + 10 * cublasVersion() + cublasLtMatmul() + ncclSend() + pncclSend(); }\n",
                        blas, light, nccl)
        compile_library(self.folder / "stand_in" / libraries.ANSWERS, answers)
        libraries.make_all(self.folder / "made", self.torch, [self.folder / "stand_in"])

    # Calls a function of a library in a new process, in which all references are resolved at once.
    def call(self, library, function):
        own = dict(os.environ, LD_BIND_NOW="1", LD_LIBRARY_PATH=f"{self.folder}/stand_in:{self.folder}/made")
        done = subprocess.run([sys.executable, "-c", f"import ctypes; print(ctypes.CDLL({str(library)!r}).{function}())"],
                              env=own, capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")
        return int(done.stdout)

    # Returns those of the names that a made library has.
    def exported(self, library, names):
        own = dict(os.environ, LD_LIBRARY_PATH=f"{self.folder}/stand_in:{self.folder}/made")
        lines = f"import ctypes; made = ctypes.CDLL({library!r}); print(*(name for name in {names} if hasattr(made, name)))"
        return subprocess.run([sys.executable, "-c", lines], env=own, capture_output=True, text=True, check=True).stdout.split()

    def test_functions_return_success_or_the_answer(self):
        self.make("int cublasVersion() { return 4; }\n")
        self.assertEqual(sorted(path.name for path in (self.folder / "made").iterdir()),
                         ["libcublas.so.77", "libcublasLt.so.77", "libnccl.so.2"])
        self.assertEqual(self.call(self.torch / "libtorch_x.so", "all"), 40)
        self.assertEqual(self.call("libcublas.so.77", "cublasInit"), 0)
        self.assertEqual(self.call("libcublas.so.77", "cublasVersion"), 4)
        self.assertEqual(self.call("libcublasLt.so.77", "cublasLtMatmul"), 0)
        self.assertEqual(self.call("libnccl.so.2", "pncclSend"), 0)

    # PyTorch would ask for memory of a size that no function has written.
    def test_functions_that_tell_a_size_are_refused_without_an_answer(self):
        blas = self.real("libcublas.so.77", ["cublasGetWorkspaceSize", "cublasSetWorkspace", "cublasOtherSize"], "libcublas.so.77")
        compile_library(self.torch / "libtorch_y.so",
                        "int cublasGetWorkspaceSize(); int cublasSetWorkspace(); int cublasOtherSize();\n"
                        "int told() { return 100 * !!cublasGetWorkspaceSize() + 10 * !!cublasSetWorkspace() + cublasOtherSize(); }\n", blas)
        self.make("int cublasOtherSize() { return 4; }\n")
        self.assertEqual(self.call(self.torch / "libtorch_y.so", "told"), 104)

    def test_a_library_of_the_stand_in_is_taken(self):
        compile_library(self.folder / "stand_in" / "libnccl.so.2", "int ncclSend() { return 3; } int pncclSend() { return 3; }\n")
        self.make()
        self.assertFalse((self.folder / "made" / "libnccl.so.2").exists())
        self.assertEqual(self.call(self.torch / "libtorch_x.so", "all"), 6)

    def test_functions_that_a_library_of_the_stand_in_lacks_return_success(self):
        compile_library(self.folder / "stand_in" / "libnccl.so.2", "int ncclSend() { return 3; }\n")
        self.make()
        self.assertEqual(self.call(self.torch / "libtorch_x.so", "all"), 3)

    def test_extensions_beside_pytorch_find_their_functions(self):
        blas = self.real("libcublas.so.77", ["cublasOfExtension"], "libcublas.so.77")
        jpeg = self.real("libnvjpeg.so.5", ["nvjpegDecode"], None)
        other_runtime = self.real("libcudart.so.3", ["cudaMalloc"], None)
        extension = self.folder / "site-packages" / "extension"
        extension.mkdir()
        (extension / "script.so").write_text("INPUT(-lm)")
        compile_library(extension / "_C.so", "int cublasOfExtension(); int nvjpegDecode();\n"
                        "int both() { return cublasOfExtension() + nvjpegDecode(); }\n", blas, jpeg)
        # An extension for another runtime must not get one that gives no memory.
        compile_library(extension / "_old.so", "int cudaMalloc(); int f() { return cudaMalloc(); }\n", other_runtime)
        self.make()
        self.assertEqual(sorted(path.name for path in (self.folder / "made").iterdir()),
                         ["libcublas.so.77", "libcublasLt.so.77", "libnccl.so.2", "libnvjpeg.so.5"])
        self.assertEqual(self.call(extension / "_C.so", "both"), 0)
        self.assertEqual(self.call(self.torch / "libtorch_x.so", "all"), 0)

    def test_installed_libraries_of_nvidia_tell_their_functions(self):
        whole = self.real("libcublas.so.77", ["cublasInit", "cublasVersion", "cublasOfCallers"], "libcublas.so.77")
        place = self.folder / "site-packages" / "nvidia" / "cu77" / "lib"
        place.mkdir(parents=True)
        whole.rename(place / whole.name)
        (place / "libnccl.so.2").write_text("no library")
        self.make("int cublasVersion() { return 4; }\n")
        self.assertEqual(self.call("libcublas.so.77", "cublasOfCallers"), 0)
        self.assertEqual(self.call("libcublas.so.77", "cublasVersion"), 4)

    # They come first in the process: the wheels of cuFile, cuSPARSELt and NVSHMEM define parts of the C++ library and variables,
    # and PyTorch's own libraries define functions of NVSHMEM.
    def test_libraries_shadow_nothing_but_the_interfaces_of_nvidia(self):
        others = ["_ZNSt6vectorIhE9push_backERKh", "_ZN6cufile4openEv", "_init", "helper", "cungqr_", "cublasOfAnother"]
        place = self.folder / "site-packages" / "nvidia" / "cu77" / "lib"
        place.mkdir(parents=True)
        bodies = "".join(f"int {name}() {{ return 7; }}\n" for name in ["cublasOfCallers", "__cublasInside", "cublasOfTorch", *others[:-1]])
        compile_library(place / "libcublas.so.77", bodies + "int cublasLevel = 7; __thread int cublasOfThread;\n", "-nostartfiles")
        compile_library(place / "libnccl.so.2", "int ncclSend() { return 7; } int pncclWait() { return 7; } int cublasOfAnother() { return 7; }\n")
        compile_library(self.torch / "libtorch_own.so", "int cublasOfTorch() { return 2; }\n")
        self.make()
        names = ["cublasInit", "cublasVersion", "cublasOfCallers", "__cublasInside", "cublasOfTorch", "cublasLevel", "cublasOfThread", *others]
        self.assertEqual(self.exported("libcublas.so.77", names), names[:4])
        self.assertEqual(self.exported("libnccl.so.2", ["ncclSend", "pncclWait", *others]), ["ncclSend", "pncclWait"])

    def test_each_folder_of_the_stand_in_counts(self):
        self.make()
        own = self.folder / "stand_in" / "cuda12"
        own.mkdir()
        compile_library(own / "libnccl.so.2", "")
        libraries.make_all(self.folder / "again", self.torch, [own, self.folder / "stand_in"])
        self.assertEqual(sorted(path.name for path in (self.folder / "again").iterdir()),
                         ["libcublas.so.77", "libcublasLt.so.77", libraries.LACKING])
        with self.assertRaises(FileNotFoundError):
            libraries.make_all(self.folder / "again", self.torch, [own])

    def test_many_functions_are_found(self):
        machine = elf_reader.read(compile_library(self.folder / "any.so", "")).machine
        for count in (0, 1, 2, 3, 1000):
            names = [f"function_{number}" for number in range(count)]
            path = self.folder / f"lib{count}.so"
            path.write_bytes(elf_writer.contents(elf_writer.EmptyLibrary(path.name, machine, [], [], dict.fromkeys(names))))
            library = ctypes.CDLL(str(path))
            self.assertEqual([getattr(library, name)() for name in names], [0] * count)
            self.assertFalse(hasattr(library, f"function_{count}"))

    # No machine of this kind runs the tests, so the instructions are decoded as the manual of the architecture lays them out.
    def test_functions_of_aarch64_return_0(self):
        contents = elf_writer.contents(elf_writer.EmptyLibrary("libx.so.1", 183, [], [], {"f": None}))
        code = contents.index(elf_writer.RETURN_0[183])
        self.assertEqual(code % 4, 0)
        move, jump = struct.unpack_from("<II", contents, code)
        # MOVZ: sf, opc, 100101, hw, imm16, Rd: the 32 bits of register 0 become 0.
        self.assertEqual((move >> 31, move >> 29 & 3, move >> 23 & 0x3F, move >> 21 & 3, move >> 5 & 0xFFFF, move & 31),
                         (0, 0b10, 0b100101, 0, 0, 0))
        # RET: 1101011001011111000000, Rn, 00000: to the address in the link register, 30.
        self.assertEqual((jump >> 10, jump >> 5 & 31, jump & 31), (0b1101011001011111000000, 30, 0))

    def test_owner_is_the_longest_name(self):
        sonames = {"libcublas.so.13", "libcublasLt.so.13", "libnccl.so.2", "libcufile.so.0"}
        for name, owner in (("cublasInit", "libcublas.so.13"), ("cublasLtInit", "libcublasLt.so.13"), ("cuFileRead", "libcufile.so.0"),
                            ("pncclSend", "libnccl.so.2"), ("malloc", None), ("cudaMalloc", None)):
            self.assertEqual(libraries.owner_of(name, sonames), owner)

    def test_refuses_what_is_no_library(self):
        path = self.folder / "libx.so"
        for contents in (b"", b"text", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + bytes(58), b"\x7fELF\x02\x01" + b"\xff" * 58):
            path.write_bytes(contents)
            with self.subTest(contents), self.assertRaises(ValueError):
                elf_reader.read(path)
        whole = compile_library(self.folder / "any.so", "int f() { return 0; }").read_bytes()
        path.write_bytes(whole[:len(whole) // 2])
        with self.assertRaisesRegex(ValueError, "not a whole ELF library"):
            elf_reader.read(path)
        with self.assertRaisesRegex(ValueError, "expected x86-64 or AArch64"):
            elf_writer.contents(elf_writer.EmptyLibrary("libx.so", 3, [], [], {}))


if __name__ == "__main__":
    unittest.main()

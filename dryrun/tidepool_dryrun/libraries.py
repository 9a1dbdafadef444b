#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the libraries of NVIDIA that PyTorch only links with, for machines without a GPU.

usage: libraries.py TO LIBRARY...

Reads the functions that the given libraries of a wheel leave undefined, and writes libraries with
these functions, names and symbol versions into the folder TO. A function does nothing and returns 0,
which is success in all of them. A few must do more: functions that create an object store a new
handle, and queries of sizes and versions answer with constants. These sizes are guesses, so the
memory of convolutions and recurrent layers is not that of a GPU.
"""
import pathlib
import re
import subprocess
import sys

# The libraries, each with the node of its symbol versions and the beginning of its functions' names.
LIBRARIES = {
    "libcublas.so.13": ("libcublas.so.13", r"cublas(?!Lt)"),
    "libcublasLt.so.13": ("libcublasLt.so.13", r"cublasLt"),
    "libcudnn.so.9": ("libcudnn.so.9", r"cudnn"),
    "libcusparse.so.12": ("libcusparse.so.12", r"cusparse(?!Lt)"),
    "libcusparseLt.so.0": (None, r"cusparseLt"),
    "libcusolver.so.12": ("libcusolver.so.12", r"cusolver"),
    "libcufft.so.12": ("libcufft.so.12", r"cufft"),
    "libcurand.so.10": ("libcurand.so.10", r"curand"),
    "libcufile.so.0": (None, r"cuFile"),
    "libnccl.so.2": (None, r"p?nccl"),
    "libcupti.so.13": ("libcupti.so.13", r"cupti"),
    "libnvshmem_host.so.3": ("NVSHMEM", r"nvshmem"),
    "libnvrtc.so.13": ("libnvrtc.so.13", r"nvrtc"),
}

WORDS = r".*(GetErrorString|GetLastError|GetStatusString|GetErrorEnum|GetStatusName)$"
# A handle of its own for each object: PyTorch keeps a workspace for each handle of cuBLAS.
CREATES = (r"cublas(Lt)?Create(_v2)?$|cudnnCreate$|cusparseCreate$|cusolverDnCreate$"
           r"|cudnn.*Create.*Descriptor$")
WORKSPACE = 8 << 20  # of a convolution, in bytes

ANSWERS = {
    "cudnnBackendCreateDescriptor": "int f(int type, void** made) { *made = calloc(1, 256); return 0; }",
    # Attribute 202 counts the results of a heuristic, 402 is the workspace of a plan. Type 3 is a
    # 64-bit integer.
    "cudnnBackendGetAttribute": """int f(void* object, int name, int type, long long wanted, long long* count,
      void* values) {
      const int is_number = type == 3 && values && wanted > 0;
      if (is_number) *(long long*)values = name == 402 ? %d : 0;
      if (count) *count = name == 202 || is_number ? 1 : 0;
      return 0; }""" % WORKSPACE,
    "cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize":
        "int f(void* a, int b, int c, void* d, void* e, void* g, void* h, void* i, size_t* n) { *n = 1 << 20; return 0; }",
    "cudnnGetBatchNormalizationTrainingExReserveSpaceSize":
        "int f(void* a, int b, int c, void* d, void* e, size_t* n) { *n = 1 << 16; return 0; }",
    "cudnnGetBatchNormalizationBackwardExWorkspaceSize":
        "int f(void* a, int b, int c, void* d, void* e, void* g, void* h, void* i, void* j, void* k,"
        " size_t* n) { *n = 1 << 20; return 0; }",
    "cudnnDropoutGetStatesSize": "int f(void* a, size_t* n) { *n = 1 << 16; return 0; }",
    "cudnnGetRNNWeightSpaceSize": "int f(void* a, void* b, size_t* n) { *n = 1 << 20; return 0; }",
    "cudnnGetRNNTempSpaceSizes":
        "int f(void* a, void* b, int c, void* d, size_t* n, size_t* m) { *n = *m = 1 << 20; return 0; }",
    "cudnnGetProperty": "int f(int type, int* v) { *v = type == 0 ? 9 : type == 1 ? 19 : 0; return 0; }",
    "cudnnGetVersion": "size_t f() { return 91900; }",
    "cudnnGetCudartVersion": "size_t f() { return 13000; }",
    "cublasLtMatmulAlgoGetHeuristic":
        "int f(void* a, void* b, void* c, void* d, void* e, void* g, void* h, int i, void* results, int* n)"
        " { memset(results, 0, 96); *n = 1; return 0; }",
    "cublasGetVersion_v2": "int f(void* a, int* v) { *v = 130100; return 0; }",
    "cublasLtGetVersion": "size_t f() { return 130100; }",
    "ncclGetVersion": "int f(int* v) { *v = 22809; return 0; }",
}


def undefined_functions(libraries):
    """Returns the names that the libraries leave undefined, without versions."""
    lines = subprocess.run(["nm", "-D", "--undefined-only", *libraries], text=True,
                           capture_output=True, check=True).stdout.splitlines()
    return sorted({line.split()[-1].split("@")[0] for line in lines if " U " in line})


def definition(name):
    """Returns the function in C."""
    if name in ANSWERS:
        return re.sub(r"\bf\(", f"{name}(", ANSWERS[name], count=1)
    if re.match(WORDS, name):
        return f'const char* {name}() {{ return "empty library"; }}'
    if re.match(CREATES, name):
        return f"int {name}(void** made) {{ *made = calloc(1, 256); return 0; }}"
    return f"int {name}() {{ return 0; }}"


def make(folder, soname, node, names):
    """Compiles one library."""
    source = folder / f"{soname}.c"
    includes = ["#include <stddef.h>", "#include <stdlib.h>", "#include <string.h>"]
    source.write_text("\n".join(includes + [definition(name) for name in names]) + "\n")
    command = ["cc", "-w", "-shared", "-fPIC", "-O1", "-std=gnu11", "-fno-builtin", str(source),
               "-o", str(folder / soname), f"-Wl,-soname,{soname}"]
    if node is not None:
        versions = folder / f"{soname}.map"
        versions.write_text(node + " { global: *; };\n")
        command.append(f"-Wl,--version-script={versions}")
    subprocess.run(command, check=True)


def make_all(folder, libraries):
    """Makes the libraries that the given ones need."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    functions = undefined_functions(libraries)
    for soname, (node, beginning) in LIBRARIES.items():
        make(folder, soname, node, [name for name in functions if re.match(beginning, name)])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__.split("\n\n")[1])
    make_all(sys.argv[1], sys.argv[2:])

# SPDX-License-Identifier: Apache-2.0
"""Compiles the classes that derive from PyTorch's allocator, for the installed version of PyTorch.

The results are kept in a cache. It needs a C++ compiler and the headers of the CUDA Toolkit.
"""
import hashlib
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

import torch

from . import _c_api

__all__ = ["check", "compiled", "pools_library"]

# The main source of each library, below the folder of sources.
_SOURCES = {"allocator": "module.cc", "slab": "slab/module.cc"}
_OLDEST = (2, 11)  # PyTorch with the class that the allocator derives from


def pools_library():
    """Returns the path of libtidepool_c.so."""
    return pathlib.Path(_c_api.library()._name).resolve()


def _first_folder(what, candidates, file):
    for folder in candidates:
        if folder is not None and (pathlib.Path(folder) / file).exists():
            return pathlib.Path(folder)
    raise ImportError(f"{what} not found: no {file} in " +
                      ", ".join(str(folder) for folder in candidates if folder is not None))


def _sources():
    here = pathlib.Path(__file__).resolve().parent
    return _first_folder("the sources of the allocator", [
        os.environ.get("TIDEPOOL_TORCH_SOURCES"), here / "torch_allocator",
        here.parent.parent / "torch"], "module.cc")


def _system_folders():
    packages = pathlib.Path(torch.__file__).parent.parent
    torch_include = pathlib.Path(torch.__file__).parent / "include"
    nvcc = shutil.which("nvcc")
    cuda = _first_folder("the headers of the CUDA Toolkit", [
        os.environ.get("CUDA_HOME") and pathlib.Path(os.environ["CUDA_HOME"]) / "include",
        packages / "nvidia" / f"cu{torch.version.cuda.split('.')[0]}" / "include",
        nvcc and pathlib.Path(nvcc).resolve().parent.parent / "include",
        "/usr/local/cuda/include",
    ], "cuda_runtime_api.h")
    # NVIDIA's wheels lack two headers of the toolkit, which come last.
    return [torch_include, torch_include / "torch/csrc/api/include", cuda, _sources() / "cuda_crt"]


def _header_of_pools():
    here = pathlib.Path(__file__).resolve().parent
    return _first_folder("tidepool's header", [
        os.environ.get("TIDEPOOL_INCLUDE"), here / "include", here.parent.parent.parent / "include",
        "/usr/local/include", "/usr/include",
    ], "tidepool/c_api.h")


def _cache_folder():
    root = os.environ.get("TIDEPOOL_CACHE")
    if root:
        return pathlib.Path(root)
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / "tidepool"


def _runtime_path(maps="/proc/self/maps"):
    """Returns the path of the CUDA runtime that PyTorch has loaded. The process may have one of another version beside it, such as tidepool's."""
    name = f"libcudart.so.{str(torch.version.cuda).partition('.')[0]}"
    with open(maps, encoding="utf-8") as lines:
        for line in lines:
            path = line.rstrip("\n").partition("/")
            file = path[2].rpartition("/")[2]
            if file == name or file.startswith(f"{name}."):
                return "/" + path[2]
    raise ImportError(f"PyTorch has loaded no {name}; a version with CUDA is needed")


def _of_pools(library):
    """Returns the options of a library that uses tidepool's pools; the slab uses none."""
    if library != "allocator":
        return []
    pools = pools_library()
    return [f"-I{_header_of_pools()}", "-ltorch_python", "-ltorch_cuda", "-ltorch_cpu", str(pools), f"-Wl,-rpath,{pools.parent}"]


def _command(library, output):
    libraries = pathlib.Path(torch.__file__).parent / "lib"
    abi = int(torch.compiled_with_cxx11_abi())
    return [*shlex.split(os.environ.get("CXX", "c++")), "-std=c++20", "-O2", "-fPIC", "-shared",
            "-fvisibility=hidden", f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
            *(f"-isystem{folder}" for folder in _system_folders()),
            str(_sources() / _SOURCES[library]), "-o", str(output), f"-L{libraries}", *_of_pools(library),
            "-lc10_cuda", "-lc10", _runtime_path(), "-Wl,--no-undefined,--allow-shlib-undefined",
            f"-Wl,-rpath,{libraries}"]


def _digest(library):
    main = _sources() / _SOURCES[library]
    sources = sorted(main.parent.glob("*.[ch]*"))
    sources.append(_sources().parent / "support" / "private_pool.h" if library == "allocator" else _sources() / "exported.h")
    digest = hashlib.sha256()
    for source in sources:
        if source.name != "pluggable.cc":  # of a library that is built before
            digest.update(source.read_bytes())
    digest.update(" ".join(_command(library, "")).encode())
    return digest.hexdigest()[:16]


def compiled(library):
    """Returns the path of a library for this version of PyTorch, "allocator" or "slab", compiled if need be.

    ImportError if that fails. It takes some seconds.
    """
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if library == "allocator" and version < _OLDEST:
        raise ImportError(f"the allocator needs PyTorch {_OLDEST[0]}.{_OLDEST[1]} or newer, and this is {torch.__version__}")
    name = f"torch-{torch.__version__}-{library}-{_digest(library)}.so"
    path = _cache_folder() / name
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    # Several processes may compile at a time: each writes a file of its own.
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        output = pathlib.Path(folder) / name
        try:
            subprocess.run(_command(library, output), capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", "") or error
            raise ImportError(f"the {library} did not compile: {said}"[:4000]) from error
        output.replace(path)
    return path


def check(error):
    """Raises RuntimeError for the text of an error, which a function of such a library returns."""
    if error is not None:
        raise RuntimeError(error.decode(errors="replace"))

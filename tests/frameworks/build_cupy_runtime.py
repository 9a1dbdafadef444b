# SPDX-License-Identifier: Apache-2.0
"""Translates CuPy's module of the runtime API to C++: run in the folder of CuPy's source."""
import Cython
from Cython.Build import cythonize
from Cython.Compiler import Options
from setuptools import Extension

Options.docstrings = True
constants = {"CUPY_USE_CUDA_PYTHON": False, "CUPY_CUFFT_STATIC": False, "CUPY_CYTHON_VERSION": Cython.__version__,
             "CUPY_CUDA_VERSION": 13000, "CUPY_HIP_VERSION": 0}
module = Extension("cupy_backends.cuda.api.runtime", ["cupy_backends/cuda/api/runtime.pyx"], language="c++")
cythonize([module], compile_time_env=constants, include_path=["."], language_level=3, force=True,
          compiler_directives={"linetrace": False, "profile": False, "embedsignature": True})

# SPDX-License-Identifier: Apache-2.0
"""Spack: tidepool's libraries and, with +tool, its command line. `spack dev-build tidepool@main` builds a folder of sources."""
# Spack before 1.0 has CMakePackage in that module. Later ones bring it into recipes of this layout before this line, and have no such name there.
from spack.package import *


class Tidepool(CMakePackage):
    """A GPU memory pool for deep-learning frameworks that knows its trace."""

    has_code = True
    license("Apache-2.0")
    version("main")

    variant("tool", default=True, description="The command line tidepool")
    variant("cuda", default=False, description="Pools on CUDA devices")
    variant("shared", default=False, description="Shared libraries")

    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("abseil-cpp@20220623: cxxstd=20")
    depends_on("rapidjson", type="build")
    depends_on("zlib-api")
    depends_on("cli11", when="+tool", type="build")
    depends_on("nlohmann-json", when="+tool", type="build")
    depends_on("sqlite", when="+tool")
    depends_on("cuda@12:", when="+cuda")

    def cmake_args(self):
        off = [self.define(f"TIDEPOOL_{part}", False) for part in ("TESTS", "BENCHMARKS", "EXAMPLES", "JEMALLOC", "PYTHON")]
        return off + [self.define_from_variant("TIDEPOOL_TOOLS", "tool"), self.define_from_variant("TIDEPOOL_CUDA", "cuda"),
                      self.define_from_variant("BUILD_SHARED_LIBS", "shared")]

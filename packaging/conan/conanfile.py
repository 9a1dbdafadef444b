# SPDX-License-Identifier: Apache-2.0
"""Conan 2: tidepool's libraries, and its command line with the option `tool`."""
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir


class Tidepool(ConanFile):
    name = "tidepool"
    license = "Apache-2.0"
    description = "A GPU memory pool for deep-learning frameworks that knows its trace"
    topics = ("memory", "allocator", "gpu", "cuda", "deep-learning")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "tool": [True, False], "cuda": [True, False]}
    default_options = {"shared": False, "fPIC": True, "tool": True, "cuda": False}

    def set_version(self):
        project = load(self, os.path.join(self.recipe_folder, "..", "..", "CMakeLists.txt"))
        self.version = re.search(r"project\(tidepool VERSION ([0-9.]+)", project)[1]

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..")
        for pattern in ("CMakeLists.txt", "LICENSE", "NOTICE", "bindings/*", "cmake/*", "docs/design/rooms.md", "dryrun/*",
                        "include/*", "lib/*", "policies/*", "scripts/help_pages.py", "trace_replay/*"):
            copy(self, pattern, root, self.export_sources_folder)

    def requirements(self):
        self.requires("abseil/[>=20220623]", transitive_headers=True, transitive_libs=True)
        self.requires("zlib/[>=1.2.11 <2]")
        self.requires("rapidjson/[*]", visible=False)  # headers for the build alone
        if self.options.tool:
            self.requires("sqlite3/[>=3.36 <4]")
            self.requires("cli11/[>=2.1 <3]", visible=False)
            self.requires("nlohmann_json/[>=3.10 <4]", visible=False)

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for option in ("TESTS", "BENCHMARKS", "EXAMPLES", "JEMALLOC", "PYTHON"):
            toolchain.cache_variables[f"TIDEPOOL_{option}"] = "OFF"
        toolchain.cache_variables["TIDEPOOL_TOOLS"] = "ON" if self.options.tool else "OFF"
        toolchain.cache_variables["TIDEPOOL_CUDA"] = "ON" if self.options.cuda else "OFF"
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        # Conan writes the files that find the package.
        for folder in ("cmake", "pkgconfig"):
            rmdir(self, os.path.join(self.package_folder, "lib", folder))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "tidepool")
        abseil = [f"abseil::absl_{part}" for part in ("flat_hash_map", "flat_hash_set", "hash", "inlined_vector", "span", "status",
                                                      "statusor", "strings", "time")]
        self.add_component("tidepool", "tidepool", [*abseil, "zlib::zlib"])
        self.add_component("pool", "tidepool_pool", abseil)
        if self.options.tool:
            self.add_component("profile", "tidepool_profile", ["tidepool", "sqlite3::sqlite3"])
        self.add_component("c", "tidepool_c", [])

    def add_component(self, name, library, requires):
        component = self.cpp_info.components[name]
        component.set_property("cmake_target_name", f"tidepool::{name}")
        component.libs = [library]
        component.system_libs = ["pthread", "dl", "m"]
        component.requires = requires

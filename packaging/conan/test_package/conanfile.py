# SPDX-License-Identifier: Apache-2.0
"""Builds a program against the package and runs it, and the command line."""
import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class TestPackage(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeToolchain", "CMakeDeps", "VirtualRunEnv"

    def requirements(self):
        self.requires(self.tested_reference_str, run=True)  # the command line too

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if not can_run(self):
            return
        for program in ("with_all", "with_pool", "with_c"):
            self.run(os.path.join(self.cpp.build.bindir, program), env="conanrun")
        if self.dependencies["tidepool"].options.tool:
            self.run("tidepool --version", env="conanrun")

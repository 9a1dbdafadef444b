# SPDX-License-Identifier: Apache-2.0
"""Packages of this machine under the names, targets and components that those of Conan's collection have, for a machine that does not
reach the collection: `conan create tests/packaging/conan --name zlib --version 1.3`."""
from conan import ConanFile
from conan.tools.gnu import PkgConfig

# The names of the CMake package, its target, and the module of pkg-config.
PACKAGES = {
    "zlib": ("ZLIB", "ZLIB::ZLIB", "zlib"),
    "sqlite3": ("SQLite3", "SQLite::SQLite3", "sqlite3"),
    "rapidjson": ("RapidJSON", "rapidjson", "RapidJSON"),
    "cli11": ("CLI11", "CLI11::CLI11", "CLI11"),
    "nlohmann_json": ("nlohmann_json", "nlohmann_json::nlohmann_json", "nlohmann_json"),
}
PARTS_OF_ABSEIL = ("flat_hash_map", "flat_hash_set", "hash", "inlined_vector", "span", "status", "statusor", "str_format", "strings", "time")


class PackageOfThisMachine(ConanFile):
    settings = "os", "arch", "compiler", "build_type"

    def package_info(self):
        self.cpp_info.bindirs = self.cpp_info.includedirs = self.cpp_info.libdirs = []
        if self.name == "abseil":
            self.fill_abseil()
            return
        file, target, module = PACKAGES[self.name]
        self.cpp_info.set_property("cmake_file_name", file)
        self.cpp_info.set_property("cmake_target_name", target)
        PkgConfig(self, module).fill_cpp_info(self.cpp_info)

    def fill_abseil(self):
        self.cpp_info.set_property("cmake_file_name", "absl")
        for part in PARTS_OF_ABSEIL:
            component = self.cpp_info.components[f"absl_{part}"]
            component.bindirs = component.includedirs = component.libdirs = []
            component.set_property("cmake_target_name", f"absl::{part}")
            PkgConfig(self, f"absl_{part}").fill_cpp_info(component)

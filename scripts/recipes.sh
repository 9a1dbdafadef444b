#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the packages for Conan and conda, by the Conan and the rattler-build that pip installs into build/recipes, and runs their tests. This
# machine's packages stand in the place of those of the collections. Neither pip nor apt installs vcpkg and Spack: of their recipes
# tests/house/packaging_test.py compares the contents.
# usage: scripts/recipes.sh
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/build/recipes
export CONAN_HOME=$out/home
fail() { echo "recipes: $1" >&2; exit 1; }
conan() { "$out/venv/bin/conan" "$@" >>"$out/log" 2>&1 || { tail -n 60 "$out/log"; fail "conan $1 failed"; }; }

[ -x "$out/venv/bin/conan" ] || { python3 -m venv "$out/venv" && "$out/venv/bin/pip" install -q 'conan>=2,<3' py-rattler-build; }
rm -rf "$CONAN_HOME" "$out"/{log,channel}
conan profile detect
for package in abseil:absl_base zlib:zlib sqlite3:sqlite3 cli11:CLI11 nlohmann_json:nlohmann_json rapidjson:RapidJSON; do
  conan create tests/packaging/conan --no-remote --name "${package%:*}" --version "$(pkg-config --modversion "${package#*:}")"
done
version=$(sed -n 's/^project(tidepool VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
conan create packaging/conan --no-remote -s compiler.cppstd=20 -c "tools.cmake.cmaketoolchain:extra_variables={'CMAKE_UNITY_BUILD': 'ON', 'CMAKE_UNITY_BUILD_BATCH_SIZE': '16'}"
grep -q "^tidepool/$version (test package): RUN: tidepool --version" "$out/log" || fail "Conan made another version, expected $version"
echo "recipes: Conan made tidepool/$version, and its test_package ran"

CMAKE_ARGS='-DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16' "$out/venv/bin/python" tests/packaging/conda.py packaging/conda/recipe.yaml "$out/channel" >>"$out/log" 2>&1 ||
  { tail -n 60 "$out/log"; fail "rattler-build failed"; }
ls "$out/channel"/*/"tidepool-$version"-*.conda >/dev/null || fail "rattler-build made another version, expected $version"
echo "recipes: rattler-build made tidepool $version for conda, and its test ran"

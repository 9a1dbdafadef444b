#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Exports the recipe for Conan, which pip installs into build/conan, and configures the exported sources with the packages of this
# machine, as the recipe does with those of Conan. Neither pip nor apt installs vcpkg, Spack and conda:
# of their recipes tests/house/packaging_test.py compares the contents.
# usage: scripts/recipes.sh
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/build/conan
export CONAN_HOME=$out/home
fail() { echo "recipes: $1" >&2; exit 1; }

[ -x "$out/venv/bin/conan" ] || { python3 -m venv "$out/venv" && "$out/venv/bin/pip" install -q 'conan>=2,<3'; }
rm -rf "$CONAN_HOME" "$out/configured"
"$out/venv/bin/conan" export packaging/conan >"$out/log" 2>&1 || { cat "$out/log"; fail "Conan does not export its recipe"; }
version=$(sed -n 's/^project(tidepool VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
grep -q "Exported: tidepool/$version#" "$out/log" || { cat "$out/log"; fail "Conan exports another version, expected $version"; }
sources=$(dirname "$(find "$CONAN_HOME/p" -maxdepth 3 -path '*/es/CMakeLists.txt')")
cmake -S "$sources" -B "$out/configured" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTIDEPOOL_TESTS=OFF -DTIDEPOOL_EXAMPLES=OFF -DTIDEPOOL_BENCHMARKS=OFF \
  -DTIDEPOOL_PYTHON=OFF -DTIDEPOOL_JEMALLOC=OFF -DTIDEPOOL_CUDA=OFF >"$out/log" 2>&1 || { cat "$out/log"; fail "the exported sources cannot be configured"; }
# Every file that the build names is there.
missing=$(ninja -C "$out/configured" -n 2>&1 | grep 'missing and no known rule' || true)
[ -z "$missing" ] || fail "the recipe does not export all sources: $missing"
echo "recipes: Conan exports tidepool/$version"

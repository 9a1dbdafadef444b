#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The common setup of demo and tests: installs missing packages (Debian and Ubuntu) and configures
# the release build. With --ci it also installs the tools of the sanitizer, format, tidy and fuzz
# runs, and the shells with completions.
# usage: scripts/setup.sh [--ci]
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build pkg-config python3 python3-dev python3-venv python3-yaml zlib1g-dev libabsl-dev libcli11-dev nlohmann-json3-dev rapidjson-dev
          libsqlite3-dev libgtest-dev libgmock-dev libbenchmark-dev libjemalloc-dev liblz4-dev libzstd-dev)
if [ "${1:-}" = --ci ]; then
  packages+=(clang clang-format clang-tidy fish zsh)
  # The sanitizer runtimes for libFuzzer are a package of their own since Debian 12.
  apt-cache show libclang-rt-dev >/dev/null 2>&1 && packages+=(libclang-rt-dev)
  # A test opens the report in Chromium. Ubuntu has no such package, so the test is skipped there.
  apt-cache show chromium >/dev/null 2>&1 && packages+=(chromium)
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  echo "installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# The Python package needs packages of Python. Debian 12 has no nanobind, and its Python refuses packages of pip beside
# its own (PEP 668), so they lie in an environment of the build folder. Without them its tests are skipped.
requirements=bindings/python/requirements.txt
if ! cmp -s "$requirements" build/python/requirements.txt; then
  echo "installing packages of Python into build/python"
  if /usr/bin/python3 -m venv build/python && build/python/bin/pip install -q -r "$requirements"; then
    cp "$requirements" build/python/requirements.txt
    # An older configuration did not find them.
    [ ! -f build/release/build.ninja ] || cmake --preset release >/dev/null
  else
    rm -rf build/python
    echo "the packages of Python could not be installed: the Python package is not built, its tests are skipped"
  fi
fi

[ -f build/release/build.ninja ] || cmake --preset release >build-setup.log || { cat build-setup.log; exit 1; }
rm -f build-setup.log

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds all but the benchmarks and runs every test.
# usage: scripts/test.sh
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
echo "Building all but the benchmarks, which takes some ten minutes the first time:"
cmake --build build/release
ctest --test-dir build/release --output-on-failure -j "$(nproc)"

#!/usr/bin/env bash
# Builds everything and runs every test.
# usage: scripts/test.sh
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
cmake --build build/release -- --quiet
ctest --test-dir build/release --output-on-failure -j "$(nproc)"

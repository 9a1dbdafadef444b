#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs clang's analyzer on every file of the library, and looks for unused using-declarations. It takes minutes, so it is
# for releases and not a step of .ci/run. The analyzer follows calls one deep: following all of them takes three times as
# long. It needs the tools of scripts/setup.sh --ci, and no build.
# usage: scripts/analyze.sh
set -euo pipefail
cd "$(dirname "$0")/.."
# The commands of the release build compile many files at once.
cmake --preset release -B build/analyze -DCMAKE_UNITY_BUILD=OFF >/dev/null
git ls-files 'lib/*.cc' 'policies/*.cc' 'bindings/*.cc' |
  # Without the CUDA Toolkit some files are not built.
  while read -r file; do if grep -qF "$PWD/$file\"" build/analyze/compile_commands.json; then echo "$file"; fi; done |
  xargs -P "$(nproc)" -n 4 clang-tidy -p build/analyze --quiet \
    --checks='-*,clang-analyzer-*,bugprone-suspicious-include,misc-unused-using-decls,misc-unused-alias-decls' \
    --extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=mode=shallow 2>/dev/null

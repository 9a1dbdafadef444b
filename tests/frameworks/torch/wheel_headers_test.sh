#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles a program against the headers that NVIDIA's wheel for PyTorch has, which are those of the CUDA Toolkit without
# the folder crt. The headers that tidepool.torch adds serve instead; without them the program does not compile.
# usage: wheel_headers_test.sh SOURCE CUDA_INCLUDE [CXX]
set -euo pipefail
source=$1 toolkit=$(readlink -f "$2") compiler=${3:-c++}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/wheel"
ln -s "$toolkit"/*.h "$toolkit"/*.hpp "$scratch/wheel/"
cat >"$scratch/program.cc" <<'PROGRAM'
#include <cuda.h>
#include <cuda_runtime.h>
#include <memory>
cudaError_t Ask(int* count) { return cudaGetDeviceCount(count); }
PROGRAM

# The compiler's own folders but for those in which the toolkit's headers may be.
mapfile -t own < <("$compiler" -E -x c++ - -v </dev/null 2>&1 | sed -n '/search starts here/,/End of search/s/^ //p' | grep -v /usr/local)
compiles() {
  "$compiler" -nostdinc -std=c++20 -c "$scratch/program.cc" -o "$scratch/program.o" -isystem "$scratch/wheel" "$@" \
    "${own[@]/#/-isystem}" 2>"$scratch/errors"
}
if compiles; then
  echo "the program compiles without the folder crt: this test shows nothing"
  exit 1
fi
grep -q 'crt/host_.*No such file' "$scratch/errors" || { cat "$scratch/errors"; exit 1; }
compiles -isystem "$source/bindings/torch/cuda_crt" || { cat "$scratch/errors"; exit 1; }

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the classes that derive from PyTorch's allocator with the headers of each PyTorch that enable() supports, as tidepool.torch
# compiles them on first use.
. "$(dirname "$0")/common.sh"
python=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("include"))')
for version in 2.11.0 2.12.1 2.13.0 2.14.1 2.15.0; do
  wheel "torch-$version-headers" "torch==$version"
  find "$wheel" -mindepth 2 -maxdepth 2 ! -path '*/torch/include' -exec rm -r {} +  # a wheel has 1.4 GB
  include=$wheel/torch/include
  for library in module.cc slab/module.cc; do
    "${CXX:-c++}" -std=c++20 -fsyntax-only -w -isystem "$include" -isystem "$include/torch/csrc/api/include" -isystem "$CUDA/include" \
      -isystem "$python" -isystem "$SOURCE/bindings/torch/cuda_crt" "-I$SOURCE/include" "$SOURCE/bindings/torch/$library" >"$scratch/log" 2>&1 ||
      { head -n 20 "$scratch/log"; echo "bindings/torch/$library does not compile with PyTorch $version"; exit 1; }
  done
  echo "PyTorch $version: both classes compile"
done

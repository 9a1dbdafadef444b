#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The allocator for TensorRT with TensorRT's headers, called as TensorRT would call it. TensorRT itself does not run without
# a GPU. TENSORRT_INCLUDE names the folder of NvInferRuntime.h.
. "$(dirname "$0")/common.sh"
if [ ! -e "${TENSORRT_INCLUDE:-}/NvInferRuntime.h" ]; then
  echo "TENSORRT_INCLUDE names no folder with NvInferRuntime.h"
  exit 77
fi
g++ -std=c++17 -O0 -Wall -Wextra -I"$SOURCE/include" -I"$SOURCE/bindings/cuda_mr/include" \
  -I"$SOURCE/bindings/tensorrt/include" -isystem "$TENSORRT_INCLUDE" -isystem "$CUDA/include" \
  "$here/tensorrt_allocator.cc" -o "$scratch/program" "$BUILD/cudart_host/libcudart.so.13" -L"$BUILD/bindings/c" -ltidepool_c
on_stand_in "$scratch/program"

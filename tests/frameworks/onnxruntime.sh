#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ONNX Runtime's CPU wheel on a pool of host memory. The wheel has no headers: ONNXRUNTIME_INCLUDE names the folder of
# onnxruntime_c_api.h, of version 1.23 or newer.
. "$(dirname "$0")/common.sh"
if [ ! -e "${ONNXRUNTIME_INCLUDE:-}/onnxruntime_c_api.h" ]; then
  echo "ONNXRUNTIME_INCLUDE names no folder with onnxruntime_c_api.h"
  exit 77
fi
wheel onnxruntime-1.27.0 onnxruntime==1.27.0
library=$(echo "$wheel"/onnxruntime/capi/libonnxruntime.so.*)
"$PYTHON" "$here/onnx_model.py" "$scratch/model.onnx"
g++ -std=c++17 -O0 -Wall -Wextra -I"$SOURCE/include" -I"$SOURCE/bindings/cuda_mr/include" -I"$SOURCE/bindings/ort/include" \
  -isystem "$ONNXRUNTIME_INCLUDE" "$here/onnxruntime_allocator.cc" -o "$scratch/program" "$library" \
  -L"$BUILD/bindings/c" -ltidepool_c -Wl,-rpath,"$(dirname "$library")"
ln -s "$library" "$scratch/libonnxruntime.so.1"
LD_LIBRARY_PATH=$scratch on_stand_in "$scratch/program" "$scratch/model.onnx"

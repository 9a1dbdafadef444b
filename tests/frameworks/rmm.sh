#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# RMM on a pool: the C++ resource with and without RMM's base class, and the Python resource.
. "$(dirname "$0")/common.sh"
environment rmm-26.10.0 rmm-cu13==26.10.0 librmm-cu13==26.10.0 rapids-logger==0.3.0 numpy==2.4.6 cuda-bindings==13.0.3 \
  cuda-pathfinder==1.9.0
wheel rmm-25.2.0 librmm-cu12==25.2.0
includes=(-I"$SOURCE/include" -I"$SOURCE/bindings/cuda_mr/include" -isystem "$CUDA/include")
libraries=("$BUILD/cudart_host/libcudart.so.13" -L"$BUILD/bindings/c" -ltidepool_c)

# Since 26.6 there is no base class. The wheel has CCCL 3.5.
root=$packages/librmm
logger=$packages/rapids_logger
g++ -std=c++20 -O0 -Wall -Wextra -Werror "${includes[@]:0:2}" -isystem "$root/include" -isystem "$root/include/rapids" \
  -isystem "$logger/include" "${includes[@]:2}" "$here/rmm_resource.cc" -o "$scratch/new" "${libraries[@]}" \
  -L"$root/lib64" -lrmm -L"$logger/lib64" -lrapids_logger -Wl,-rpath,"$root/lib64:$logger/lib64"
on_stand_in "$scratch/new"

# Up to 25.4 RMM is headers alone, so its own calls of CUDA reach the stand-in too.
root=$wheel/librmm/include
g++ -std=c++17 -O0 -Wall -Wextra -Werror -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE -DSPDLOG_FMT_EXTERNAL \
  -DSPDLOG_HEADER_ONLY -DFMT_HEADER_ONLY "${includes[@]:0:2}" -isystem "$root" -isystem "$root/rapids" \
  -isystem "$root/rapids/libcudacxx" -idirafter "$root/rapids/thrust" "${includes[@]:2}" "$here/rmm_base_class.cc" \
  "$root/rmm/logger_impl/logger.cpp" -o "$scratch/old" "${libraries[@]}" -ldl
on_stand_in "$scratch/old"

package
on_stand_in "$environment/bin/python" "$here/rmm_test.py"
on_stand_in "$environment/bin/python" "$SOURCE/examples/frameworks/rmm_pool.py"

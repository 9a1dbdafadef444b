#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# numba-cuda's External Memory Management and cuda.core's memory resources on a pool.
. "$(dirname "$0")/common.sh"
environment numba-0.30.4 numba-cuda==0.30.4 numba==0.68.1 llvmlite==0.50.0 numpy==2.4.6 cuda-bindings==13.0.3 \
  cuda-pathfinder==1.9.0 cuda-core==1.2.2 packaging==26.3
package
on_stand_in "$environment/bin/python" "$here/numba_test.py"
NUMBA_CUDA_MEMORY_MANAGER=tidepool.numba on_stand_in "$environment/bin/python" "$SOURCE/examples/frameworks/numba_pool.py"
on_stand_in "$environment/bin/python" "$here/cuda_core_test.py"
on_stand_in "$environment/bin/python" "$SOURCE/bench/gpu/suite/cuda_core_graphs.py"
on_stand_in "$environment/bin/python" "$SOURCE/examples/frameworks/cuda_core_pool.py"

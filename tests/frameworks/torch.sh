#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An unmodified PyTorch with tidepool as its allocator. TORCH names another version. With BENCH=1, prints the memory and
# the times of PyTorch's allocators and tidepool's instead. TESTS names some of the tests.
. "$(dirname "$0")/common.sh"
version=${TORCH:-2.11.0}
environment "torch-$version" "torch==$version" numpy==2.3.5 filelock==4.2.11 typing-extensions==4.16.0 sympy==1.14.0 \
  networkx==3.6.1 jinja2==3.1.6 fsspec==2026.9.0 mpmath==1.4.1 MarkupSafe==3.0.4
own=$environment
own_packages=$packages
# RMM, which shares pools with PyTorch in one test.
environment rmm-26.10.0 rmm-cu13==26.10.0 librmm-cu13==26.10.0 rapids-logger==0.3.0 numpy==2.4.6 cuda-bindings==13.0.3 \
  cuda-pathfinder==1.9.0
export TIDEPOOL_RMM_PACKAGES=$packages
environment=$own
packages=$own_packages
package

# The libraries that PyTorch only links with.
empty=$scratch/empty_libraries
"$PYTHON" "$SOURCE/dryrun/program/tidepool_dryrun/libraries.py" "$empty" "$packages/torch/lib" "$BUILD/cudart_host"

# The command line reads the files of the tests where it is built.
[ ! -x "$BUILD/trace_replay/tidepool" ] || export TIDEPOOL_TOOL=$BUILD/trace_replay/tidepool
export TIDEPOOL_TORCH_SOURCES=$SOURCE/bindings/torch TIDEPOOL_TORCH_LIBRARY=$BUILD/bindings/torch/libtidepool_torch.so
export TIDEPOOL_INCLUDE=$SOURCE/include TIDEPOOL_CACHE=$CACHE/compiled
tool=$BUILD/tests/support/nvtx_injection/libnvtx_injection.so
[ ! -e "$tool" ] || export TIDEPOOL_NVTX_INJECTION=$tool
export CUDART_HOST_KERNELS=1 CUDART_HOST_CAPABILITY=80
export LD_LIBRARY_PATH=$empty
program=$here/torch/torch_test.py
[ -z "${BENCH:-}" ] || program=$SOURCE/bench/frameworks/torch_memory.py
# shellcheck disable=SC2086
on_stand_in "$environment/bin/python" "$program" ${TESTS:-}

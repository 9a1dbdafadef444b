#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# libcnmem.so as programs see it: its name, its exported symbols and its dependencies. Runs a C99
# program that was linked with it, a program that loads it, a process that ends without
# cnmemFinalize, a process that forks, and a process that calls cnmemFinalize after CUDA has shut
# down.
# usage: library_test.sh LIBRARY DIRECTORY_OF_STAND_IN PROGRAM LOADING_PROGRAM FORKING_PROGRAM LATE_PROGRAM
set -euo pipefail
library=$1 stand_in=$2 program=$3 loading=$4 forking=$5 late=$6
export LD_LIBRARY_PATH="$(dirname "$library"):$stand_in"

fail() { echo "$1"; exit 1; }

shown=$(nm -D --defined-only "$library" | awk '{print $3}' | sort | xargs)
[ "$shown" = "cnmemFinalize cnmemFree cnmemGetErrorString cnmemInit cnmemMalloc cnmemMemGetInfo cnmemPrintMemoryState \
cnmemRegisterStream cnmemRelease cnmemRetain" ] || fail "shows: $shown"
needed=$(readelf -d "$library")
[[ $needed == *"soname: [libcnmem.so.1]"* ]] || fail "its name: $needed"
[[ $needed == *"[libcudart.so."* ]] || fail "does not need CUDA's runtime: $needed"
for other in libcuda.so libtidepool libjemalloc; do
  if [[ $needed == *"[$other"* ]]; then fail "needs $other"; fi
done

output=$("$program")
[[ $output == "2048 of 4096"* ]] || fail "printed: $output"
[[ $output == *"used by stream 0x"* ]] || fail "printed: $output"
"$loading" "$library" | grep -qx loaded || fail "cannot be loaded"

trace=$(mktemp -u)
output=$(WITHOUT_END=1 TIDEPOOL_CNMEM_STATISTICS=1 TIDEPOOL_CNMEM_TRACE="$trace" "$program" 2>&1 >/dev/null)
[[ $output == *"cnmem on device 0: 1 allocations, 1 frees"* ]] || fail "no statistics: $output"
[ "$(stat -c %s "$trace.0.tide")" -gt 40 ] || fail "nothing was recorded"
rm -f "$trace.0.tide"

output=$(TIDEPOOL_CNMEM_STATISTICS=1 TIDEPOOL_CNMEM_TRACE="$trace" "$forking" 2>&1) || fail "a forked process did not end"
[ "$(grep -c "cnmem on device 0: 1 allocations, 1 frees" <<<"$output")" -eq 1 ] || fail "statistics: $output"
[ "$(grep -c "cnmem on" <<<"$output")" -eq 1 ] || fail "a forked process reports: $output"
rm -f "$trace.0.tide"

output=$(TIDEPOOL_CNMEM_STATISTICS=1 "$late" 2>&1) || fail "the library cannot be ended after CUDA: $output"
[[ $output == *"ended after CUDA"* && $output == *"cnmem on device 0: 1 allocations"* ]] || fail "late: $output"
[[ $output != *CUDA_ERROR* && $output != *"cannot give"* ]] || fail "late: $output"

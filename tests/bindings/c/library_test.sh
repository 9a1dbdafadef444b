#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# libtidepool_c.so as programs see it: its dependencies, and C89 and C17 programs that were linked with
# it, on the host device and, with a stand-in runtime, on a CUDA device; a process that forks; and a
# process that ends with live memory.
# usage: library_test.sh LIBRARY PROGRAM_C89 PROGRAM_C17 FORKING_PROGRAM ENDING_PROGRAM [FOLDER_OF_STAND_IN]
set -euo pipefail
library=$1 program_c89=$2 program_c17=$3 forking=$4 ending=$5 stand_in=${6:-}
export LD_LIBRARY_PATH="$(dirname "$library"):$stand_in"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() { echo "$1"; exit 1; }

needed=$(readelf -d "$library" | grep NEEDED)
for other in libcuda.so libtidepool libjemalloc; do
  if [[ $needed == *"[$other"* ]]; then fail "needs $other"; fi
done

devices=(host)
[ -z "$stand_in" ] || devices+=(cuda cuda:0)
for device in "${devices[@]}"; do
  for program in "$program_c89" "$program_c17"; do
    output=$("$program" "$device" "$scratch" 2>"$scratch/errors") || fail "$(cat "$scratch/errors")"
    [ "$output" = "done" ] || fail "printed: $output"
    grep -q "destroyed with 20.0 MiB (20971520 bytes) live in 1 allocation" "$scratch/errors" || fail "reports nothing"
    python3 -c 'import json, sys
snapshot = json.load(open(sys.argv[1]))
live = [block for block in snapshot["blocks"] if block["live"]]
assert snapshot["device"] == sys.argv[2], snapshot
assert [block["bytes"] for block in live] == [20 << 20] and live[0]["stream"] == "0x0", live
assert snapshot["statistics"]["live_bytes"] == 20 << 20, snapshot
' "$scratch/program.json" "${device/%cuda/cuda:0}" || fail "the snapshot is wrong"
    [ "$(stat -c %s "$scratch/program.tide")" -gt 40 ] || fail "nothing was recorded"
  done
  output=$("$forking" "$device" 2>&1) || fail "a forked process did not end: $output"
  output=$("$ending" "$device" "$scratch/end" 2>&1) || fail "a process could not end: $output"
  [[ $output == *"2 allocations, 1 frees"* ]] || fail "no statistics at the end: $output"
  [ "$(stat -c %s "$scratch"/end.*.tide | sort -n | head -1)" -gt 40 ] || fail "nothing was recorded at the end"
  rm "$scratch"/end.*.tide
done
echo "${devices[*]}"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program that was linked with the toolkit's libcudart.so runs unchanged on the stand-in, as
# configured by the environment. The stand-in has every symbol of the toolkit's library, with the
# same version.
# usage: program_test.sh PROGRAM DIRECTORY_OF_STAND_IN TOOLKIT_LIBRARY
set -euo pipefail
program=$1 stand_in=$2 toolkit=$3

fail() { echo "$1"; exit 1; }
run() { env LD_LIBRARY_PATH="$stand_in" "$@"; }

output=$(run CUDART_HOST_DEVICES=2 CUDART_HOST_MEMORY=8388608 "$program")
expected='tidepool stand-in, no GPU (0): 8388608 bytes, 1
tidepool stand-in, no GPU (1): 8388608 bytes, 1'
[ "$output" = "$expected" ] || fail "printed: $output"

# The most memory that was held of the host and of each device, and no refused request.
record=$(mktemp -d)
trap 'rm -rf "$record"' EXIT
run CUDART_HOST_DEVICES=2 CUDART_HOST_FOLDER="$record" "$program" >/dev/null
output=$(od -An -v -w16 -td8 "$record"/memory-* | xargs)
[ "$output" = "1052672 0 1048576 0 1048576 0" ] || fail "recorded: $output"

output=$(run CUDART_HOST_FAIL=cudaMalloc:2:2 CUDART_HOST_DEVICES=2 "$program") && fail "the fault was not seen"
[[ $output == *"cudaErrorMemoryAllocation (out of memory)"* ]] || fail "printed: $output"
output=$(run CUDART_HOST_DEVICES=0 "$program") && fail "there is a device"
[[ $output == *cudaErrorNoDevice* ]] || fail "printed: $output"
output=$(run CUDART_HOST_MEMORY=lots CUDART_HOST_FAIL=nonsense "$program" 2>&1 >/dev/null)
[[ $output == *"CUDART_HOST_MEMORY=lots is ignored, expected"* ]] || fail "printed: $output"
[[ $output == *"CUDART_HOST_FAIL=nonsense is ignored, expected"* ]] || fail "printed: $output"

symbols() { nm -D --defined-only --with-symbol-versions "$1" | awk '$3 ~ /^_*cuda/ {print $3}' | sort; }
missing=$(comm -23 <(symbols "$toolkit") <(symbols "$stand_in/$(basename "$toolkit")"))
[ -z "$missing" ] || fail "symbols that the stand-in lacks: $missing"
others=$(nm -D --defined-only "$stand_in/$(basename "$toolkit")" | awk '$2 != "A" && $3 !~ /^_*cuda/ {print $3}')
[ -z "$others" ] || fail "symbols that nobody should see: $others"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The libraries of divided convolutions as programs see them: their symbols, and one program three times: with cuDNN alone, with
# the library of the header, and with the other library loaded before cuDNN. The numbers are the same, and the workspaces keep
# to the limit. Several processes share a file of measurements.
# usage: library_test.sh LIBRARY PRELOADED_LIBRARY PLAIN_PROGRAM DIVIDED_PROGRAM
set -euo pipefail
library=$1 preloaded=$2 plain=$3 divided=$4

fail() { echo "$1"; exit 1; }

shown() { nm -D --defined-only "$1" | awk '$2 == "T" {print $3}' | sort; }
[ "$(shown "$library" | grep -c '^tidepoolCudnn')" -eq 30 ] || fail "shows: $(shown "$library" | xargs)"
[ "$(shown "$library" | grep -vc '^tidepoolCudnn')" -eq 0 ] || fail "shows: $(shown "$library" | xargs)"
[ "$(shown "$preloaded" | grep -c '^cudnn')" -eq 27 ] || fail "shows: $(shown "$preloaded" | xargs)"
for each in "$library" "$preloaded"; do
  for other in libcudnn libcuda.so libtidepool; do
    if readelf -d "$each" | grep NEEDED | grep -q "$other"; then fail "$each needs $other"; fi
  done
done

# Under a sanitizer its own library must come first.
sanitizer=$(ldd "$plain" | awk '/lib(asan|tsan)/ {print $3}')
preload() { env LD_PRELOAD="${sanitizer:+$sanitizer:}$preloaded" "$plain"; }
sums() { grep gradients <<<"$1"; }
most() { awk '/bytes of workspace$/ {if ($5 > most) most = $5} END {print most + 0}' <<<"$1"; }

# The fast algorithm takes a tenth of the time, and 100 kB of workspace for each sample.
CUDNN_HOST_TABLE=$(mktemp)
trap 'rm -f "$CUDNN_HOST_TABLE"' EXIT
export CUDNN_HOST_TABLE
{
  echo "pass,layer,samples,algorithm,milliseconds,workspace_bytes"
  for pass in forward data filter; do
    for samples in 1 2 4 8 16; do
      echo "$pass,*,$samples,0,$samples,0"
      echo "$pass,*,$samples,1,0.1$samples,${samples}00000"
    done
  done
} >"$CUDNN_HOST_TABLE"

alone=$("$plain")
[ "$(most "$alone")" -eq 1600000 ] || fail "the plain program needs no workspace: $alone"
for way in "$divided" preload; do
  for limit in 0 400000; do
    output=$(TIDEPOOL_CUDNN_LIMIT=$limit $way)
    [ "$(sums "$output")" = "$(sums "$alone")" ] || fail "$way: $output, expected $alone"
    [ "$(most "$output")" -eq $limit ] || fail "$way: $output"
  done
  output=$(TIDEPOOL_CUDNN_TOTAL=2MiB TIDEPOOL_CUDNN_STATISTICS=1 $way 2>&1)
  [ "$(sums "$output")" = "$(sums "$alone")" ] || fail "$way: $output, expected $alone"
  [ "$(most "$output")" -eq 0 ] || fail "$way: $output"
  [[ $output == *"12 convolutions, 12 in micro-batches, 0 with a slower plan; 6 kernels"* ]] || fail "$way: $output"
  output=$(TIDEPOOL_CUDNN_LIMIT=much TIDEPOOL_CUDNN_POLCY=all $way 2>&1)
  [ "$(sums "$output")" = "$(sums "$alone")" ] || fail "$way: $output"
  [ "$(grep -c "is ignored, expected" <<<"$output")" -eq 2 ] || fail "$way: $output"
done
# Several processes measure into one file. A later one measures nothing.
database=$(mktemp -u)
trap 'rm -f "$CUDNN_HOST_TABLE" "$database"' EXIT
export TIDEPOOL_CUDNN_DATABASE=$database TIDEPOOL_CUDNN_LIMIT=400000 TIDEPOOL_CUDNN_STATISTICS=1
for i in 1 2 3; do "$divided" >"$database.$i" 2>&1 & done
wait
for i in 1 2 3; do
  output=$(cat "$database.$i")
  rm "$database.$i"
  [ "$(sums "$output")" = "$(sums "$alone")" ] || fail "process $i: $output"
  [[ $output != *"not kept"* && $output != *"not read"* ]] || fail "process $i: $output"
done
output=$(preload 2>&1)
[[ $output == *" 0 micro-batches measured"* ]] || fail "after others: $output"
echo "passed"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program of two graphs of cuDNN, alone and with the library loaded before cuDNN: the numbers are the same, and the
# workspace keeps to the limit.
# usage: graph_program_test.sh PRELOADED_LIBRARY PROGRAM
set -euo pipefail
preloaded=$1 program=$2

fail() { echo "$1"; exit 1; }

CUDNN_HOST_TABLE=$(mktemp)
trap 'rm -f "$CUDNN_HOST_TABLE"' EXIT
export CUDNN_HOST_TABLE
{
  echo "pass,layer,samples,algorithm,milliseconds,workspace_bytes"
  for samples in 1 2 4 8; do
    echo "forward,*,$samples,0,$samples,0"
    echo "forward,*,$samples,1,0.1$samples,${samples}000"
  done
} >"$CUDNN_HOST_TABLE"
# The clock of events takes these times.
export CUDART_HOST_KERNELS=1 CUDART_HOST_ASSUMED_BYTES_PER_SECOND=1e12

# Under a sanitizer its own library must come first.
sanitizer=$(ldd "$program" | awk '/lib(asan|tsan)/ {print $3}')
alone=$("$program")
[[ $alone == "8000 bytes of workspace"* ]] || fail "alone: $alone"
for limit in 0 2000 8000; do
  output=$(LD_PRELOAD="${sanitizer:+$sanitizer:}$preloaded" TIDEPOOL_CUDNN_LIMIT=$limit TIDEPOOL_CUDNN_STATISTICS=1 \
    "$program" 2>&1)
  [ "$(grep -cx "$limit bytes of workspace" <<<"$output")" = 2 ] || fail "limit $limit: $output"
  [ "$(grep sums <<<"$output")" = "$(grep sums <<<"$alone")" ] || fail "limit $limit: $output, expected $alone"
  taken=$((limit < 8000 ? 2 : 0))
  [[ $output == *"$taken plans of graphs taken over, 0 larger than the limit left"* ]] || fail "limit $limit: $output"
done
echo "passed"

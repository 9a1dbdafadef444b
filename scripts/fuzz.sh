#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes every reader for a number of seconds, starting from small examples and the beginnings of
# the shipped traces.
# usage: scripts/fuzz.sh SECONDS
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?usage: scripts/fuzz.sh SECONDS}
cmake --preset fuzz >/dev/null
cmake --build build/fuzz -- --quiet

fuzz() {
  local target=$1 corpus=build/fuzz/corpus/$1
  mkdir -p "$corpus"
  cp tests/fuzz/seeds/"$target"/* "$corpus"
  if [ "$target" = rmm ] || [ "$target" = gzip ]; then
    for trace in examples/traces/*.rmm.csv.gz; do
      local head=$corpus/$(basename "$trace" .csv.gz)
      sed -n 1,100p <(zcat "$trace") >"$head"
      [ "$target" = rmm ] || gzip -nf "$head"
    done
  fi
  local dictionary=()
  [ ! -f "tests/fuzz/$target.dict" ] || dictionary=(-dict="tests/fuzz/$target.dict")
  build/fuzz/tests/fuzz/"${target}"_fuzz "${dictionary[@]}" -max_total_time="$seconds" -max_len=16384 -timeout=20 -rss_limit_mb=2048 \
    -print_final_stats=1 "$corpus" >"build/fuzz/$target.log" 2>&1 ||
    { tail -n 40 "build/fuzz/$target.log"; return 1; }
  echo "$target: $(grep -o 'stat::number_of_executed_units: *[0-9]*' "build/fuzz/$target.log" | grep -o '[0-9]*$') inputs"
}
export -f fuzz
export seconds
printf '%s\n' operation rmm lifetime gzip native plan chrome_trace memory_timeline heap_profile rmm_debug_log pytorch_snapshot zero_value graph chain schedule | xargs -P "$(nproc)" -I{} bash -euo pipefail -c 'fuzz {}'

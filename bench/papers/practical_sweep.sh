#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measures practical_sweep for docs/performance.md, and writes the page: with a whole core, with a third of one, and by work. It takes
# some ten minutes of the processor. The clock is that of the processor, but on a quiet machine each second of it does most.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake --build build/release --target practical_sweep slow_clock
out=$(mktemp)
program=build/release/bench/practical_sweep
clock=build/release/tests/libslow_clock.so
{
  echo "\$ SLOW_CLOCK=1 LD_PRELOAD=$clock $program --by-clock"
  SLOW_CLOCK=1 LD_PRELOAD=$clock $program --by-clock
  echo
  echo "\$ SLOW_CLOCK=3 LD_PRELOAD=$clock $program --by-clock --no-others"
  SLOW_CLOCK=3 LD_PRELOAD=$clock $program --by-clock --no-others
  echo
  echo "\$ $program --percents 20,35,50,60,70,80,90"
  $program --percents 20,35,50,60,70,80,90
} > "$out"
rm -f bench/results/*-practical_sweep.txt
mv "$out" "bench/results/$(date +%F)-practical_sweep.txt"
chmod 644 bench/results/*-practical_sweep.txt
scripts/performance_page.py

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a program that links tidepool::pool, and looks for rooms that the pool must not bring along.
# usage: pool_alone_test.sh PROGRAM LIBRARY
set -euo pipefail
program=$1 library=$2

"$program" | grep "100 allocations"
for file in "$program" "$library"; do
  if nm -C --defined-only "$file" 2>/dev/null |
    grep -E 'rapidjson|tidepool::(io|trace|csv|native|chrome|pytorch|trace_files|plan_files|graph|models|schedule|zvc)::'; then
    echo "$file has parts that no pool needs"
    exit 1
  fi
done
if readelf -d "$program" | grep 'libz\.so'; then
  echo "$program needs zlib"
  exit 1
fi

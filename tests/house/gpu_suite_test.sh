#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests scripts/gpu_suite.sh with programs that print prepared texts in place of the real programs.
# Its file is JSON whichever program fails, and its exit status reports each failure.
# usage: gpu_suite_test.sh SOURCE_FOLDER
set -uo pipefail
suite=$1/scripts/gpu_suite.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/build/gpu" "$work/build/trace_replay" "$work/bin"

# Writes a program that prints $TEXT_OF_name and ends with $STATUS_OF_name.
program() {
  printf '#!/bin/bash\nname=%s\n%s\nprintf "%%s" "$(printenv "TEXT_OF_$name")"\nexit "$(printenv "STATUS_OF_$name" || echo 0)"\n' \
    "$2" "$3" >"$1"
  chmod +x "$1"
}
program "$work/build/gpu/gpu_bench" bench ''
program "$work/build/trace_replay/tidepool" replay ''
program "$work/build/gpu/gpu_test" tests '
case $1 in
  --gtest_filter=None) exit "${STATUS_OF_probe:-0}" ;;
  --gtest_output=json:*) [ -z "${CRASHES-}" ] && printf "{\n  \"tests\": 3,\n  \"failures\": 1,\n  \"disabled\": 0,\n  \"errors\": 0,\n" >"${1#*:}" ;;
esac'
program "$work/bin/python3" python 'exit 1'  # no PyTorch here
program "$work/bin/compute-sanitizer" memcheck 'echo "========= ERROR SUMMARY: 0 errors"'
python=$(command -v python3)
export TEXT_OF_bench='{"bench": 1}' TEXT_OF_replay='{"replay": 2}'

fail() { echo "$1"; exit 1; }
# usage: expect STATUS CONDITION [VARIABLE=VALUE...]: checks the status of the suite, and a
# condition on its file
expect() {
  local status=$1 condition=$2
  shift 2
  rm -f "$work/out.json"
  env "$@" PATH="$work/bin:$PATH" "$suite" "$work/build" "$work/out.json" >"$work/log" 2>&1
  [ $? -eq "$status" ] || fail "$*: not the status $status: $(cat "$work/log")"
  "$python" -c "import json, sys; file = json.load(open(sys.argv[1])); assert $condition, file" "$work/out.json" ||
    fail "$*: the file is not as expected: $(cat "$work/out.json")"
}

expect 0 'file["bench"] == {"bench": 1} and file["replay"] == {"replay": 2} and file["pytorch"] is None and file["cudnn_float"] is None'
expect 0 'file["tests"] == {"tests": 3, "failures": 1, "errors": 0} and "0 errors" in file["memcheck"]'
expect 1 'file["bench"] is None and file["steps"]["bench"]["exit_status"] == 139' STATUS_OF_bench=139 TEXT_OF_bench='{"half":'
expect 1 'file["replay"] is None and file["bench"] == {"bench": 1}' STATUS_OF_replay=1 TEXT_OF_replay='{"half'
expect 1 'file["tests"] == {} and file["steps"]["tests"]["exit_status"] == 134' STATUS_OF_tests=134 CRASHES=1

for out in "$work/no/folder.json" "$work"; do
  PATH="$work/bin:$PATH" "$suite" "$work/build" "$out" >"$work/log" 2>&1
  [ $? -eq 1 ] && grep -q 'cannot be written' "$work/log" || fail "figures that cannot be written: $(cat "$work/log")"
done
STATUS_OF_probe=77 STATUS_OF_replay=1 "$suite" "$work/build" "$work/none.json" >"$work/log" 2>&1
[ $? -eq 0 ] && [ ! -e "$work/none.json" ] || fail "without a GPU: $(cat "$work/log")"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures a machine with a GPU. Runs tests with kernels, compute-sanitizer on a short part of them,
# and benchmarks. With cuDNN, it also measures whether micro-batches pay; with PyTorch installed, it
# measures PyTorch's allocator and records traces of training steps. Writes one JSON file, with the traces next to it. The machine needs only a driver.
# Build before, on any machine:
#   cmake --preset gpu && cmake --build build/gpu
# Exit status: 0 all passed, or there is no GPU; 1 a step failed, and the file names it.
# usage: scripts/gpu_suite.sh [BUILD_FOLDER [OUT.json]]
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/gpu}
out=${2:-gpu_suite.json}
tests=$build/gpu/gpu_test
bench=$build/gpu/gpu_bench
tool=$build/trace_replay/tidepool
# The toolkit installs compute-sanitizer here, and a shell's PATH may lack the folder.
PATH=$PATH:/usr/local/cuda/bin

for program in "$tests" "$bench" "$tool"; do
  [ -x "$program" ] || { echo "gpu_suite: $program does not exist: build it with cmake --preset gpu" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# The probe needs no GPU: the programs start, and report a missing GPU.
"$tests" --gtest_filter=None >"$work/probe" 2>&1
probe=$?
if [ $probe -eq 77 ]; then
  if "$tool" replay examples/traces/vgg16-b4-sgd.rmm.csv.gz --pool 1GiB --device cuda >/dev/null 2>"$work/told"; then
    echo "gpu_suite: replay --device cuda succeeded without a GPU" >&2
    exit 1
  fi
  cat "$work/probe" "$work/told"
  echo "gpu_suite: without a GPU nothing was measured"
  exit 0
fi
[ $probe -eq 0 ] || { cat "$work/probe" >&2; exit 1; }

# Checks that the file can be written before ten minutes of measurements.
if [ -e "$out" ] && [ ! -f "$out" ] || ! : >"$out.part"; then
  echo "gpu_suite: $out cannot be written: choose another path for the figures" >&2
  exit 1
fi

# Runs a step, keeps its log, and notes its exit status in the file: 124 if it hung.
step_seconds=240
steps=()
step() {
  local name=$1 begin=$SECONDS status
  shift
  timeout --kill-after 10 "$step_seconds" "$@" >"$work/$name.log" 2>&1
  status=$?
  [ $status -eq 0 ] || { failed=1; echo "gpu_suite: $name failed:"; tail -n 40 "$work/$name.log"; }
  echo "gpu_suite: $name: exit status $status, $((SECONDS - begin)) s"
  steps+=("\"$name\": {\"exit_status\": $status, \"seconds\": $((SECONDS - begin))}")
  return $status
}
# Runs a step that prints JSON. A failed step may have printed only a part of it, which is
# discarded.
json_step() {
  local name=$1
  shift
  step "$name" bash -c 'out=$1; shift; "$@" >"$out"' - "$work/$name.json" "$@" || rm -f "$work/$name.json"
}
json_or_null() { if [ -s "$1" ]; then cat "$1"; else echo null; fi; }

step tests "$tests" --gtest_output="json:$work/tests.json"
if command -v compute-sanitizer >/dev/null; then
  step memcheck compute-sanitizer --tool memcheck --error-exitcode 1 "$tests" \
    --gtest_filter='GpuRemapTest.*:Memory/GpuPoolTest.Gives*'
  memcheck=\"$(grep -o 'ERROR SUMMARY.*' "$work/memcheck.log" | tail -n 1)\"
else
  memcheck='"compute-sanitizer is not there"'
fi
json_step bench "$bench"
json_step replay "$tool" replay examples/traces/vgg16-b4-sgd.rmm.csv.gz --pool 1GiB --device cuda --json
# The tool of the preset gpu has the functions for micro-batches in itself. The last lines say where cuDNN needs no division.
workspaces() { json_step "$1" python3 bench/gpu/cudnn_workspaces.py "$tool" "${@:2}" && cat "$work/$1.log"; }
if python3 -c 'import ctypes; ctypes.CDLL("libcudnn.so.9")' 2>/dev/null; then
  for type in float half; do
    workspaces "cudnn_$type" --type "$type" alexnet-grouped:256 resnet-50:32
    workspaces "cudnn_all_$type" --type "$type" --policy all alexnet-grouped:256 resnet-50:32
    workspaces "cudnn_deepbench_$type" --type "$type" deepbench:4
  done
fi
if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
  json_step pytorch python3 bench/gpu/pytorch_allocator_bench.py
  traces=$(dirname "$out")/traces
  mkdir -p "$traces"
  step traces python3 scripts/record_training_steps.py "$tool" "$traces"
fi

grep -o '"tests": [0-9]*\|"failures": [0-9]*\|"errors": [0-9]*' "$work/tests.json" 2>/dev/null |
  head -n 3 >"$work/counts"
{
  printf '{"command": "scripts/gpu_suite.sh",\n"date": "%s",\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
  printf '"cpu": "%s",\n"kernel": "%s",\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(uname -r)"
  printf '"driver": "%s",\n' "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1)"
  printf '"steps": {%s},\n' "$(IFS=,; echo "${steps[*]}")"
  printf '"tests": {%s},\n' "$(paste -sd, "$work/counts")"
  printf '"memcheck": %s,\n' "$memcheck"
  printf '"bench": %s,\n' "$(json_or_null "$work/bench.json")"
  printf '"replay": %s,\n' "$(json_or_null "$work/replay.json")"
  for type in float half; do
    for name in cudnn cudnn_all cudnn_deepbench; do
      printf '"%s_%s": %s,\n' "$name" "$type" "$(json_or_null "$work/${name}_$type.json")"
    done
  done
  printf '"pytorch": %s}\n' "$(json_or_null "$work/pytorch.json")"
} >"$out.part" && mv "$out.part" "$out" || { echo "gpu_suite: $out cannot be written" >&2; exit 1; }
echo "gpu_suite: wrote $out"
exit $failed

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs real frameworks on tidepool's pools and the stand-in CUDA runtime, without a GPU: their unmodified wheels, in
# pinned versions. Needs build/release. Wheels and virtual environments are kept in TIDEPOOL_FRAMEWORKS
# (~/.cache/tidepool-frameworks), so later runs download nothing. A framework that pip cannot install is skipped with a
# line that says so. TIDEPOOL_QUICK=1 leaves out the dry runs that take long.
# usage: scripts/framework_tests.sh [torch|torch_versions|torch_compile|cupy|rmm|numba|onnxruntime|tensorrt|dryrun|dryrun_steps|all]...
set -euo pipefail
cd "$(dirname "$0")/.."
export SOURCE=$PWD BUILD=$PWD/build/release
export CACHE=${TIDEPOOL_FRAMEWORKS:-$HOME/.cache/tidepool-frameworks}
export CUDA=${CUDA:-/usr/local/cuda} PYTHON=${PYTHON:-python3}
known="torch torch_versions torch_compile cupy rmm numba onnxruntime tensorrt dryrun dryrun_steps"
wanted=${*:-all}
[ "$wanted" != all ] || wanted=$known
mkdir -p "$CACHE"
if [ ! -e "$BUILD/cudart_host/libcudart.so.13" ]; then
  echo "skipped: $BUILD has no stand-in runtime, which needs the CUDA Toolkit 13"
  exit 0
fi

for name in $wanted; do
  [[ " $known " == *" $name "* ]] || { echo "no framework '$name', expected one of $known, all"; exit 1; }
  echo "== $name"
  if [ ! -x "tests/frameworks/$name.sh" ]; then
    echo "skipped: there is no test"
    continue
  fi
  status=0
  "tests/frameworks/$name.sh" || status=$?
  [ "$status" != 77 ] || echo "skipped: $name cannot be installed here"
  [ "$status" = 0 ] || [ "$status" = 77 ] || exit "$status"
done

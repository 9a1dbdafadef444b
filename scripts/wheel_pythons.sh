#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a wheel for each Python that tidepool supports and uses it as a user does: pip installs PyTorch and the wheel into a fresh
# environment, and `tidepool dryrun -- python train.py` answers there, with nothing else in PATH and none of the caller's variables.
# With a compiler in PATH, `tidepool.torch.enable()` compiles its class from the sources in the wheel; PyTorch 2.8 takes the one without.
# Names the Pythons that this machine does not have. An environment takes 6 GB of disk, one at a time.
# usage: [ABSEIL=FOLDER] [PLATFORM=TAG] scripts/wheel_pythons.sh [VERSION...]      default: 3.9 3.10 3.11 3.12 3.13
set -euo pipefail
cd "$(dirname "$0")/.."

versions=("$@")
[ $# -gt 0 ] || versions=(3.9 3.10 3.11 3.12 3.13)
out=$PWD/build/wheel-pythons
fail() { echo "wheel_pythons: $1" >&2; exit 1; }

# Prints the interpreter of a version that has headers: in PATH, or of pyenv.
find_python() {
  local candidate
  for candidate in "$(command -v "python$1")" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
    "$candidate" -c "
import os, sys, sysconfig
sys.exit('%d.%d' % sys.version_info[:2] != '$1' or not os.path.exists(sysconfig.get_path('include') + '/Python.h'))" 2>/dev/null || continue
    echo "$candidate"
    return
  done
}

# Makes the wheel for an interpreter.
make_wheel() {
  "$1" -m venv "$out/build"
  # The other packages are for tests, and need a newer Python.
  grep -E '^(nanobind|scikit-build-core)==' bindings/python/requirements.txt >"$out/requirements.txt"
  "$out/build/bin/pip" install -q -r "$out/requirements.txt"
  scripts/wheel.sh "$out/build/bin/python"
}

# Runs a program of the fresh environment in an empty folder.
alone() { (cd "$out/user" && env -i PATH="$out/fresh/bin" HOME="$out/user" "$@"); }

# Uses the wheel for an interpreter with a version of PyTorch. The bytes that are live at the peak depend on it, and the method of enable().
use_wheel() {
  "$1" -m venv "$out/fresh"
  mkdir "$out/user"
  cat >"$out/user/on_a_pool.py" <<'END'
import sys, tidepool.torch
tidepool.torch.enable(method=sys.argv[1])
import torch
values = torch.ones(1 << 20, device="cuda")
assert tidepool.torch.statistics()["live_bytes"] == torch.cuda.memory_allocated() == 4 << 20
END
  cp tests/frameworks/dryrun/train.py examples/traces/vgg16-b4-sgd.rmm.csv.gz "$out/user"
  "$out/fresh/bin/pip" install -q "torch==$2"
  "$out/fresh/bin/pip" install -q build/wheels/tidepool-*.whl
  alone tidepool size vgg16-b4-sgd.rmm.csv.gz --json >"$out/size.json"
  alone tidepool dryrun --steps 1 --json -- python train.py >"$out/answer.json"
  alone python - "$out" "$3" <<'END'
import json, sys, tidepool
size = json.load(open(sys.argv[1] + "/size.json"))
assert tidepool.read("vgg16-b4-sgd.rmm.csv.gz").size().to_dict() == size, size
answer = json.load(open(sys.argv[1] + "/answer.json"))
found = {name: answer[name] for name in ("fits", "steps", "peak_live_bytes", "peak_reserved_bytes")}
assert found == {"fits": True, "steps": 1, "peak_live_bytes": int(sys.argv[2]), "peak_reserved_bytes": 241172480}, found
END
  alone /usr/bin/env PATH="$out/fresh/bin:/usr/bin:/bin" tidepool dryrun -- python on_a_pool.py "$4"
}

tried=0
for version in "${versions[@]}"; do
  python=$(find_python "$version")
  if [ -z "$python" ]; then
    echo "wheel_pythons: Python $version was not tried, because it is not on this machine with its headers"
    continue
  fi
  torch=2.11.0 peak_live=236032512 method=compiled
  [ "$version" != 3.9 ] || torch=2.8.0 peak_live=234983936 method=pluggable  # the last PyTorch for it
  rm -rf "$out"
  mkdir -p "$out"
  make_wheel "$python"
  echo "wheel_pythons: using the wheel for Python $version with PyTorch $torch"
  use_wheel "$python" "$torch" "$peak_live" "$method"  # not in a condition, where bash goes on after an error
  echo "wheel_pythons: the wheel for Python $version works with PyTorch $torch"
  tried=$((tried + 1))
done
[ "$tried" -gt 0 ] || fail "no Python was tried, expected one of ${versions[*]} with its headers"
rm -rf "$out"

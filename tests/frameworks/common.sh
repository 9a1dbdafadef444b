# SPDX-License-Identifier: Apache-2.0
# Functions of the framework tests. A test sources this file; scripts/framework_tests.sh sets SOURCE, BUILD, CACHE, CUDA
# and PYTHON.
set -euo pipefail

here=$SOURCE/tests/frameworks
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# The stand-in is as strict as the driver of a GPU, in dry runs too.
export CUDART_HOST_DIES_OF_DESTROYED_STREAMS=1 CUDART_HOST_ONE_HOST_THREAD=1

# Makes the virtual environment NAME with pinned packages and nothing else, unless the cache has it: `environment NAME
# PACKAGE...`. Sets `environment` and `packages` (its site-packages). Ends the test as skipped if pip fails. Tests that
# run beside each other install an environment once.
environment() {
  make_environment --no-deps "$@"
}

# Makes a virtual environment as users do, with all that the packages depend on: `ordinary_environment NAME PACKAGE...`. With `below` it lies on
# top of that folder of packages: `below=$packages ordinary_environment NAME PACKAGE...`.
ordinary_environment() {
  make_environment '' "$@"
}

make_environment() {
  local options=$1
  environment=$CACHE/$2
  shift 2
  exec 9>"$environment.lock"
  flock 9
  if [ "$(cat "$environment/packages.txt" 2>/dev/null)" != "$*" ]; then
    rm -rf "$environment"
    if ! "$PYTHON" -m venv "$environment" >"$scratch/venv" 2>&1; then
      tail -n 3 "$scratch/venv"
      rm -rf "$environment"
      exit 77
    fi
    [ -z "${below:-}" ] || echo "$below" >"$(echo "$environment"/lib/python3*/site-packages)/below.pth"
    # shellcheck disable=SC2086 # no option is one word less
    if ! "$environment/bin/pip" install -q --disable-pip-version-check $options "$@" >"$scratch/pip" 2>&1; then
      tail -n 3 "$scratch/pip"
      rm -rf "$environment"
      exit 77
    fi
    echo "$*" >"$environment/packages.txt"
  fi
  exec 9>&-
  packages=$(echo "$environment"/lib/python3*/site-packages)
}

# Downloads and unpacks a wheel, unless the cache has it: `wheel NAME REQUIREMENT`. Sets `wheel`, its folder.
wheel() {
  wheel=$CACHE/$1
  [ ! -e "$wheel/done" ] || return 0
  rm -rf "$wheel"
  mkdir -p "$wheel"
  if ! "$PYTHON" -m pip download -q --disable-pip-version-check --no-deps -d "$wheel" "$2" >"$scratch/pip" 2>&1; then
    tail -n 3 "$scratch/pip"
    exit 77
  fi
  "$PYTHON" -m zipfile -e "$wheel"/*.whl "$wheel"
  rm "$wheel"/*.whl
  touch "$wheel/done"
}

# The package tidepool: of the build tree, or its sources where the compiled module was not built. Integrations need it not.
package() {
  export TIDEPOOL_C_LIBRARY=$BUILD/bindings/c
  if ls "$BUILD"/python/tidepool/_native*.so >/dev/null 2>&1; then
    export PYTHONPATH=$BUILD/python
    return
  fi
  mkdir -p "$scratch/python/tidepool"
  ln -s "$SOURCE"/bindings/python/tidepool/*.py "$SOURCE"/bindings/python/tidepool/_torch_{compile,offload} "$scratch/python/tidepool"
  ln -s "$SOURCE/bindings/python/tidepool_startup" "$scratch/python"
  export PYTHONPATH=$scratch/python
}

# Runs a command on the stand-in runtime, with a device of 8 GiB unless CUDART_HOST_MEMORY is set.
on_stand_in() {
  LD_LIBRARY_PATH="$BUILD/cudart_host:$BUILD/bindings/c${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    CUDART_HOST_MEMORY=${CUDART_HOST_MEMORY:-8589934592} "$@"
}

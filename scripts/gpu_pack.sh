#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the folder .gpu: all that scripts/gpu_suite.sh runs beside the tracked files, for a machine with a driver, Python 3 and
# perhaps PyTorch. Programs of the preset gpu, libtidepool_c.so with Abseil's libraries, the bindings, and the Python package.
# The module tidepool._native comes along only if it was built for Python 3.12; tidepool.torch and others need it not.
# Build before: cmake --preset gpu && cmake --build --preset gpu, and the targets tidepool_c tidepool_torch cnmem cnmem_bench
# of the preset release.
# usage: scripts/gpu_pack.sh [RELEASE_BUILD [GPU_BUILD [FOLDER]]]
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
release=${1:-$source/build/release}
gpu=${2:-$source/build/gpu}
to=${3:-$source/.gpu}
limit_mib=48

refuse() { echo "gpu_pack: $1" >&2; exit 1; }

# usage: copy FOLDER HINT FILE...
copy() {
  local folder=$1 hint=$2 file
  shift 2
  for file in "$@"; do
    [ -e "$file" ] || refuse "$file does not exist: $hint"
    cp -L "$file" "$folder/"
  done
}
needed() { objdump -p "$1" | awk '/NEEDED/ {print $2}'; }
# usage: check FILE PATTERN...: each library that the file needs matches a pattern or lies in the pack.
check() {
  local file=$1 library pattern
  shift
  for library in $(needed "$file"); do
    [ ! -e "$to/lib/$library" ] || continue
    for pattern in "$@"; do
      # shellcheck disable=SC2254
      case $library in $pattern) continue 2 ;; esac
    done
    refuse "${file##*/} needs $library, expected nothing but $*"
  done
}

rm -rf "$to"
mkdir -p "$to/bin" "$to/lib" "$to/python/tidepool"
copy "$to/bin" "build it with cmake --preset gpu && cmake --build --preset gpu" \
  "$gpu"/gpu/gpu_{test,bench,probe} "$gpu/trace_replay/tidepool"
for program in "$to"/bin/*; do check "$program" libc.so.6 libm.so.6 'ld-linux*' libcuda.so.1; done

libraries=("$release/bindings/c/libtidepool_c.so" "$release/bindings/torch/libtidepool_torch.so" "$release/bindings/cnmem/libcnmem.so")
for library in "${libraries[@]}"; do
  copy "$to/lib" "build the preset release" "$library"
  name=$(objdump -p "$library" | awk '/SONAME/ {print $2}')
  [ "$name" = "${library##*/}" ] || mv "$to/lib/${library##*/}" "$to/lib/$name"  # the name that programs look for
done
copy "$to/bin" "build the preset release" "$release/bench/cnmem_bench"
# The machine with the GPU has no Abseil.
ldd "${libraries[@]}" | awk '/libabsl/ {print $3}' | sort -u | while read -r library; do cp -L "$library" "$to/lib/"; done
for file in "$to"/lib/*.so* "$to/bin/cnmem_bench"; do
  check "$file" libc.so.6 libm.so.6 'ld-linux*' 'libstdc++.so.6' libgcc_s.so.1 libz.so.1 'libcudart.so.*'
done

cp "$source"/bindings/python/tidepool/*.py "$to/python/tidepool/"
for package in _torch_compile _torch_offload; do
  mkdir -p "$to/python/tidepool/$package"
  cp "$source/bindings/python/tidepool/$package/"*.py "$to/python/tidepool/$package/"
done
for module in "$release"/python/tidepool/_native*312*.so; do [ ! -e "$module" ] || cp "$module" "$to/python/tidepool/"; done
find "$to/bin" "$to/lib" -type f -exec strip --strip-unneeded {} +
find "$to/python" -name '*.so' -exec strip --strip-unneeded {} +

mib=$(du -sm --apparent-size "$to" | cut -f 1)
[ "$mib" -le "$limit_mib" ] || refuse "$to has $mib MiB, expected at most $limit_mib"
echo "gpu_pack: $to has $mib MiB"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs a build with small programs in the place of the static ones, and uses the pack as scripts/gpu_suite.sh does.
# usage: gpu_pack_test.sh SOURCE_FOLDER BUILD_FOLDER
set -euo pipefail
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$1"; exit 1; }
pack() { "$source/scripts/gpu_pack.sh" "$build" "$work/gpu" "$work/pack" 2>&1; }

mkdir -p "$work/gpu/gpu" "$work/gpu/trace_replay"
said=$(pack) && fail "packed without programs: $said"
[[ $said == *"gpu_test does not exist: build it with cmake --preset gpu"* ]] || fail "$said"

echo 'int main(void) { return 0; }' >"$work/empty.c"
"${CC:-cc}" "$work/empty.c" -o "$work/gpu/gpu/gpu_test"
for program in gpu/gpu_bench gpu/gpu_probe trace_replay/tidepool; do cp "$work/gpu/gpu/gpu_test" "$work/gpu/$program"; done
said=$(pack) || fail "$said"
[[ $said == "gpu_pack: $work/pack has "*" MiB" ]] || fail "$said"
for file in bin/gpu_probe bin/cnmem_bench lib/libtidepool_torch.so python/tidepool/torch.py; do
  [ -s "$work/pack/$file" ] || fail "no $file: $(find "$work/pack")"
done

# The package works without its compiled module, and with the libraries of the pack.
rm -f "$work"/pack/python/tidepool/_native*
library=$(echo "$work"/pack/lib/libtidepool_c.so.*)
said=$(LD_LIBRARY_PATH="$work/pack/lib:$build/cudart_host" PYTHONPATH=$work/pack/python TIDEPOOL_C_LIBRARY=$library python3 -c '
import tidepool._c_api as its
pool = its.Pool(device="host", device_memory="1GiB")
print(pool.allocate(4096) != 0, its.library()._name)' 2>&1)
[ "$said" = "True $library" ] || fail "$said"

# A program that needs a library which that machine lacks.
cp "$build/trace_replay/tidepool" "$work/gpu/trace_replay/tidepool"
said=$(pack) && fail "packed a program with libraries: $said"
[[ $said == *"tidepool needs lib"*"expected nothing but libc.so.6 libm.so.6"* ]] || fail "$said"
echo "passed"

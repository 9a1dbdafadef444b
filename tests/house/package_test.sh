#!/usr/bin/env bash
# Installs the built project into a prefix, builds a little project of its own against it with find_package, and
# runs that; then the same with add_subdirectory.
# usage: package_test.sh SOURCE BUILD SCRATCH
set -euo pipefail
source_dir=$1 build_dir=$2 scratch=$3

rm -rf "$scratch"
mkdir -p "$scratch/user"
cmake --install "$build_dir" --prefix "$scratch/prefix" >/dev/null

cat >"$scratch/user/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.22)
project(user LANGUAGES CXX)
if(TIDEPOOL_SOURCE)
  add_subdirectory(${TIDEPOOL_SOURCE} tidepool)
else()
  find_package(tidepool REQUIRED)
endif()
foreach(example size_a_trace train_on_a_pool)
  add_executable(${example} ${example}.cc)
  target_link_libraries(${example} PRIVATE tidepool::tidepool)
endforeach()
EOF
cp "$source_dir"/examples/*.cc "$scratch/user"

for how in "-DCMAKE_PREFIX_PATH=$scratch/prefix" "-DTIDEPOOL_SOURCE=$source_dir"; do
  rm -rf "$scratch/build"
  cmake -S "$scratch/user" -B "$scratch/build" -DCMAKE_BUILD_TYPE=Debug "$how" >"$scratch/log" ||
    { cat "$scratch/log"; exit 1; }
  cmake --build "$scratch/build" --target size_a_trace train_on_a_pool -j2 >"$scratch/log" || { cat "$scratch/log"; exit 1; }
  "$scratch/build/train_on_a_pool" | grep "100 allocations"
  "$scratch/build/size_a_trace" "$source_dir/examples/traces/alexnet-b32-sgd.rmm.csv.gz" | grep "best-fit needs"
done

# Not one symbol of the library is visible but the public ones.
library=$(find "$scratch/prefix" -name 'libtidepool.so' | head -1)
if [ -n "$library" ]; then
  if nm -DC --defined-only "$library" | grep -E 'tidepool::(blocks|sizing|pool|host|internal)::'; then
    echo "hidden symbols are visible"
    exit 1
  fi
fi

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the built project into a prefix, builds a small project against it with find_package, and
# runs it. A build with CUDA also installs tidepool::cuda, tidepool::cnmem and tidepool::cudnn, which the small project
# requests as components and uses without a GPU.
# usage: package_test.sh SOURCE BUILD SCRATCH HAS_CUDA
set -euo pipefail
source_dir=$1 build_dir=$2 scratch=$3 has_cuda=$4

fail() { echo "$1"; exit 1; }

rm -rf "$scratch"
mkdir -p "$scratch/user"
cmake --install "$build_dir" --prefix "$scratch/prefix" >/dev/null

# The installed tool finds its parts of dry runs.
if [ -d "$build_dir/cudart_host" ]; then
  answer=$("$scratch/prefix/bin/tidepool" dryrun -- no-such-program 2>&1) && fail "a dry run of no program succeeded"
  [[ $answer == *"no-such-program: no such program"* ]] || fail "installed dry runs: $answer"
fi

cat >"$scratch/user/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.22)
project(user LANGUAGES CXX)
find_package(tidepool REQUIRED COMPONENTS ${NEEDED} OPTIONAL_COMPONENTS ${WANTED})
if(NOT WANTED AND TARGET CUDA::cudart)
  message(FATAL_ERROR "CUDA was looked for, and nobody asked for it")
endif()
foreach(example size_a_trace train_on_a_pool)
  add_executable(${example} ${example}.cc)
  target_link_libraries(${example} PRIVATE tidepool::tidepool)
endforeach()
target_sources(size_a_trace PRIVATE every_header.cc)
add_executable(pool_alone train_on_a_pool.cc)
target_link_libraries(pool_alone PRIVATE tidepool::pool)
if(TARGET tidepool::c)
  enable_language(C)
  add_executable(program_in_c program_in_c.c)
  target_link_libraries(program_in_c PRIVATE tidepool::c)
endif()
if(TARGET tidepool::cnmem)
  enable_language(C)
  add_executable(program_of_cnmem program.c)
  target_link_libraries(program_of_cnmem PRIVATE tidepool::cnmem)
endif()
if(TARGET tidepool::cudnn)
  add_executable(train_in_micro_batches train_with_cudnn.cc)
  target_compile_definitions(train_in_micro_batches PRIVATE TIDEPOOL_MICRO_BATCHES)
  target_include_directories(train_in_micro_batches SYSTEM PRIVATE ${CUDNN_INCLUDE})
  target_link_libraries(train_in_micro_batches PRIVATE tidepool::cudnn ${CUDNN_LIBRARY})
  # The cuDNN for tests asks more of the runtime for tests than of the toolkit's, which is linked here.
  target_link_options(train_in_micro_batches PRIVATE -Wl,--allow-shlib-undefined)
endif()
if(TARGET tidepool::cuda)
  add_executable(ask_for_a_gpu ask_for_a_gpu.cc)
  target_link_libraries(ask_for_a_gpu PRIVATE tidepool::cuda)
endif()
EOF
cat >"$scratch/user/ask_for_a_gpu.cc" <<'EOF'
#include <iostream>

#include "tidepool/cuda_device.h"
#include "tidepool/host_device.h"
#include "tidepool/nvtx_observer.h"

int main() {
  const auto host = tidepool::HostDevice::Create({});
  if (tidepool::MakeNvtxObserver(**host) != nullptr) return 1;
  const tidepool::Stream stream = *(*host)->CreateStream();
  const auto device = tidepool::CudaDevice::Create({.ordinal = 1 << 20});
  std::cout << stream.id << ' ' << device.status().message() << '\n';
  return device.ok() ? 1 : 0;
}
EOF
# Each header, compiled below.
find "$source_dir/include/tidepool" -name '*.h' ! -name cuda_device.h ! -name nvtx_observer.h |
  sed -E 's|.*/include/||; s|.*|#include "&"|' | sort >"$scratch/user/every_header.cc"
cp "$source_dir"/examples/*.{cc,h} "$source_dir/tests/bindings/cnmem/program.c" "$scratch/user"
cp "$source_dir/tests/bindings/c/program.c" "$scratch/user/program_in_c.c"

configure() {
  rm -rf "$scratch/build"
  cmake -S "$scratch/user" -B "$scratch/build" -DCMAKE_BUILD_TYPE=None "$@" >"$scratch/log" ||
    { cat "$scratch/log"; exit 1; }
}

configure "-DCMAKE_PREFIX_PATH=$scratch/prefix"
cmake --build "$scratch/build" --target size_a_trace train_on_a_pool pool_alone -j2 >"$scratch/log" || { cat "$scratch/log"; exit 1; }
"$scratch/build/train_on_a_pool" | grep "100 allocations"
"$scratch/build/pool_alone" | grep "100 allocations"
"$scratch/build/size_a_trace" "$source_dir/examples/traces/alexnet-b32-sgd.rmm.csv.gz" | grep "best-fit needs"

# The examples are a project of their own, too.
cmake -S "$source_dir/examples" -B "$scratch/examples" -DCMAKE_PREFIX_PATH="$scratch/prefix" >"$scratch/log" ||
  { cat "$scratch/log"; exit 1; }
cmake --build "$scratch/examples" --target use_a_pool >"$scratch/log" || { cat "$scratch/log"; exit 1; }
"$scratch/examples/use_a_pool" | grep "1024 MiB reserved"

# The template of a user's project: with the installation, with sources as a part, and with neither. scripts/check_all.sh
# compiles the sources too.
consumer() {
  cmake -S "$source_dir/examples/consumer" -B "$scratch/$1" "${@:2}" >"$scratch/log" 2>&1
}
consumer installed -DCMAKE_PREFIX_PATH="$scratch/prefix" || { cat "$scratch/log"; exit 1; }
cmake --build "$scratch/installed" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
"$scratch/installed/consumer" | grep -x "1024 bytes live"
consumer part -DFETCHCONTENT_SOURCE_DIR_TIDEPOOL="$source_dir" || { cat "$scratch/log"; exit 1; }
targets=$(cmake --build "$scratch/part" --target help)
[[ $targets == *tidepool_pool* ]] || fail "the sources are no part of the template"
if consumer nothing; then fail "the template was made without tidepool"; fi
tr -s ' \n' ' ' <"$scratch/log" | grep -o "No tidepool 0.1 is installed"

# A build without CMake, with pkg-config. The prefix may have moved.
mv "$scratch/prefix" "$scratch/moved"
pc=$(find "$scratch/moved" -name tidepool.pc)
export PKG_CONFIG_PATH=${pc%/*}
pkg-config --modversion tidepool | grep -E '^[0-9]+[.][0-9]+[.][0-9]+$'
read -ra flags <<<"$(pkg-config --cflags --libs tidepool)"
${CXX:-c++} -std=c++20 "$scratch/user/size_a_trace.cc" -o "$scratch/with_pkg_config" "${flags[@]}"
LD_LIBRARY_PATH=$(pkg-config --variable=libdir tidepool) \
  "$scratch/with_pkg_config" "$source_dir/examples/traces/alexnet-b32-sgd.rmm.csv.gz" | grep "best-fit needs"
read -ra flags <<<"$(pkg-config --cflags --libs tidepool_c)"
${CC:-cc} -std=c89 "$scratch/user/program_in_c.c" -o "$scratch/in_c" "${flags[@]}"
LD_LIBRARY_PATH=$(pkg-config --variable=libdir tidepool_c) "$scratch/in_c" host "$scratch" | grep -x done
mv "$scratch/moved" "$scratch/prefix"

# The C interface.
configure "-DCMAKE_PREFIX_PATH=$scratch/prefix" -DWANTED=c
cmake --build "$scratch/build" --target program_in_c >"$scratch/log" || { cat "$scratch/log"; exit 1; }
"$scratch/build/program_in_c" host "$scratch" | grep -x done

# A component that does not exist is refused with a reason.
if cmake -S "$scratch/user" -B "$scratch/refused" -DCMAKE_PREFIX_PATH="$scratch/prefix" -DNEEDED=hip >"$scratch/log" 2>&1; then
  fail "a component hip was found"
fi
tr -s ' \n' ' ' <"$scratch/log" | grep -oE 'no component hip; (there are (cuda|profile)|this tidepool has none)'

# TIDEPOOL_CUDA=ON without a toolkit is an error with advice.
if cmake -S "$source_dir" -B "$scratch/no_toolkit" -DTIDEPOOL_CUDA=ON -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON \
  >"$scratch/log" 2>&1; then
  fail "CUDA was built without a toolkit"
fi
tr -s ' \n' ' ' <"$scratch/log" | grep -oE 'no CUDA Toolkit 12 or newer was found.*-DCUDAToolkit_ROOT=FOLDER'

configure "-DCMAKE_PREFIX_PATH=$scratch/prefix" -DWANTED=cuda
if [ "$has_cuda" = 1 ]; then
  cmake --build "$scratch/build" --target ask_for_a_gpu -j2 >"$scratch/log" || { cat "$scratch/log"; exit 1; }
  "$scratch/build/ask_for_a_gpu" | grep -E 'cudaError|expected one below'
  if readelf -d "$scratch/build/ask_for_a_gpu" | grep 'libcuda\.so'; then fail "a driver is linked"; fi
  # Uses the library in CNMeM's place.
  configure "-DCMAKE_PREFIX_PATH=$scratch/prefix" -DWANTED=cnmem
  cmake --build "$scratch/build" --target program_of_cnmem -j2 >"$scratch/log" || { cat "$scratch/log"; exit 1; }
  readelf -d "$scratch/build/program_of_cnmem" | grep 'libcnmem\.so\.1'
  { "$scratch/build/program_of_cnmem" 2>&1 || true; } | grep -E 'no device|used by stream'
  # Convolutions in micro-batches, on the stand-ins for cuDNN and CUDA.
  if [ -d "$build_dir/cudnn_host" ]; then
    configure "-DCMAKE_PREFIX_PATH=$scratch/prefix" -DWANTED=cudnn "-DCUDNN_INCLUDE=$source_dir/dryrun/cudnn/include" \
      "-DCUDNN_LIBRARY=$(find "$build_dir/cudnn_host" -name 'libcudnn.so*' | head -n 1)"
    cmake --build "$scratch/build" --target train_in_micro_batches >"$scratch/log" || { cat "$scratch/log"; exit 1; }
    readelf -d "$scratch/build/train_in_micro_batches" | grep 'libtidepool_cudnn_handle\.so'
    LD_LIBRARY_PATH=$build_dir/cudart_host "$scratch/build/train_in_micro_batches" | grep gradients
  fi
else
  [ ! -e "$scratch/prefix/include/tidepool/cuda_device.h" ] || fail "there is a header and no CUDA"
  if cmake --build "$scratch/build" --target ask_for_a_gpu >"$scratch/log" 2>&1; then fail "there is CUDA"; fi
fi

# Only public symbols of the libraries are visible.
find "$scratch/prefix" -name 'libtidepool*.so' | while read -r library; do
  if nm -DC --defined-only "$library" | grep -E ' tidepool::[a-z_]+::'; then
    fail "hidden symbols of $library are visible"
  fi
done

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks a release, in more than five hours on two processors: the checks of .ci/run with all random cases, then that benchmarks
# compile, the executor, the convolutions and regions under tsan, all tests under asan, all dry runs, training in a budget, a project
# that has the sources as a part, the wheel from its sdist, wheels for other machines and each Python, the Debian package, the
# recipes for Conan and conda, each file compiled alone without the CUDA Toolkit, stress, clang-tidy, journeys of the design page, the
# reader in the browser, the site, and each reader fuzzed by a build of clang, which also checks the locks.
# usage: scripts/check_all.sh
set -euo pipefail
cd "$(dirname "$0")/.."
step() { printf '\n=== %s (%d s)\n' "$1" "$SECONDS"; }

# A cache of compiled files helps where the machine keeps it. It keeps those with precompiled headers by this option alone.
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_SLOPPINESS=pch_defines,time_macros; fi

TIDEPOOL_ALL_ROUNDS=1 .ci/run

step "benchmarks"
cmake --build build/release --target benchmarks -- --quiet

step "executor, convolutions and regions on a CUDA device under tsan"
cmake --build build/tsan --target execute_test cudnn_test cudnn_graph_program cuda_test -- --quiet
ctest --test-dir build/tsan --output-on-failure -j "$(nproc)" -R '^(execute|cudnn)\.'
build/tsan/tests/cuda_test --gtest_brief=1 --gtest_filter='*Region*'

step "all tests under asan"
cmake --build build/asan -- --quiet
ctest --test-dir build/asan --output-on-failure -j "$(nproc)"

step "all dry runs, and training in a budget"
scripts/framework_tests.sh dryrun dryrun_steps torch_versions torch_compile

step "template of a user's project, with the sources as a part"
cmake -S examples/consumer -B build/consumer "-DFETCHCONTENT_SOURCE_DIR_TIDEPOOL=$PWD" -DCMAKE_UNITY_BUILD=ON >/dev/null
cmake --build build/consumer --target consumer -j "$(nproc)"
build/consumer/consumer | grep -x "1024 bytes live"

step "wheel, from the source distribution"
scripts/wheel_test.sh sdist

step "wheels for other machines"
scripts/wheel.sh
scripts/wheel_test.sh build/wheels/tidepool-*.whl
scripts/wheel_pythons.sh

step "Debian package, and recipes for Conan and conda"
scripts/deb.sh
scripts/recipes.sh

# The other builds compile many files at once, which hides an include that a file lacks.
step "each file alone, without the CUDA Toolkit"
cmake --preset no-cuda >/dev/null
cmake --build build/no-cuda --target tidepool tidepool_tool pool_alone trace_replay_test report_traces load_libraries static_tls -- --quiet
# Oracles of the readers and replays of long traces have nothing to do with CUDA.
ctest --test-dir build/no-cuda --output-on-failure -j "$(nproc)" -R 'trace_replay|house' -E 'house.package|oracle|browser|HostReplay|Report\.'

step "stress"
for build in release asan tsan; do scripts/stress.sh 60 "$build"; done

step "tidy"
cmake --preset tidy >/dev/null
cp build/release/trace_replay/page_sources.cc build/tidy/trace_replay
run-clang-tidy -p build/tidy -quiet -j "$(nproc)" -checks='-clang-analyzer-*,-bugprone-suspicious-include' 2>/dev/null

step "journeys of the design page"
cmake --preset coverage >/dev/null
cmake --build build/coverage --target tidepool_tool tidepool_c cudart_host cuda_driver_host cuda_libraries_host nvml_host nccl_host \
  offload_a_buffer compress_on_the_way -- --quiet
torch=$(ls "${TIDEPOOL_FRAMEWORKS:-$HOME/.cache/tidepool-frameworks}"/torch-*-ordinary/bin/python 2>/dev/null | tail -n 1) || true
python3 tests/house/journeys_test.py . build/coverage ${torch:+"$torch"}

step "reader in the browser"
python3 tests/house/browser_reader_test.py . || [ $? -eq 77 ]

step "site"
scripts/site.sh
python3 tests/house/site_test.py .

step "fuzz, and locks checked by clang"
scripts/fuzz.sh 60

step "all checks passed"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Random work on every part of the library, by several threads, with faults at any call of the
# device, for a given time. A failure prints a command that runs its seed again.
# usage: scripts/stress.sh SECONDS [release|asan|tsan] [options of tidepool_stress]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?usage: scripts/stress.sh SECONDS [release|asan|tsan]}
preset=${2:-release}
case $preset in
  release | asan | tsan) ;;
  *) echo "stress: unknown build $preset, expected release, asan or tsan" >&2; exit 2 ;;
esac
scripts/setup.sh
[ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" >/dev/null
cmake --build "build/$preset" --target tidepool_stress -- --quiet
# Stops at the first data race, so that its seed is known.
export TSAN_OPTIONS=halt_on_error=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}
"build/$preset/tests/tidepool_stress" --seconds "$seconds" "${@:3}"

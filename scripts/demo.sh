#!/usr/bin/env bash
# Sizes a pool for recorded training steps of real networks, under every placement policy.
# usage: scripts/demo.sh
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
cmake --build build/release --target tidepool_tool -- --quiet
tidepool=build/release/trace_replay/tidepool

cat <<'EOF'

How much memory does a training step need? Each trace below is two or three steps of a network, recorded with
PyTorch; the last, *-offload, is a step of VGG-16 that offloads, and says so in its requests. "pool" is what a policy needs by the papers' search, "smallest" the smallest pool that serves the trace at
all, both also over the peak of live bytes, which no allocator can go below. Not every pool that is larger than the
smallest serves, too: that is the last column.

EOF
for trace in examples/traces/*.csv.gz; do
  "$tidepool" size "$trace"
  echo
done

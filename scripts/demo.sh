#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sizes a pool for recorded training steps of real networks, under every placement policy. Replays
# one of them live, without and with a plan, and draws a report.
# usage: scripts/demo.sh
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
echo "Building the library and the command line, which takes some minutes the first time:"
cmake --build build/release --target tidepool_tool
tidepool=build/release/trace_replay/tidepool

cat <<'EOF'

How much memory does a training step need? Each trace below is two or three steps of a network, recorded with
PyTorch; the last, *-offload, is a step of VGG-16 that offloads, and says so in its requests. "first found" is the pool
that the papers' search finds for a policy, "smallest" the smallest pool that serves the trace at all. Both are also
compared with the peak of live bytes: no allocator does with less. A larger pool does not always serve a trace that a
smaller one serves: that is the last column.

EOF
for trace in examples/traces/*.csv.gz; do
  "$tidepool" size "$trace"
  echo
done

cat <<'EOF'
The first of them once more, now on a live pool of the host, which grows as it must. Every buffer is written when it
is allocated and read when it is freed:

EOF
"$tidepool" replay examples/traces/alexnet-b32-sgd.rmm.csv.gz --pool 1GiB --initial 64MiB --device host --verify

cat <<'EOF'

Again, planned beforehand: every request has its offset, and the pool is as small as what is live at the peak.

EOF
"$tidepool" replay examples/traces/alexnet-b32-sgd.rmm.csv.gz --policy planned --device host --verify

cat <<'EOF'

A training step of VGG-16 with 128 images fits into 9 GiB with slow algorithms alone (none). It is faster where data that is not
needed for a while goes to the host and comes back in time: as vDNN++ decides, in the quickest of its modes, or as a search for
the least time finds (best), which also runs some tasks again. Times are simulated, by the rates of a GTX 1080 Ti.

EOF
"$tidepool" model vgg-16 --batch 128 --gpu gtx-1080-ti -o build/vgg16.json >/dev/null
"$tidepool" simulate build/vgg16.json --memory 9GiB --policy none,vdnn++,best --offload dynamic
"$tidepool" simulate build/vgg16.json --memory 9GiB --policy best --timeline build/vgg16.timeline.json

cat <<'EOF'

And as a picture, to zoom and point into: open the page in a browser.

EOF
"$tidepool" report examples/traces/resnet50-b4-sgd.rmm.csv.gz -o build/report.html

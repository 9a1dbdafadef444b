#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks and measures tidepool on a machine with a GPU: docs/guide/gpu-suite.md. scripts/gpu_pack.sh makes the folder .gpu
# with all that it runs, on any machine. Part a has correctness and costs, part b predictions, cuDNN and other frameworks; each
# takes at most 285 seconds. OUT.json (gpu_PART.json) is whole after each step. Names of steps run these steps alone.
# Exit status: 0 all passed, or there is no GPU; 1 a step failed or hangs, and the file names it; 2 the call is wrong.
# usage: scripts/gpu_suite.sh a|b [OUT.json [STEP...]]
set -euo pipefail
exec python3 "$(dirname "$0")/../bench/gpu/suite/suite.py" "$@"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The GPU suite asks whether micro-batches pay.
# usage: suite_test.sh TOOL CUDART_HOST_FOLDER CUDNN_HOST_FOLDER
set -euo pipefail
tool=$1 cudart=$2 cudnn=$3

fail() { echo "$1"; exit 1; }

suite() { LD_LIBRARY_PATH=$cudart:$cudnn python3 "$(dirname "$0")/../../../bench/gpu/cudnn_workspaces.py" "$tool" "$@" 2>&1; }
networks=$(suite alexnet-grouped:8 --policy all)
[[ $networks == *" kernels gain at 8 MiB"*'"kernels": 15'*'"needs_division": true'* ]] || fail "$networks"
networks=$(suite --type half --layout NHWC deepbench:1)
[[ $networks == *'"kernels": 282'*'"needs_division": '* ]] || fail "$networks"
# A policy without micro-batches gains nothing, and the suite says so.
networks=$(suite alexnet-grouped:4 --policy undivided)
[[ $networks == *"alexnet-grouped:4, float, undivided: needs no division"*'"needs_division": false'* ]] || fail "$networks"
# The measurements stay where they are asked for.
kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT
networks=$(suite alexnet-grouped:4 --policy undivided --keep "$kept")
[ "$(ls "$kept"/alexnet-grouped-4-float-undivided/*.sqlite | wc -l)" -eq 1 ] || fail "$networks: $(find "$kept")"
echo "passed"

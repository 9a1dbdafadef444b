#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `tidepool profile --convolutions` measures the layers of a graph before a program runs, through the cuDNN that the program
# loads, and `--merge` brings the file of one node to another. The program then measures nothing.
# usage: profile_test.sh TOOL CUDART_HOST_FOLDER CUDNN_HOST_FOLDER DIVIDED_PROGRAM
set -euo pipefail
tool=$1 cudart=$2 cudnn=$3 program=$4

fail() { echo "$1"; exit 1; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
layer() {
  echo '{"name": "'"$1"'", "operation": "conv", "phase": "forward", "reads": ["'"$2"'"], "writes": ["'"$3"'"], "parameters":'
  echo '{"kind": "convolution", "n": 16, '"$4"', "k": 8}, "algorithms": [{"name": "a", "seconds": 1, "workspace": 0}]}'
}
{
  echo '{"tidepool_graph": 2, "name": "two layers", "batch": 16, "data": [{"name": "x", "bytes": 8, "kind": "input"},'
  echo '{"name": "y", "bytes": 8, "kind": "activation"}, {"name": "z", "bytes": 8, "kind": "activation"}], "tasks": ['
  layer first x y '"c": 3, "h": 14, "w": 14, "r": 5, "s": 5, "padding_height": 2, "padding_width": 2'
  echo ,
  layer second y z '"c": 8, "h": 7, "w": 7, "r": 3, "s": 3, "padding_height": 1, "padding_width": 1'
  echo ']}'
} >"$folder/graph.json"

profile() { LD_LIBRARY_PATH=$cudart:$cudnn "$tool" profile "$@" --json; }
first=$(profile "$folder/graph.json" --convolutions powerOfTwo --store "$folder/node.sqlite")
[[ $first == *'"convolutions":2,"measured":30'* ]] || fail "$first"
again=$(profile "$folder/graph.json" --convolutions powerOfTwo --store "$folder/node.sqlite")
[[ $again == *'"measured":0'* ]] || fail "$again"
half=$(profile "$folder/graph.json" --convolutions undivided --layout NHWC --type half --store "$folder/half.sqlite")
[[ $half == *'"convolutions":2,"measured":6'* ]] || fail "$half"
rows=$(python3 -c "import sqlite3, sys
for row in sqlite3.connect(sys.argv[1]).execute('SELECT DISTINCT layout, types FROM task_time ORDER BY layout'): print(*row)" \
  "$folder/half.sqlite")
[[ $rows == *"x=588x1x42x3 y=1568x1x112x8 w=NHWC half half half float math=1"* ]] || fail "$rows"
merged=$(profile --merge "$folder/node.sqlite" --store "$folder/all.sqlite")
[[ $merged == *'"added":'[1-9]* ]] || fail "$merged"
output=$(TIDEPOOL_CUDNN_DATABASE=$folder/all.sqlite TIDEPOOL_CUDNN_STATISTICS=1 "$program" 2>&1)
[[ $output == *" 0 micro-batches measured"* ]] || fail "$output"

# Wrong questions are errors of one line.
refused() {
  local expected=$1 status=0
  output=$(LD_LIBRARY_PATH=$cudart:$cudnn "$tool" profile "${@:2}" 2>&1) || status=$?
  [ "$status" -eq 1 ] && [[ $output == *"$expected"* ]] || fail "${*:2}: status $status, $output"
}
refused "no policy 'often'" "$folder/graph.json" --convolutions often --store "$folder/all.sqlite"
refused "expected NCHW or NHWC" "$folder/graph.json" --convolutions all --layout CHWN --store "$folder/all.sqlite"
refused "expected float or half" "$folder/graph.json" --convolutions all --type int8 --store "$folder/all.sqlite"
refused "no such file" --merge "$folder/none.sqlite" --store "$folder/all.sqlite"
refused "remove one of the two" "$folder/graph.json" --merge "$folder/node.sqlite"
refused "expected no --output" "$folder/graph.json" --convolutions all -o "$folder/out.json"
refused "GRAPH is missing"
refused "not a database" "$folder/graph.json" --convolutions all --store "$folder/graph.json"
echo "passed"

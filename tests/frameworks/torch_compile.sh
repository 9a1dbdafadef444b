#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training in a budget, by torch.compile and without it: values on the CPU, and memory under a dry run. TORCH names another version of
# PyTorch. TESTS names some of the tests of values. MODEL="gpt2-medium 8 0.5 0.3" prints a table of a large model instead.
. "$(dirname "$0")/common.sh"
[ -x "$BUILD/trace_replay/tidepool" ] || { echo "the tool is not built"; exit 77; }
export XDG_CACHE_HOME=$CACHE/dryrun
version=${TORCH:-2.11.0}
ordinary_environment "torch-$version-ordinary" "torch==$version" numpy
package
[ -e "$PYTHONPATH/tidepool/bin" ] || PATH=$BUILD/trace_replay:$PATH
dry_run() { "$BUILD/trace_replay/tidepool" dryrun --steps 0 --no-init --time-limit 1h ${ranks:-} -- "$environment/bin/python" "$@"; }
if [ -n "${MODEL:-}" ]; then
  # shellcheck disable=SC2086
  dry_run "$here/torch_compile/memory_test.py" $MODEL
  exit
fi
# shellcheck disable=SC2086
"$environment/bin/python" -W ignore "$here/torch_compile/values_test.py" ${TESTS:-}
# shellcheck disable=SC2086
"$environment/bin/python" -W ignore "$here/torch_compile/offload_test.py" ${TESTS:-}
# shellcheck disable=SC2086
"$environment/bin/python" -W ignore "$here/torch_compile/distributed_test.py" ${TESTS:-}
dry_run "$here/torch_compile/memory_test.py"
ranks="--world 2" dry_run "$here/torch_compile/memory_test.py"
dry_run "$here/torch_compile/offload_test.py" --memory

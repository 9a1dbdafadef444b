#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Dry runs that look into steps: task graphs, and ranks without their peers. TORCH names another version.
. "$(dirname "$0")/common.sh"
[ -x "$BUILD/trace_replay/tidepool" ] || { echo "the tool is not built"; exit 77; }
version=${TORCH:-2.11.0}
tool=$BUILD/trace_replay/tidepool
export XDG_CACHE_HOME=$CACHE/dryrun
ordinary_environment "torch-$version-ordinary" "torch==$version" numpy
package
"$PYTHON" "$here/dryrun/graph_test.py" "$tool" "$environment/bin/python"
"$PYTHON" "$here/dryrun/world_test.py" "$tool" "$environment/bin/python"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Dry runs that look into steps: task graphs, ranks without their peers, and a few libraries. TORCH names another version.
. "$(dirname "$0")/common.sh"
[ -x "$BUILD/trace_replay/tidepool" ] || { echo "the tool is not built"; exit 77; }
version=${TORCH:-2.11.0}
tool=$BUILD/trace_replay/tidepool
export XDG_CACHE_HOME=$CACHE/dryrun
ordinary_environment "torch-$version-ordinary" "torch==$version" numpy
package
"$PYTHON" "$here/dryrun/graph_test.py" "$tool" "$environment/bin/python"
"$PYTHON" "$here/dryrun/world_test.py" "$tool" "$environment/bin/python"
# Libraries that were built for this version, or for none.
[ "$version" = 2.11.0 ] && [ -z "${TIDEPOOL_QUICK:-}" ] || exit 0
below=$packages ordinary_environment "libraries-$version" torchvision==0.26.0 timm==1.0.31 transformers==5.24.0 peft==0.21.2
"$PYTHON" "$here/dryrun/libraries/libraries.py" test "$tool" "$environment/bin/python"

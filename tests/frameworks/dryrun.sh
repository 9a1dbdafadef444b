#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Dry runs of programs with an unmodified PyTorch. TORCH names another version, such as 2.6.0 for CUDA 12.
. "$(dirname "$0")/common.sh"
[ -x "$BUILD/trace_replay/tidepool" ] || { echo "the tool is not built"; exit 77; }
version=${TORCH:-2.11.0}
tool=$BUILD/trace_replay/tidepool
export XDG_CACHE_HOME=$CACHE/dryrun
# PyTorch alone, as in a distribution that has NVIDIA's libraries elsewhere.
environment "torch-$version" "torch==$version" numpy==2.3.5 filelock==4.2.11 typing-extensions==4.16.0 sympy==1.14.0 \
  networkx==3.6.1 jinja2==3.1.6 fsspec==2026.9.0 mpmath==1.4.1 MarkupSafe==3.0.4
"$PYTHON" "$here/dryrun/dryrun_test.py" "$tool" "$environment/bin/python" DryRunTest.test_says_what_a_program_needs
# PyTorch as pip installs it, with NVIDIA's libraries: 3 to 5 GB.
ordinary_environment "torch-$version-ordinary" "torch==$version" numpy
"$PYTHON" "$here/dryrun/dryrun_test.py" "$tool" "$environment/bin/python"
"$PYTHON" "$here/dryrun/ranks_test.py" "$tool" "$environment/bin/python"
if ls "$BUILD"/python/tidepool/_native*.so >/dev/null 2>&1; then
  PYTHONPATH=$BUILD/python "$environment/bin/python" "$here/dryrun/function_test.py"
fi
# Another version asks for other memory than the recorded one.
[ "$version" = 2.11.0 ] && [ -z "${TIDEPOOL_QUICK:-}" ] || exit 0
"$PYTHON" "$here/dryrun/recorded/recorded_test.py" "$tool" "$environment/bin/python" \
  "$SOURCE/../shared/traces/pytorch"

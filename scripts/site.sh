#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the site from the pages of the sources, with search, a reference and a report: build/site/html. The report needs a built tool,
# and the reference the Python package of its build. The page that scripts/browser_reader.sh makes is a part of the site if it is there.
#
#   site.sh [TOOL]      default: build/release/trace_replay/tidepool
set -euo pipefail
cd "$(dirname "$0")/.."
tool=${1:-build/release/trace_replay/tidepool}
package=$(realpath "$(dirname "$tool")/../python")
environment=build/site/python

if [ ! -e "$package/tidepool/_native.pyi" ]; then
  echo "site: no $package/tidepool/_native.pyi, expected the Python package: cmake --build FOLDER --target tidepool_python_stub" >&2
  exit 1
fi
if ! cmp -s scripts/site/requirements.txt "$environment/requirements.txt"; then
  rm -rf "$environment"
  python3 -m venv "$environment"
  "$environment/bin/pip" install -q -r scripts/site/requirements.txt
  cp scripts/site/requirements.txt "$environment/"
fi
rm -rf build/site/pages
ln -sfn "$package" build/site/package
python3 scripts/site/pages.py . build/site/pages
"$tool" report tests/frameworks/dryrun/recorded/h200/gpt2.pickle.gz -o build/site/pages/gpt2.html
cat >build/site/pages/report.md <<'PAGE'
# A report

`tidepool report FILE -o report.html` makes a page such as [this one of a snapshot that PyTorch made of training GPT-2 on an H200](gpt2.html). It is one
file, which loads nothing and sends nothing. [Reports](docs/report.md) tells what it shows, and [out of memory](docs/guide/out_of_memory.md) how to
record a file of your own.
PAGE
reader=build/browser/page/reader.html
if [ -f "$reader" ]; then
  cp "$reader" build/site/pages/
  echo "
[The reader](reader.html) makes a report of a file of yours in this browser." >>build/site/pages/report.md
fi
NO_MKDOCS_2_WARNING=1 "$environment/bin/mkdocs" build -q -f scripts/site/mkdocs.yml
echo "build/site/html/index.html"

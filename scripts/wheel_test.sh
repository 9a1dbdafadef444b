#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel, installs it into an environment of its own, and runs the tests of the Python package, the tool and a
# small C++ program against it. Without the packages that scripts/setup.sh installs with pip it says so. A dry run follows
# where scripts/framework_tests.sh has installed PyTorch.
# usage: scripts/wheel_test.sh [WHEEL | sdist]
#   WHEEL  one of scripts/wheel.sh, instead of one for this machine
#   sdist  makes the source distribution, and the wheel for this machine from it
set -euo pipefail
cd "$(dirname "$0")/.."

python=$PWD/build/python/bin/python
if [ ! -x "$python" ]; then
  echo "no packages of Python in build/python: the wheel is not tested"
  exit 0
fi
out=$PWD/build/wheel-test
sources=. wheel="" isolation=--no-build-isolation  # the packages of build/python make the wheel, without a download
rm -rf "$out"
mkdir -p "$out"
if [ "${1:-}" = sdist ]; then
  "$python" -c 'import sys; from scikit_build_core import build; build.build_sdist(sys.argv[1])' "$out" >"$out/sdist.log" ||
    { cat "$out/sdist.log"; echo "the source distribution could not be made"; exit 1; }
  sources=$(echo "$out"/tidepool-*.tar.gz) isolation=""  # pip gets the packages that make it, as for a user
  # Its pages of the site are those of the checkout.
  mkdir "$out/unpacked"
  tar xf "$sources" -C "$out/unpacked" --strip-components 1
  (cd "$out/unpacked" && python3 -B scripts/site/pages.py . "$out/pages")
  python3 -B scripts/site/pages.py . "$out/pages-of-git"
  diff -r "$out/pages" "$out/pages-of-git"
elif [ $# -gt 0 ]; then
  wheel=$(realpath "$1")
fi
if [ -z "$wheel" ]; then
  # The compiler and the options of build/release, so that a cache of compiled files has most of the objects.
  CXX=c++ "$python" -m pip wheel "$sources" -q $isolation -w "$out" \
    --config-settings=cmake.define.CMAKE_UNITY_BUILD_BATCH_SIZE=16 || { echo "the wheel could not be built"; exit 1; }
  wheel=$(echo "$out"/tidepool-*.whl)
fi

/usr/bin/python3 -m venv "$out/venv"
"$out/venv/bin/pip" install -q "$wheel"
# The tests' own packages, without the build tree's module.
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
PYTHONPATH=$packages TIDEPOOL_TOOL=$out/venv/bin/tidepool "$out/venv/bin/python" -m pytest -q -p no:cacheprovider tests/bindings/python

"$out/venv/bin/tidepool" --version
for page in man/man1/tidepool-size.1 bash-completion/completions/tidepool; do
  [ -s "$out/venv/share/$page" ] || { echo "no share/$page in the wheel"; exit 1; }
done
"$out/venv/bin/python" -c 'from tidepool import _c_api; _c_api.library()'
"$out/venv/bin/python" - <<'END'
import importlib.metadata, pathlib, tidepool
package = pathlib.Path(tidepool.__file__).parent
source = pathlib.Path("bindings/python/tidepool")
missing = [path for path in source.rglob("*.py") if not (package / path.relative_to(source)).is_file()]
missing += [path for path in pathlib.Path("bindings/torch").rglob("*.[ch]*")
            if path.name != "pluggable.cc" and not (package / "torch_allocator" / path.relative_to("bindings/torch")).is_file()]
assert not missing, missing
entry, = [one for one in importlib.metadata.distribution("tidepool").entry_points if one.group == "torch_dynamo_backends"]
assert (entry.name, entry.attr) == ("tidepool", "backend"), entry
assert pathlib.Path(tidepool.__file__).parent.joinpath(*entry.module.split(".")[1:]).with_suffix(".py").is_file(), entry
END
torch=${TIDEPOOL_FRAMEWORKS:-$HOME/.cache/tidepool-frameworks}/torch-2.11.0/bin/python
if ! "$out/venv/bin/python" -c 'from tidepool import _dryrun; _dryrun.folder()' 2>/dev/null; then
  echo "no dry run of the wheel, because it was built without the CUDA Toolkit"
elif [ -x "$torch" ]; then
  "$out/venv/bin/tidepool" dryrun --steps 1 --json -- "$torch" tests/frameworks/dryrun/train.py >"$out/answer.json"
  "$out/venv/bin/python" - "$out/answer.json" <<'END'
import json, sys
answer = json.load(open(sys.argv[1]))
found = {name: answer[name] for name in ("fits", "steps", "peak_live_bytes", "peak_reserved_bytes")}
assert found == {"fits": True, "steps": 1, "peak_live_bytes": 236032512, "peak_reserved_bytes": 241172480}, found
END
else
  echo "no dry run of the wheel, because there is no PyTorch at $torch: scripts/framework_tests.sh dryrun installs it"
fi
mkdir "$out/user"
cp examples/use_a_pool.cc examples/check.h "$out/user"
cat >"$out/user/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.22)
project(user LANGUAGES CXX)
find_package(tidepool REQUIRED)
add_executable(use_a_pool use_a_pool.cc)
target_link_libraries(use_a_pool PRIVATE tidepool::pool)
END
cmake -S "$out/user" -B "$out/user/build" -G Ninja \
  -DCMAKE_PREFIX_PATH="$("$out/venv/bin/python" -c 'import tidepool; print(tidepool.cmake_prefix())')" >/dev/null
if [[ $wheel != "$out"/* ]] && ! grep -q "absl_DIR:PATH=$out/venv/" "$out/user/build/CMakeCache.txt"; then
  echo "a project does not find the Abseil of the wheel"
  exit 1
fi
cmake --build "$out/user/build" -- --quiet
"$out/user/build/use_a_pool"
# The linker finds the C interface by one name, programs by the other.
package=$("$out/venv/bin/python" -c 'import pathlib, tidepool; print(pathlib.Path(tidepool.__file__).parent)')
printf '#include <stdio.h>\n#include "tidepool/c_api.h"\nint main(void) { return puts(tidepool_version()) < 0; }\n' >"$out/user/program.c"
cc "$out/user/program.c" -I"$package/include" -L"$package/lib" -ltidepool_c -Wl,-rpath,"$package/lib" -o "$out/user/program"
"$out/user/program"
echo "the wheel works"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the reader in the browser: FOLDER/reader.html, one page that gives the answers of `tidepool info` and `tidepool
# report` on a machine without tidepool. Emscripten compiles the readers, with the sources of Abseil and zlib: those of
# Debian, or those in folders that ABSEIL and ZLIB name.
# usage: [ABSEIL=FOLDER ZLIB=FOLDER] scripts/browser_reader.sh [FOLDER]
set -euo pipefail
folder=${1:+$(realpath -m "$1")}
ABSEIL=${ABSEIL:+$(realpath "$ABSEIL")}
ZLIB=${ZLIB:+$(realpath "$ZLIB")}
cd "$(dirname "$0")/.."
build=build/browser
folder=${folder:-$build/page}
fail() { echo "browser_reader: $1" >&2; exit 1; }

check_packages() {
  local missing=()
  command -v em++ >/dev/null || missing+=(emscripten)
  command -v cmake >/dev/null || missing+=(cmake)
  command -v ninja >/dev/null || missing+=(ninja-build)
  [ -e /usr/include/CLI/CLI.hpp ] || missing+=(libcli11-dev)
  [ -e /usr/include/nlohmann/json.hpp ] || missing+=(nlohmann-json3-dev)
  [ -e /usr/include/rapidjson/reader.h ] || missing+=(rapidjson-dev)
  [ ${#missing[@]} -eq 0 ] || fail "missing ${missing[*]}, expected them installed: apt-get install ${missing[*]}"
}

check_packages
ABSEIL=${ABSEIL:-$(scripts/debian_sources.sh abseil)}
ZLIB=${ZLIB:-$(scripts/debian_sources.sh zlib)}
[ -f "$ABSEIL/absl/base/config.h" ] || fail "$ABSEIL has no absl/base/config.h, expected the sources of Abseil"
[ -f "$ZLIB/zlib.h" ] || fail "$ZLIB has no zlib.h, expected the sources of zlib"

# A node that is not Debian's does not look where Debian's modules lie.
export NODE_PATH=${NODE_PATH:-/usr/share/nodejs}
mkdir -p "$build"
emcmake cmake -G Ninja -S packaging/browser -B "$build" -DCMAKE_BUILD_TYPE=Release -DTIDEPOOL_ABSEIL="$ABSEIL" -DZLIB="$ZLIB" \
  >"$build/configure.log" 2>&1 || { cat "$build/configure.log"; fail "the build could not be configured"; }
cmake --build "$build" --target reader -- --quiet
mkdir -p "$folder"
python3 packaging/browser/make_page.py "$build" "$folder/reader.html"
echo "$folder/reader.html, $(($(stat -c %s "$folder/reader.html") / 1000)) kB"

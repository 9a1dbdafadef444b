#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the Debian package and unpacks it to check it: each library that a program or a library of it needs is in it or in a
# package that it depends on, the tool starts and finds its parts of dry runs, and a project finds the libraries and runs. The package lies in
# build/deb/package afterwards.
# usage: scripts/deb.sh
set -euo pipefail
cd "$(dirname "$0")/.."
build=$PWD/build/deb out=$PWD/build/deb/package
fail() { echo "deb: $1" >&2; exit 1; }

# Prints the libraries that a file needs. Prints nothing for a file that is no program or library.
needs() { { readelf -d "$1" 2>/dev/null || true; } | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'; }

# Returns whether the package has a library. Stand-ins of CUDA serve each other alone: programs meet them in dry runs only.
is_inside() {
  case $2 in
    */cudart_host/*) [ -n "$(find "$out/unpacked" -name "$1")" ] ;;
    *) [ -n "$(find "$out/unpacked" -name cudart_host -prune -o -name "$1" -print)" ] ;;
  esac
}

# Returns whether a package that this one depends on has a library.
is_of_a_dependency() {
  local owner
  for owner in $(dpkg -S "*/$1" 2>/dev/null | sed 's/:.*//' | sort -u); do
    [[ ", $depends" != *", $owner "* ]] || return 0
  done
  return 1
}

cmake --preset deb >/dev/null
cmake --build "$build" -- --quiet
rm -rf "$out"
cpack --config "$build/CPackConfig.cmake" -G DEB -B "$out" >"$build/cpack.log" 2>&1 || { cat "$build/cpack.log"; fail "it could not be made"; }
package=$(echo "$out"/tidepool_*.deb)
depends=$(dpkg-deb -f "$package" Depends)
dpkg-deb -x "$package" "$out/unpacked"

for file in bin/tidepool include/tidepool/pool.h share/man/man1/tidepool.1 share/bash-completion/completions/tidepool; do
  [ -s "$out/unpacked/usr/$file" ] || fail "it has no /usr/$file"
done
find "$out/unpacked" -type f | while read -r file; do
  needs "$file" | while read -r library; do
    is_inside "$library" "$file" || is_of_a_dependency "$library" || fail "${file#"$out/unpacked"} needs $library, and it depends on $depends"
  done
done
"$out/unpacked/usr/bin/tidepool" --version
answer=$("$out/unpacked/usr/bin/tidepool" dryrun -- no-such-program 2>&1) && fail "a dry run of no program succeeded"
[[ $answer == *"no-such-program: no such program"* ]] || fail "dry runs: $answer"
rm -rf "$build/consumer"
cmake -S examples/consumer -B "$build/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$out/unpacked/usr" >/dev/null
grep -q "tidepool_DIR:PATH=$out/unpacked/" "$build/consumer/CMakeCache.txt" || fail "a project does not find it"
cmake --build "$build/consumer" -- --quiet
"$build/consumer/consumer" | grep -x "1024 bytes live"
echo "deb: $package, $(($(stat -c %s "$package") / 1000)) kB"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the folder with the sources of a package of Debian or Ubuntu, in build/sources. Downloads them if they are missing.
# usage: scripts/debian_sources.sh PACKAGE
set -euo pipefail
cd "$(dirname "$0")/.."
package=${1:?"no package, expected its name, such as abseil"}
sources=$PWD/build/sources
fail() { echo "debian_sources: $1" >&2; exit 1; }

# Machines know no sources by default, so apt gets a list of its own.
download() {
  local lists work=$sources/$package.new
  lists=$(ls /etc/apt/sources.list.d/{debian,ubuntu}.sources 2>/dev/null) || true
  [ -n "$lists" ] || fail "no list of packages in /etc/apt/sources.list.d, expected debian.sources or ubuntu.sources"
  rm -rf "$work"
  mkdir -p "$work"/{parts,lists/partial,unpacked}
  for list in $lists; do sed 's/^Types: deb$/Types: deb-src/' "$list" >"$work/parts/${list##*/}"; done
  local apt=(-qq -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/parts" -o Dir::State::Lists="$work/lists"
             -o APT::Sandbox::User=root)
  (cd "$work" && apt-get "${apt[@]}" update && apt-get "${apt[@]}" source --download-only "$package") || fail "$package cannot be downloaded"
  tar xf "$work/$package"_*.orig.tar.* -C "$work/unpacked"
  mv "$work/unpacked"/* "$sources/"
  rm -rf "$work"
}

if ! compgen -G "$sources/$package-*/" >/dev/null; then
  echo "downloading the sources of $package into $sources" >&2
  download >&2
fi
echo "$sources/$package"-*/

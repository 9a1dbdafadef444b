#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command as on a machine that started a few seconds ago. Its steady clock starts near zero,
# in a time namespace, so code that uses times before the clock's zero fails.
# usage: scripts/just_started.sh COMMAND [ARGUMENT...]
# Exits with the command's status. Without permission for such a clock, prints that and exits with
# 0.
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: scripts/just_started.sh COMMAND [ARGUMENT...]" >&2; exit 64; }

uptime=$(python3 -c 'import time; print(int(time.monotonic()))')
back=$((uptime > 5 ? uptime - 5 : 0))
# Tries without and with a user namespace: root needs none, and other users need one where the
# system allows it.
for user in "" --map-current-user; do
  clock=(unshare $user --time --fork --monotonic=-"$back")
  ! "${clock[@]}" true 2>/dev/null || exec "${clock[@]}" "$@"
done
echo "skipped: this system does not allow a time namespace (unshare --time): $*"

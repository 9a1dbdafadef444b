#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program that opens CUDA's runtime when it first calls it: with the stand-ins of CUDA 13 and 12, and without a device.
# usage: loaded_test.sh PROGRAM FOLDER_OF_STAND_IN
set -euo pipefail
program=$1 stand_in=$2
fail() { echo "$1"; exit 1; }

if readelf -d "$program" | grep 'NEEDED.*libcud'; then fail "the program is linked with CUDA"; fi
uses_the_device() {
  [[ $1 == "1 devices, a card, "[0-9]*", with cuMemCreate
stream with id of device 0" ]] || fail "$1"
}
export CUDART_HOST_NAME="a card"
said=$(LD_LIBRARY_PATH=$stand_in "$program") || fail "CUDA 13: $said"
uses_the_device "$said"
# A runtime that the process has comes before newer ones.
said=$(LD_LIBRARY_PATH=$stand_in/cuda12 LD_PRELOAD=$stand_in/cuda12/libcudart.so.12 "$program") || fail "CUDA 12: $said"
uses_the_device "$said"
# CUDA's own runtime may be there, without a driver.
if said=$("$program"); then fail "a device was found: $said"; fi
echo "$said" | grep -E '^count: cudaError(InsufficientDriver|NoDevice): ' || fail "$said"

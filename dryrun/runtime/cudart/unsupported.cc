// SPDX-License-Identifier: Apache-2.0
// Defines all functions of the runtime that the stand-in lacks, so that every program finds its
// symbols.
#include "dryrun/runtime/cudart/unsupported.h"

#include "dryrun/runtime/cudart/unsupported.inc"

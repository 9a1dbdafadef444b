// SPDX-License-Identifier: Apache-2.0
// Defines all functions of the runtime that the stand-in lacks, so that every program finds its
// symbols.
#include "stand_in/cudart/unsupported.h"

#include "stand_in/cudart/unsupported.inc"

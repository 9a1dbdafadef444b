// SPDX-License-Identifier: Apache-2.0
// Moved: include the headers below.
#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace_plan.h"

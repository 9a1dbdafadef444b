// SPDX-License-Identifier: Apache-2.0
// Moved: include the header below.
#include "tidepool/schedule/model_zoo.h"

// SPDX-License-Identifier: Apache-2.0
// Moved: include the header below.
#include "tidepool/compress/zero_value_codec.h"

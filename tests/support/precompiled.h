// SPDX-License-Identifier: Apache-2.0
// Headers that every test program compiles once instead of once a file. Tests include them all the
// same.
#ifndef TIDEPOOL_TESTS_SUPPORT_PRECOMPILED_H_
#define TIDEPOOL_TESTS_SUPPORT_PRECOMPILED_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#endif  // TIDEPOOL_TESTS_SUPPORT_PRECOMPILED_H_

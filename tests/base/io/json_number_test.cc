// SPDX-License-Identifier: Apache-2.0
// Tests of the parsers of JSON numbers.
#include "lib/base/io/json_number.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace tidepool {
namespace {

TEST(JsonNumber, IsADecimalFractionOfAnyForm) {
  const auto thousandths = [](const std::string& text) {
    std::int64_t value = -12345;
    return io::ParseThousandths(text, INT64_MAX, &value) ? absl::StrCat(value) : std::string("no");
  };
  EXPECT_EQ(thousandths("0"), "0");
  EXPECT_EQ(thousandths("-0"), "0");
  EXPECT_EQ(thousandths("12.3456"), "12346");
  EXPECT_EQ(thousandths("12.3454"), "12345");
  EXPECT_EQ(thousandths("-12.3455"), "-12346");
  EXPECT_EQ(thousandths("0.0005"), "1");
  EXPECT_EQ(thousandths("9e-4"), "1");
  EXPECT_EQ(thousandths("4e-4"), "0");
  EXPECT_EQ(thousandths("5e-5"), "0");
  EXPECT_EQ(thousandths("1E+2"), "100000");
  EXPECT_EQ(thousandths("1.5e1"), "15000");
  EXPECT_EQ(thousandths("0e99999999999999999999"), "0");
  EXPECT_EQ(thousandths("1e99999999999999999999"), "no");
  EXPECT_EQ(thousandths("1e-99999999999999999999"), "0");
  EXPECT_EQ(thousandths("9223372036854775.8074"), "9223372036854775807");
  EXPECT_EQ(thousandths("9223372036854775.8075"), "no");
  EXPECT_EQ(thousandths("0.00000000000009223372036854775807e29"), "9223372036854775807");
}

}  // namespace
}  // namespace tidepool

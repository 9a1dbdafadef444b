// SPDX-License-Identifier: Apache-2.0
// Faults of readers in tests: a text with a change, and the error that its reader gives.
#ifndef TIDEPOOL_TESTS_SUPPORT_READER_FAULTS_H_
#define TIDEPOOL_TESTS_SUPPORT_READER_FAULTS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace tidepool::testing {

// Replaces `from` wherever it is in `text`, which has it.
inline std::string Replaced(const std::string& text, const std::string& from,
                            const std::string& to) {
  EXPECT_THAT(text, ::testing::HasSubstr(from));
  return absl::StrReplaceAll(text, {{from, to}});
}

// Returns the error of a reader: one line that begins with the file and has an expectation.
template <typename Value>
std::string FaultOf(const absl::StatusOr<Value>& read, const std::string& text,
                    const std::string& file) {
  EXPECT_FALSE(read.ok()) << text;
  if (read.ok()) return "";
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string error(read.status().message());
  EXPECT_THAT(error, ::testing::StartsWith(absl::StrCat(file, ":")));
  EXPECT_THAT(error, ::testing::HasSubstr("expected"));
  EXPECT_EQ(error.find('\n'), std::string::npos);
  return error;
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_READER_FAULTS_H_

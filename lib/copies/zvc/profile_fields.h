// SPDX-License-Identifier: Apache-2.0
// Fields of a compression profile: the names of its numbers in a file, and their ranges.
#ifndef TIDEPOOL_LIB_COPIES_ZVC_PROFILE_FIELDS_H_
#define TIDEPOOL_LIB_COPIES_ZVC_PROFILE_FIELDS_H_

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tidepool/copies/compression_profile.h"

namespace tidepool::zvc {

inline constexpr char kProfileVersionName[] = "tidepool_compression_profile";
inline constexpr int kProfileVersion = 1;
inline constexpr std::size_t kLongestMachine = 1000;
inline constexpr std::size_t kLongestInstructionSet = 100;

struct NumberRange {
  double least = 0;
  double most = 0;
  double multiple_of = 0;  // 0 for any number
};

// Returns the shortest text that reads back as the same number.
inline std::string NumberText(double number) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), number).ptr;
  return {text, end};
}

inline std::string RangeText(const NumberRange& range) {
  const std::string kind = range.multiple_of == 0 ? "a number"
                           : range.multiple_of == 1
                               ? "a whole number"
                               : absl::StrCat("a multiple of ", range.multiple_of);
  return absl::StrCat(kind, " from ", NumberText(range.least), " to ", NumberText(range.most));
}

inline bool IsIn(const NumberRange& range, double number) {
  // False for NaN.
  return number >= range.least && number <= range.most &&
         (range.multiple_of == 0 || std::fmod(number, range.multiple_of) == 0);
}

// Returns InvalidArgument if the number called `name` is out of range.
inline absl::Status CheckNumber(std::string_view name, double number, const NumberRange& range) {
  if (IsIn(range, number)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", std::string(name), "' is ", NumberText(number), ", expected ", RangeText(range)));
}

// Returns the range for the speedup of `threads` threads: at least the speedup of one thread fewer,
// at most the number of threads.
inline NumberRange SpeedupRange(std::size_t threads, double of_fewer) {
  return {threads == 1 ? 1 : of_fewer, static_cast<double>(threads)};
}

// Calls visit(name, number, range) for all numbers except the speedups, until it returns an error.
template <typename Profile, typename Visit>
absl::Status VisitNumbers(Profile& profile, const Visit& visit) {
  constexpr NumberRange kNsPerByte = {0, 1e6};
  absl::Status status;
  const auto go = [&](const std::string& name, auto& number, const NumberRange& range) {
    if (status.ok()) status = visit(name, number, range);
  };
  go("processors", profile.processors, {1, 1 << 20, 1});
  go("threads", profile.threads, {1, kMaxZeroValueThreads, 1});
  go("chunk_bytes", profile.chunk_bytes, {kZeroValueBlockBytes, 1 << 30, kZeroValueBlockBytes});
  go("slot_ns", profile.slot_ns, {0, 1e9});
  go("memcpy_bytes_per_second", profile.memcpy_bytes_per_second, {1e6, 1e13});
  const auto visit_costs = [&](const std::string& words, auto& costs) {
    go(words + ".compress.a", costs.compress.a, kNsPerByte);
    go(words + ".compress.b", costs.compress.b, kNsPerByte);
    go(words + ".decompress.a", costs.decompress.a, kNsPerByte);
    go(words + ".decompress.b", costs.decompress.b, kNsPerByte);
    go(words + ".packed_share", costs.packed_share, {0.01, 1});
  };
  visit_costs("words.16", profile.words16);
  visit_costs("words.32", profile.words32);
  return status;
}

}  // namespace tidepool::zvc

#endif  // TIDEPOOL_LIB_COPIES_ZVC_PROFILE_FIELDS_H_

// SPDX-License-Identifier: Apache-2.0
// The columns of a step in a file (docs/formats/schedule.md): the fields that its kind has, in
// order. A row ends after its last value that is not the default.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_FILES_STEP_COLUMNS_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_FILES_STEP_COLUMNS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "tidepool/training/schedule.h"

namespace tidepool::schedule {

enum class Column : std::uint8_t {
  kIndex,
  kAlgorithm,
  kBegin,
  kEnd,
  kOffset,
  kDevice,
  kStream,
  kHint,
  kDensity,
  kSource,
  kNoColumn,
};
constexpr std::array<const char*, 10> kColumnNames = {"number",  "algorithm", "begin",  "end",
                                                      "offset",  "device",    "stream", "hint",
                                                      "density", "source"};

constexpr std::size_t kMostColumns = 6;
using Columns = std::array<Column, kMostColumns>;

// Returns the columns after the kind; the remaining ones are kNoColumn.
constexpr Columns ColumnsOf(StepKind kind) {
  using enum Column;
  switch (kind) {
    case StepKind::kAllocate:
      return {kIndex, kOffset, kDevice, kHint, kNoColumn, kNoColumn};
    case StepKind::kFree:
      return {kIndex, kDevice, kNoColumn, kNoColumn, kNoColumn, kNoColumn};
    case StepKind::kRun:
      return {kIndex, kAlgorithm, kOffset, kDevice, kStream, kNoColumn};
    case StepKind::kOffload:
      return {kIndex, kBegin, kEnd, kDevice, kDensity, kNoColumn};
    case StepKind::kPrefetch:
      return {kIndex, kBegin, kEnd, kOffset, kDevice, kHint};
    case StepKind::kDrop:
      return {kIndex, kBegin, kEnd, kDevice, kNoColumn, kNoColumn};
    case StepKind::kReceive:
      return {kIndex, kBegin, kEnd, kDevice, kSource, kNoColumn};
    case StepKind::kAdd:
      return {kIndex, kBegin, kEnd, kOffset, kDevice, kSource};
    case StepKind::kSynchronize:
      break;
  }
  return {kNoColumn, kNoColumn, kNoColumn, kNoColumn, kNoColumn, kNoColumn};
}

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_FILES_STEP_COLUMNS_H_

// SPDX-License-Identifier: Apache-2.0
// Schedules as files: JSON, described in docs/formats/schedule.md.
#ifndef TIDEPOOL_TRAINING_SCHEDULE_FILE_H_
#define TIDEPOOL_TRAINING_SCHEDULE_FILE_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/export.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/schedule.h"

namespace tidepool {

// The samples over which a schedule's batch normalisation takes its statistics.
enum class BatchNormalization : std::uint8_t {
  kUnknown,  // or the graph has none
  kBatch,    // the samples of a device in an iteration
  kGhost,    // those of each round, so that gradients differ from those of the batch
};
// Returns the name in files: "unknown", "batch", "ghost".
TIDEPOOL_EXPORT std::string_view BatchNormalizationName(BatchNormalization normalization);

struct ScheduleFile {
  Schedule schedule;
  std::string graph = {};                         // name of the graph, for people
  std::optional<Machine> machine = std::nullopt;  // that the schedule was made for
  BatchNormalization batch_normalization = BatchNormalization::kUnknown;
  // Name of the file, and the line of each step, for errors. Written files do not have them.
  std::string source = {};
  std::vector<std::int64_t> step_lines = {};
};

// Read a file, gzip too, without a look at any graph. Errors are InvalidArgument with
// `FILE:LINE: fault, expectation`. Memory and time are linear in the size of the file.
// Thread-safe.
TIDEPOOL_EXPORT absl::StatusOr<ScheduleFile> ReadSchedule(const std::filesystem::path& path);
TIDEPOOL_EXPORT absl::StatusOr<ScheduleFile> ParseSchedule(std::string_view json,
                                                           std::string_view name);

// Returns the status of ValidateSchedule, with the file and the line of the step. Devices beyond
// those of the machine in the file are InvalidArgument too. Thread-safe.
TIDEPOOL_EXPORT absl::Status ValidateScheduleFile(absl::Span<const TaskGraph> graphs,
                                                  const ScheduleFile& file);

// Returns the text of a schedule with valid numbers. ParseSchedule turns it into the same schedule,
// graph name, machine and kind of batch normalisation. Each step has a line of its own.
// Thread-safe. O(size of the file).
TIDEPOOL_EXPORT std::string ScheduleJson(const ScheduleFile& file);
// Writes the whole file or none. A path that ends in ".gz" is compressed. InvalidArgument with the
// path where it cannot be written.
TIDEPOOL_EXPORT absl::Status WriteSchedule(const ScheduleFile& file,
                                           const std::filesystem::path& path);

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_SCHEDULE_FILE_H_

// SPDX-License-Identifier: Apache-2.0
// Reads the JSON of a schedule (docs/formats/schedule.md).
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_FILES_SCHEDULE_JSON_READER_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_FILES_SCHEDULE_JSON_READER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lib/base/io/byte_source.h"
#include "tidepool/training/schedule_file.h"

namespace tidepool::schedule {

// Reads the whole source, gzip too, without checks of the machine. Errors begin with NAME:LINE.
absl::StatusOr<ScheduleFile> ReadScheduleFile(std::unique_ptr<io::ByteSource> source,
                                              const std::string& name);

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_FILES_SCHEDULE_JSON_READER_H_

// SPDX-License-Identifier: Apache-2.0
// Recording file: appends bytes at once.
#ifndef TIDEPOOL_LIB_TRACE_RECORDER_RECORDING_FILE_H_
#define TIDEPOOL_LIB_TRACE_RECORDER_RECORDING_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tidepool::recorder {

class RecordingFile {
 public:
  // Creates the file or empties it. Errors are those of the system; refuses anything except a
  // regular file.
  static absl::StatusOr<RecordingFile> Create(const std::string& path);

  RecordingFile(RecordingFile&& other) noexcept;
  RecordingFile& operator=(RecordingFile&&) = delete;
  ~RecordingFile();

  // Writes `bytes` and returns once the system has them: they reach the file even if the process is
  // killed.
  absl::Status Append(std::string_view bytes);
  absl::Status Close();

 private:
  RecordingFile(std::string path, int descriptor);

  std::string path_;
  int descriptor_;
};

}  // namespace tidepool::recorder

#endif  // TIDEPOOL_LIB_TRACE_RECORDER_RECORDING_FILE_H_

// SPDX-License-Identifier: Apache-2.0
// A path for a file that is removed at the end.
#ifndef TIDEPOOL_TESTS_STRESS_SCRATCH_FILE_H_
#define TIDEPOOL_TESTS_STRESS_SCRATCH_FILE_H_

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace tidepool::stress {

class ScratchFile {
 public:
  explicit ScratchFile(const char* ending)
      : path_(std::filesystem::temp_directory_path() /
              absl::StrCat("tidepool-stress-", getpid(), "-", Next(), ending)) {}
  ~ScratchFile() {
    std::error_code none;
    std::filesystem::remove(path_, none);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  std::string path() const { return path_; }

 private:
  static int Next() {
    static std::atomic<int> next = 0;
    return next++;
  }

  const std::filesystem::path path_;
};

}  // namespace tidepool::stress

#endif  // TIDEPOOL_TESTS_STRESS_SCRATCH_FILE_H_

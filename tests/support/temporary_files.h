// SPDX-License-Identifier: Apache-2.0
// Temporary files of tests. Each process has a folder of its own, which ends with it: ctest runs
// tests of one program side by side, and at a fixed path one would read the unfinished file of
// another.
#ifndef TIDEPOOL_TESTS_SUPPORT_TEMPORARY_FILES_H_
#define TIDEPOOL_TESTS_SUPPORT_TEMPORARY_FILES_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace tidepool {

// Returns the folder of this process. Forked processes share that of their parent, if it asked
// before.
inline const std::string& TemporaryFolder() {
  struct Folder {
    Folder() {
      if (mkdtemp(path.data()) == nullptr) {
        throw std::filesystem::filesystem_error("mkdtemp", path,
                                                std::error_code(errno, std::generic_category()));
      }
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() {
      std::error_code ignored;
      if (getpid() == owner) std::filesystem::remove_all(path, ignored);
    }
    std::string path = ::testing::TempDir() + "tidepool.XXXXXX";
    pid_t owner = getpid();
  };
  static const Folder folder;
  return folder.path;
}

// Returns a path in the folder of this process, where nothing has to lie.
inline std::string TemporaryFile(const std::string& name) { return TemporaryFolder() + "/" + name; }

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_SUPPORT_TEMPORARY_FILES_H_

// SPDX-License-Identifier: Apache-2.0
// Files next to the project that only some machines have, and the traces that ship with the
// project.
#ifndef TIDEPOOL_TESTS_SUPPORT_SHARED_FILES_H_
#define TIDEPOOL_TESTS_SUPPORT_SHARED_FILES_H_

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace tidepool::testing {

inline std::filesystem::path SharedFile(const std::string& name) {
  return std::filesystem::path(TIDEPOOL_SOURCE_DIR) / ".." / "shared" / name;
}

// Returns the request sequences of vDNN's modes, derived from the text of vDNN++.
inline std::filesystem::path VdnnppTraces() {
  return std::filesystem::path(TIDEPOOL_SOURCE_DIR) / "tests" / "support" / "vdnnpp";
}

inline std::filesystem::path ExampleTraces() {
  return std::filesystem::path(TIDEPOOL_SOURCE_DIR) / "examples" / "traces";
}

// Returns the files in `folder` that end in `ending`, sorted.
inline std::vector<std::filesystem::path> FilesIn(const std::filesystem::path& folder,
                                                  const std::string& ending) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().string().ends_with(ending)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

inline std::string Contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline nlohmann::json Json(const std::filesystem::path& path) {
  return nlohmann::json::parse(Contents(path));
}

#define TIDEPOOL_SKIP_WITHOUT(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << (path) << " is not on this machine"

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_SHARED_FILES_H_

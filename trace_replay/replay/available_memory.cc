// SPDX-License-Identifier: Apache-2.0
// Reads /proc/meminfo.
#include "trace_replay/replay/available_memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace tidepool::tool {

std::optional<std::int64_t> AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::int64_t kibibytes = 0;
  while (file >> name >> kibibytes) {
    if (name == "MemAvailable:") return kibibytes << 10;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

}  // namespace tidepool::tool

// SPDX-License-Identifier: Apache-2.0
// A thread that ends sets a flag, then the system closes the files of the last one, and then it is
// a zombie. The first thread stays a zombie until the others have ended, too.
#include "lib/memory/sharing/ending_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace tidepool::sharing {
namespace {

constexpr unsigned kIsExiting = 4;  // PF_EXITING of the kernel

// Reads the beginning of a file into a text.
template <std::size_t kSize>
void Read(const std::string& path, std::array<char, kSize>& text) {
  text.fill('\0');
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  if (read(file, text.data(), kSize - 1) < 0) text.front() = '\0';
  close(file);
}

}  // namespace

// The name of the program, in parentheses, may have spaces and parentheses.
bool IsEnding(std::int64_t process) {
  std::array<char, 1024> text;
  Read(absl::StrCat("/proc/", process, "/stat"), text);
  const char* const name_end = std::strrchr(text.data(), ')');
  if (name_end == nullptr) return false;
  char state = 0;
  unsigned flags = 0;
  int threads = 0;
  const int found = std::sscanf(name_end,
                                ") %c %*s %*s %*s %*s %*s %u %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                                "%*s %d",
                                &state, &flags, &threads);
  return found == 3 && (flags & kIsExiting) != 0 && (state != 'Z' || threads > 1);
}

}  // namespace tidepool::sharing

// SPDX-License-Identifier: Apache-2.0
// Ranges of a file in memory, compared with a list of taken ranges.
#include "lib/memory/device/host/memory_file.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <random>

namespace tidepool::host {
namespace {

constexpr std::int64_t kPage = 4096;

TEST(MemoryFile, GivesOutStretchesThatDoNotOverlap) {
  const auto file = *MemoryFile::Create();
  std::mt19937_64 random(1);
  std::map<std::int64_t, std::int64_t> taken;
  for (int step = 0; step < 5000; ++step) {
    if (!taken.empty() && random() % 2 == 0) {
      const auto freed = std::next(taken.begin(), static_cast<long>(random() % taken.size()));
      file->Free(freed->first, freed->second);
      taken.erase(freed);
      continue;
    }
    const auto bytes = static_cast<std::int64_t>(1 + random() % 9) * kPage;
    const std::int64_t offset = *file->Allocate(bytes);
    const auto above = taken.lower_bound(offset);
    ASSERT_TRUE(above == taken.end() || offset + bytes <= above->first);
    ASSERT_TRUE(above == taken.begin() ||
                std::prev(above)->first + std::prev(above)->second <= offset);
    taken.emplace(offset, bytes);
  }
  for (const auto& [offset, bytes] : taken) file->Free(offset, bytes);
  EXPECT_EQ(*file->Allocate(std::int64_t{1} << 50), 0) << "all of it is one stretch again";
}

TEST(MemoryFile, GivesMemoryBackToTheHost) {
  const auto file = *MemoryFile::Create();
  void* address = mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(address, MAP_FAILED);
  const std::int64_t offset = *file->Allocate(kPage);
  ASSERT_TRUE(file->MapAt(address, offset, kPage).ok());
  std::memset(address, 1, kPage);
  file->Free(offset, kPage);
  EXPECT_EQ(*static_cast<volatile char*>(address), 0) << "a page of the host's that is new";
  munmap(address, kPage);
}

TEST(MemoryFile, RefusesWhatIsLongerThanAFile) {
  const auto file = *MemoryFile::Create();
  EXPECT_TRUE(
      absl::IsResourceExhausted(file->Allocate(std::numeric_limits<std::int64_t>::max()).status()));
  EXPECT_EQ(*file->Allocate(kPage), 0);
}

TEST(MemoryFile, SaysThatTheSizeOfFilesIsLimited) {
  const auto allocate_within_limit = [] {
    const rlimit limit{kPage, kPage};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) std::_Exit(2);
    const auto file = *MemoryFile::Create();
    const bool is_refused = absl::IsResourceExhausted(file->Allocate(2 * kPage).status());
    std::_Exit(is_refused && file->Allocate(kPage).ok() ? 0 : 1);
  };
  EXPECT_EXIT(allocate_within_limit(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tidepool::host

// SPDX-License-Identifier: Apache-2.0
// Pages of a file in memory that go from one address to another without a fault.
#include "lib/memory/device/host/parked_pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "lib/memory/device/host/memory_file.h"
#include "lib/memory/device/host/reserved_addresses.h"
#include "tidepool/host_device.h"

namespace tidepool::host {
namespace {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
const std::int64_t kPageBytes = sysconf(_SC_PAGESIZE);
const std::int64_t kPages = kHugePage / kPageBytes;

char* NewAddresses() { return static_cast<char*>(TakeAddresses(kHugePage, kHugePage).value()); }

// Returns the pages of memory that the next access faults in, by the table of the process.
std::int64_t MissingPages(const char* memory) {
  std::vector<std::uint64_t> pages(static_cast<std::size_t>(kPages));
  const std::size_t bytes = pages.size() * sizeof pages[0];
  const auto first = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(memory)) / kPageBytes;
  const int table = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(pread(table, pages.data(), bytes, first * static_cast<off_t>(sizeof pages[0])),
            static_cast<ssize_t>(bytes));
  close(table);
  constexpr std::uint64_t kIsPresent = std::uint64_t{1} << 63;
  return std::ranges::count_if(pages, [](std::uint64_t page) { return (page & kIsPresent) == 0; });
}

// Returns whether the system moves pages of a file and leaves their mapping, by a call of its own.
bool SystemMovesPages() {
  const std::unique_ptr<MemoryFile> file = *MemoryFile::Create();
  const std::int64_t offset = *file->Allocate(kHugePage);
  char* const from = NewAddresses();
  char* const to = NewAddresses();
  EXPECT_TRUE(file->MapAt(from, offset, kHugePage).ok());
  constexpr int kDontUnmap = 4;  // MREMAP_DONTUNMAP, which old headers lack
  const bool moves = mremap(from, kHugePage, kHugePage, MREMAP_MAYMOVE | MREMAP_FIXED | kDontUnmap,
                            to) != MAP_FAILED;
  munmap(from, kHugePage);
  munmap(to, kHugePage);
  return moves;
}

class ParkedPagesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!SystemMovesPages()) GTEST_SKIP() << "Linux moves pages of files in memory since 5.13";
    ASSERT_TRUE(file_->MapAt(from_, 0, kHugePage).ok());
    std::memset(from_, 7, kHugePage);
    ASSERT_TRUE(parked_.Park(from_, 0, kHugePage));
  }
  void TearDown() override {
    munmap(from_, kHugePage);
    munmap(to_, kHugePage);
  }

  const std::unique_ptr<MemoryFile> file_ = *MemoryFile::Create();
  const std::int64_t offset_ = *file_->Allocate(kHugePage);
  char* const from_ = NewAddresses();
  char* const to_ = NewAddresses();
  ParkedPages parked_{kHugePage, kHugePage};
};

TEST_F(ParkedPagesTest, MoveToAnAddressOnce) {
  EXPECT_TRUE(parked_.MoveTo(to_, offset_, kHugePage));
  EXPECT_EQ(to_[0], 7);
  EXPECT_EQ(to_[kHugePage - 1], 7);
  EXPECT_EQ(MissingPages(to_), 0);
  to_[kPageBytes] = 9;
  EXPECT_FALSE(parked_.MoveTo(from_, offset_, kHugePage)) << "they have moved already";
  EXPECT_TRUE(parked_.Park(to_, offset_, kHugePage));
  EXPECT_TRUE(parked_.MoveTo(from_, offset_, kHugePage));
  EXPECT_EQ(from_[kPageBytes], 9);
}

TEST_F(ParkedPagesTest, AreMissingWhereTheyLeft) { EXPECT_EQ(MissingPages(from_), kPages); }

TEST_F(ParkedPagesTest, StayMappedWhereTheyWere) {
  EXPECT_EQ(from_[1], 7);
  EXPECT_TRUE(parked_.MoveTo(to_, offset_, kHugePage));
  EXPECT_EQ(from_[1], 7);
  EXPECT_EQ(to_[1], 7);
}

TEST_F(ParkedPagesTest, AreForgottenWithTheirRange) {
  file_->Free(offset_, kHugePage);
  parked_.Forget(offset_);
  EXPECT_FALSE(parked_.MoveTo(to_, offset_, kHugePage));
  ASSERT_EQ(*file_->Allocate(kHugePage), offset_);
  ASSERT_TRUE(file_->MapAt(to_, offset_, kHugePage).ok());
  EXPECT_EQ(to_[0], 0) << "a page of the host's that is new";
}

TEST_F(ParkedPagesTest, HaveRoomBelowTheirBytes) {
  EXPECT_FALSE(parked_.Park(from_, kHugePage, kHugePage));
  EXPECT_EQ(from_[1], 7);
}

TEST_F(ParkedPagesTest, ServeTheNextMappingOfTheHostDevice) {
  const auto device =
      HostDevice::Create({.memory_bytes = 2 * kHugePage, .granularity = kHugePage}).value();
  auto* const range = static_cast<char*>(device->ReserveAddresses(2 * kHugePage).value());
  const PhysicalMemory memory = device->CreatePhysical(kHugePage).value();
  ASSERT_TRUE(device->Map(range, memory).ok());
  std::memset(range, 5, kHugePage);
  ASSERT_TRUE(device->Unmap(range).ok());
  ASSERT_TRUE(device->Map(range + kHugePage, memory).ok());
  EXPECT_EQ(MissingPages(range + kHugePage), 0);
  EXPECT_EQ(range[2 * kHugePage - 1], 5);
  EXPECT_TRUE(device->Unmap(range + kHugePage).ok());
  EXPECT_TRUE(device->ReleasePhysical(memory).ok());
  EXPECT_TRUE(device->ReleaseAddresses(range, 2 * kHugePage).ok());
}

// The memory of a moved granule is mapped twice for a while.
TEST_F(ParkedPagesTest, OfMemoryWithTwoAddressesComeFromTheLast) {
  const auto device =
      HostDevice::Create({.memory_bytes = kHugePage, .granularity = kHugePage}).value();
  auto* const range = static_cast<char*>(device->ReserveAddresses(3 * kHugePage).value());
  const PhysicalMemory memory = device->CreatePhysical(kHugePage).value();
  ASSERT_TRUE(device->Map(range, memory).ok());
  ASSERT_TRUE(device->Map(range + kHugePage, memory).ok());
  std::memset(range, 3, kHugePage);
  ASSERT_TRUE(device->Unmap(range).ok());
  EXPECT_EQ(range[kHugePage + 5], 3);
  range[kHugePage + 5] = 4;
  ASSERT_TRUE(device->Unmap(range + kHugePage).ok());
  ASSERT_TRUE(device->Map(range + 2 * kHugePage, memory).ok());
  EXPECT_EQ(range[2 * kHugePage + 5], 4);
  EXPECT_EQ(range[2 * kHugePage + 6], 3);
}

}  // namespace
}  // namespace tidepool::host

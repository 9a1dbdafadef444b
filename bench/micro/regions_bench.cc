// SPDX-License-Identifier: Apache-2.0
// Times of regions on the host device: pauses to page-locked memory and resumes, against the rate
// of one plain copy each way; the contents that come first; a discard, and the time in which
// another region takes its memory; pauses and resumes with compressed contents, none of them zero,
// and with a file, against the slower of the store alone and the plain copy, and the contents that
// come first, to another thread. The best of the rounds; each round times a plain copy too. And the
// medians of a pair of allocation and free in a pool without regions, beside a region, and in it.
//
//   regions_bench [GIB [ROUNDS [FOLDER]]]
//       default: 1 GiB, 5 rounds, files in /tmp. Needs the memory twice, that of the device and of
//       the contents that sleep, and up to 2 GiB for the host side of the plain copies. The file
//       has GIB too.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/support/number_argument.h"
#include "tidepool/copies/contents_stores.h"
#include "tidepool/host_device.h"
#include "tidepool/pool.h"

namespace tidepool::bench {
namespace {

// The seconds of an operation, of all rounds.
class Best {
 public:
  template <typename Function>
  void Time(Function function) {
    const auto start = std::chrono::steady_clock::now();
    function();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    seconds_ = std::min(seconds_, spent.count());
  }
  double seconds() const { return seconds_; }

 private:
  double seconds_ = std::numeric_limits<double>::infinity();
};

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

template <typename Value>
Value Checked(absl::StatusOr<Value> value) {
  Check(value.status());
  return *std::move(value);
}

// The host side of plain copies of more bytes is used again.
constexpr std::int64_t kMostHostBytes = std::int64_t{2} << 30;

// The nanoseconds of pairs of allocation and free of 1 MiB, of all rounds.
class Pairs {
 public:
  void Time(Pool& pool, Stream stream) {
    constexpr int kPairs = 1 << 12;
    Best best;
    best.Time([&] {
      for (int i = 0; i < kPairs; ++i) {
        Check(pool.Free(Checked(pool.Allocate(std::size_t{1} << 20, stream)), stream));
      }
    });
    nanoseconds_.push_back(best.seconds() / kPairs * 1e9);
  }
  double Median() {
    const auto middle = nanoseconds_.begin() + static_cast<std::ptrdiff_t>(nanoseconds_.size() / 2);
    std::nth_element(nanoseconds_.begin(), middle, nanoseconds_.end());
    return *middle;
  }

 private:
  std::vector<double> nanoseconds_;
};

// Prints the nanoseconds of a pair. The three take turns. Pools lie at different places in the
// caches, so new ones are made often.
int RunPairs(std::int64_t rounds) {
  const auto device = Checked(HostDevice::Create({.memory_bytes = std::int64_t{64} << 20}));
  const Stream stream = Checked(device->CreateStream());
  Pairs without, beside, inside;
  for (std::int64_t i = 0; i < 100 * rounds; ++i) {
    const auto plain = Checked(Pool::Create(device.get(), {.max_bytes = std::int64_t{16} << 20}));
    const auto tagged = Checked(Pool::Create(device.get(), {.max_bytes = std::int64_t{16} << 20}));
    Pool* const region = Checked(tagged->Region("weights"));
    for (int turn = 0; turn < 4; ++turn) {
      without.Time(*plain, stream);
      beside.Time(*tagged, stream);
      inside.Time(*region, stream);
    }
  }
  std::printf("a pair: %.1f ns without regions, %.1f ns beside a region, %.1f ns in a region\n",
              without.Median(), beside.Median(), inside.Median());
  return 0;
}

double Rate(std::int64_t bytes, const Best& best) {
  return static_cast<double>(bytes) / best.seconds() * 1e-9;
}

// Calls `transfer` for each block of contents in page-locked memory, which has whole blocks.
template <typename Transfer>
void ForEachBlock(std::byte* host, std::int64_t bytes, std::int64_t block_bytes,
                  Transfer transfer) {
  for (std::int64_t begin = 0; begin < bytes; begin += block_bytes) {
    const std::int64_t end = std::min(bytes, begin + block_bytes);
    Check(transfer(begin / block_bytes, absl::MakeSpan(host + begin % kMostHostBytes,
                                                       static_cast<std::size_t>(end - begin))));
  }
}

// A pool of two regions, each of which may have all memory of the device.
struct Regions {
  HostDevice& device;
  Pool& pool;
  Pool& cache;
  Stream stream;
  Stream reader;
  void* memory;  // of "weights"
  std::int64_t bytes;
};

// Waits for the first contents of a resume that another thread makes.
void AwaitFirst(const Regions& regions) {
  while (absl::IsFailedPrecondition(
      regions.pool.AwaitContents(regions.memory, 1, regions.reader))) {  // before the resume
    std::this_thread::yield();
  }
  Check(regions.device.SynchronizeStream(regions.reader));
}

// Returns memory of the region "cache", which sleeps then: that of the sleeping region "weights".
void* TakeAway(const Regions& regions) {
  const auto size = static_cast<std::size_t>(regions.bytes);
  void* const other = Checked(regions.cache.Allocate(size, regions.stream));
  Check(regions.device.Fill(other, 2, regions.bytes, regions.stream));
  Check(regions.pool.PauseRegion("cache", PauseMode::kDiscard, regions.stream));
  Check(regions.device.SynchronizeStream(regions.stream));
  return other;
}

// Prints the rates of a pause into a store and of a resume, as parts of the slower of the rates of
// the store alone and of a plain copy.
void RunStore(const char* name, const std::function<std::unique_ptr<ContentsStore>()>& make,
              const Regions& regions, std::byte* host, const Best& copy_out, const Best& copy_in,
              std::int64_t rounds) {
  const std::int64_t bytes = regions.bytes;
  Best put, get, pause, resume, first;
  for (std::int64_t i = 0; i <= rounds; ++i) {
    {
      const std::unique_ptr<ContentsStore> alone = make();
      put.Time([&] {
        Check(alone->Begin(bytes));
        ForEachBlock(host, bytes, alone->block_bytes(),
                     [&](auto index, auto block) { return alone->Put(index, block); });
      });
      get.Time([&] {
        ForEachBlock(host, bytes, alone->block_bytes(),
                     [&](auto index, auto block) { return alone->Get(index, block); });
      });
    }
    pause.Time([&] { Check(regions.pool.PauseRegionInto("weights", make(), regions.stream)); });
    void* const other = TakeAway(regions);
    resume.Time([&] {
      std::thread resumes([&] { Check(regions.pool.ResumeRegion("weights", regions.stream)); });
      first.Time([&] { AwaitFirst(regions); });
      resumes.join();
    });
    Check(regions.cache.Free(other, regions.stream));
    Check(regions.pool.ResumeRegion("cache", regions.stream));
  }
  const double out = std::min(Rate(bytes, put), Rate(bytes, copy_out));
  const double in = std::min(Rate(bytes, get), Rate(bytes, copy_in));
  std::printf("%s: store alone %.2f GB/s, pause %.2f GB/s, %.0f %%; ", name, Rate(bytes, put),
              Rate(bytes, pause), 100 * Rate(bytes, pause) / out);
  std::printf(
      "store alone %.2f GB/s, resume %.2f GB/s, %.0f %%, the first contents after %.1f %%\n",
      Rate(bytes, get), Rate(bytes, resume), 100 * Rate(bytes, resume) / in,
      100 * first.seconds() / resume.seconds());
}

int Run(std::int64_t bytes, std::int64_t rounds, const std::string& folder) {
  const auto device =
      Checked(HostDevice::Create({.memory_bytes = bytes, .granularity = std::int64_t{2} << 20}));
  const auto pool = Checked(Pool::Create(device.get(), {.max_bytes = bytes}));
  const Stream stream = Checked(device->CreateStream());
  const Stream reader = Checked(device->CreateStream());
  Pool* const weights = Checked(pool->Region("weights"));
  Pool* const cache = Checked(pool->Region("cache"));
  const auto wait = [&] { Check(device->SynchronizeStream(stream)); };
  const auto size = static_cast<std::size_t>(bytes);
  void* const memory = Checked(weights->Allocate(size, stream));
  Check(device->Fill(memory, 1, bytes, stream));
  wait();
  Best copy_out, copy_in, pause, undisturbed, resume, first, discard, take;
  auto* const host =
      static_cast<std::byte*>(Checked(device->AllocatePinned(std::min(bytes, kMostHostBytes))));
  // Large copies of the host's memcpy take another way than small ones, past the caches.
  const auto copy = [&](Best& best, void* address, CopyDirection direction, std::int64_t pieces) {
    const std::int64_t most = std::min(kMostHostBytes, bytes / pieces);
    best.Time([&] {
      for (std::int64_t begin = 0; begin < bytes;) {
        const std::int64_t at = begin % kMostHostBytes;
        const std::int64_t end = std::min({begin + most, begin - at + kMostHostBytes, bytes});
        std::byte* const there = static_cast<std::byte*>(address) + begin;
        const bool is_out = direction == CopyDirection::kFromDevice;
        Check(device->Copy(is_out ? host + at : there, is_out ? there : host + at, end - begin,
                           direction, stream));
        begin = end;
      }
      wait();
    });
  };
  for (std::int64_t i = 0; i <= rounds; ++i) {
    copy(copy_out, memory, CopyDirection::kFromDevice, 1);
    pause.Time([&] {
      Check(pool->PauseRegion("weights", PauseMode::kHost, stream));
      wait();
    });
    undisturbed.Time([&] {
      Check(pool->ResumeRegion("weights", stream));
      wait();
    });
    discard.Time([&] { Check(pool->PauseRegion("weights", PauseMode::kDiscard, stream)); });
    void* other = nullptr;
    take.Time([&] { other = Checked(cache->Allocate(size, stream)); });
    // To memory that was just mapped, in the pieces of a resume.
    copy(copy_in, other, CopyDirection::kToDevice, 256);
    Check(pool->PauseRegion("cache", PauseMode::kDiscard, stream));
    Check(pool->ResumeRegion("weights", stream));
    Check(device->Fill(memory, 1, bytes, stream));
    Check(pool->PauseRegion("weights", PauseMode::kHost, stream));
    Check(pool->ResumeRegion("cache", stream));
    Check(device->Fill(other, 2, bytes, stream));
    Check(pool->PauseRegion("cache", PauseMode::kDiscard, stream));
    wait();
    resume.Time([&] {
      first.Time([&] {
        Check(pool->ResumeRegion("weights", stream));
        Check(pool->AwaitContents(memory, 1, reader));
        Check(device->SynchronizeStream(reader));
      });
      wait();
    });
    Check(cache->Free(other, stream));
    Check(pool->ResumeRegion("cache", stream));
    Check(cache->Trim().status());
  }
  const auto rate = [&](const Best& best) { return Rate(bytes, best); };
  const double gib = static_cast<double>(bytes) / (1 << 30);
  std::printf("%.3g GiB in one region\n", gib);
  std::printf("to the host: plain copy %.2f GB/s, pause %.2f GB/s, %.0f %%\n", rate(copy_out),
              rate(pause), 100 * rate(pause) / rate(copy_out));
  std::printf("to the device: plain copy %.2f GB/s, resume %.2f GB/s, %.0f %%\n", rate(copy_in),
              rate(resume), 100 * rate(resume) / rate(copy_in));
  std::printf("the first contents are there after %.1f %% of the resume\n",
              100 * first.seconds() / resume.seconds());
  std::printf("resume of memory that nobody took: %.3f ms\n", 1e3 * undisturbed.seconds());
  std::printf("discard: %.3f ms; the next owner takes the memory in %.3f ms\n",
              1e3 * discard.seconds(), 1e3 * take.seconds());
  Check(pool->Trim().status());  // the page-locked memory of the contents
  const Regions regions = {*device, *pool, *cache, stream, reader, memory, bytes};
  const auto run_store = [&](const char* name, const auto& make) {
    RunStore(name, make, regions, host, copy_out, copy_in, rounds);
  };
  run_store("compressed", [] { return Checked(MakeCompressedStore({})); });
  run_store("file", [&] { return Checked(MakeFileStore(folder)); });
  Check(device->FreePinned(host));
  Check(pool->Free(memory, stream));
  return RunPairs(rounds);
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  const tidepool::bench::NumberArguments arguments{argc, argv};
  return tidepool::bench::Run(
      static_cast<std::int64_t>(arguments.At(1, 1, 0.01, 64) * (std::int64_t{1} << 30)) &
          -(std::int64_t{2} << 20),
      static_cast<std::int64_t>(arguments.At(2, 5, 1, 1000)), argc > 3 ? argv[3] : "/tmp");
}

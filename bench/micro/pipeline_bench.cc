// SPDX-License-Identifier: Apache-2.0
// The compression pipeline compared with code without it, which copies the whole buffer into pinned
// memory, waits, and compresses it there; and the reverse. Both use the same codec, the same number
// of threads, and host memory that was touched before. Prints medians over rounds in which they
// alternate. Runs on the host device: a thread copies, at full speed or at that of a simulated
// link.
//
//   pipeline_bench [MIB [ROUNDS [THREADS [LINK_GB_PER_S [SLOTS [SLOT_KIB]]]]]]
//       default: 256 MiB, 9 rounds, 2 threads, no link, 4 slots of 256 KiB
#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "bench/support/activations.h"
#include "bench/support/number_argument.h"
#include "bench/support/offload_rig.h"
#include "tidepool/copies/zero_value_codec.h"
#include "trace_replay/tune/median.h"

namespace tidepool::bench {
namespace {

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Times {
  std::vector<double> wall;
  std::vector<double> cpu;

  void Measure(const std::function<void()>& work) {
    const double cpu_begin = CpuSeconds();
    const auto begin = std::chrono::steady_clock::now();
    work();
    wall.push_back(SecondsSince(begin));
    cpu.push_back(CpuSeconds() - cpu_begin);
  }
};

struct Settings {
  std::int64_t bytes;
  int rounds;
  int threads;
  double link;
  StagingRingOptions ring;
};

RigOptions RigOf(const Settings& settings) {
  RigOptions options;
  options.device_bytes = settings.bytes;
  options.host_bytes = 5 * settings.bytes / 4 + (std::int64_t{1} << 20);
  options.link_bytes_per_second = settings.link;
  options.pipeline.ring = settings.ring;
  options.pipeline.threads = settings.threads;
  return options;
}

class Bench {
 public:
  explicit Bench(const Settings& settings)
      : settings_(settings),
        rig_(RigOf(settings)),
        pinned_(Take(PinnedPool::Create(&rig_.device(), {.max_bytes = settings.bytes + 4096}))),
        codec_(Take(ZeroValueCodec::Create({.threads = settings.threads}))),
        raw_(static_cast<std::byte*>(Take(pinned_->Allocate(Size())))),
        compressed_(ZeroValueBound(Size()), std::byte{1}) {}
  ~Bench() { Check(pinned_->Free(raw_)); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void Run(double density) {
    const std::vector<std::byte> contents = Activations(Size(), density, Zeros::kUniform, 1);
    std::memcpy(rig_.memory(), contents.data(), contents.size());
    Times copy;
    Times out;
    Times in;
    Times out_whole;
    Times in_whole;
    for (int round = 0; round < settings_.rounds; ++round) {
      OffloadRig::Stored stored;
      copy.Measure([&] { CopyOut(); });
      out.Measure(
          [&] { stored = rig_.Offload(rig_.memory(), settings_.bytes, ZeroValueWord::k32Bits); });
      std::memset(rig_.memory(), 0xee, Size());
      in.Measure([&] { rig_.Prefetch(stored, rig_.memory()); });
      CheckContents(contents);
      stored.reset();
      std::size_t size = 0;
      out_whole.Measure([&] {
        CopyOut();
        size = Take(codec_->Compress(RawBytes(), absl::MakeSpan(compressed_)));
      });
      in_whole.Measure([&] {
        const auto stream = absl::MakeConstSpan(compressed_).subspan(0, size);
        Check(codec_->Decompress(stream, RawBytes()).status());
        CopyIn();
      });
    }
    const auto rate = [&](const Times& times) { return Gigabytes() / tool::Median(times.wall); };
    const double cpu = (tool::Median(out.cpu) + tool::Median(in.cpu)) / Gigabytes();
    std::printf("%7.2f  %6.2f  %8.2f %8.2f %6.2fx  %8.2f %8.2f %6.2fx  %8.3f\n", density,
                rate(copy), rate(out), rate(out_whole), rate(out) / rate(out_whole), rate(in),
                rate(in_whole), rate(in) / rate(in_whole), cpu);
    std::fflush(stdout);
  }

 private:
  std::size_t Size() const { return static_cast<std::size_t>(settings_.bytes); }
  double Gigabytes() const { return static_cast<double>(settings_.bytes) / 1e9; }
  absl::Span<std::byte> RawBytes() { return {raw_, Size()}; }
  void CopyOut() { rig_.Copy(raw_, rig_.memory(), settings_.bytes, CopyDirection::kFromDevice); }
  void CopyIn() { rig_.Copy(rig_.memory(), raw_, settings_.bytes, CopyDirection::kToDevice); }
  void CheckContents(const std::vector<std::byte>& contents) {
    if (std::memcmp(rig_.memory(), contents.data(), contents.size()) == 0) return;
    Check(absl::InternalError("what came back is not what was taken"));
  }

  const Settings settings_;
  OffloadRig rig_;
  std::unique_ptr<PinnedPool> pinned_;
  std::unique_ptr<ZeroValueCodec> codec_;
  std::byte* raw_;
  std::vector<std::byte> compressed_;
};

int Main(int argc, char** argv) {
  const NumberArguments arguments = {argc, argv};
  const Settings settings = {
      .bytes = static_cast<std::int64_t>(arguments.At(1, 256, 1, 65536)) << 20,
      .rounds = static_cast<int>(arguments.At(2, 9, 1, 1e6)),
      .threads = static_cast<int>(arguments.At(3, 2, 0, 1e6)),
      .link = arguments.At(4, 0, 0, 1e6) * 1e9,
      .ring = {.slots = static_cast<std::int64_t>(arguments.At(5, 4, 0, 1e6)),
               .slot_bytes = static_cast<std::int64_t>(arguments.At(6, 256, 0, 1e9)) << 10}};
  std::printf("GB/s of %lld MiB, %d threads, ring of %lld x %lld KiB\n",
              static_cast<long long>(settings.bytes >> 20), settings.threads,
              static_cast<long long>(settings.ring.slots),
              static_cast<long long>(settings.ring.slot_bytes >> 10));
  std::printf("density    copy       out    whole              in    whole          core-s/GB\n");
  Bench bench(settings);
  for (const double density : {0.0, 0.25, 0.5, 0.75, 1.0}) bench.Run(density);
  return 0;
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) { return tidepool::bench::Main(argc, argv); }

// The compression pipeline beside what one would write without it: to copy the whole buffer into
// pinned memory, wait, and compress it there; and the same backwards. Both use the same codec, the
// same threads and host memory that was touched before. Medians over rounds in which each takes its
// turn. On the host device, whose copies are those of a thread, or with a link as slow as is said.
//
//   pipeline_bench [MIB [ROUNDS [THREADS [LINK_GB_PER_S [SLOTS [SLOT_KIB]]]]]]
//       256 MiB, 9 rounds, 2 threads, no link, 4 slots of 256 KiB when not given
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "bench/number_argument.h"
#include "tidepool/compression_pipeline.h"
#include "tidepool/host_device.h"

namespace {

using namespace tidepool;  // NOLINT(google-build-using-namespace)
using Stored = std::shared_ptr<const StoredBuffer>;

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "pipeline_bench: %s\n", std::string(status.message()).c_str());
  std::exit(1);
}
template <typename T>
T Checked(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

std::vector<float> Activations(std::size_t bytes, double density) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> some(1 << 20);
  for (float& value : some) {
    value = static_cast<double>(random() >> 11) * 0x1p-53 < density ? std::abs(normal(random)) : 0;
  }
  std::vector<float> words(bytes / sizeof(float));
  for (std::size_t at = 0; at < words.size(); at += some.size()) {
    std::copy_n(some.begin(), std::min(some.size(), words.size() - at), words.begin() + at);
  }
  return words;
}

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
    wall.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    cpu.push_back(CpuSeconds() - cpu_begin);
  }
};

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct Settings {
  std::int64_t bytes;
  int rounds;
  int threads;
  double link;
  StagingRingOptions ring;
};

class Bench {
 public:
  explicit Bench(const Settings& settings)
      : settings_(settings),
        device_(Checked(HostDevice::Create(
            {.memory_bytes = 3 * settings.bytes, .copy_bytes_per_second = settings.link}))),
        stream_(Checked(device_->CreateStream())),
        pinned_(Checked(PinnedPool::Create(
            device_.get(), {.max_bytes = settings.bytes + (std::int64_t{128} << 20)}))),
        pages_(Checked(PagePool::Create(
            {.max_bytes = 2 * settings.bytes, .initial_bytes = 5 * settings.bytes / 4}))),
        pipeline_(Checked(
            CompressionPipeline::Create(device_.get(), pinned_.get(), pages_.get(),
                                        {.ring = settings.ring, .threads = settings.threads}))),
        codec_(Checked(ZeroValueCodec::Create({.threads = settings.threads}))),
        memory_(Checked(device_->AllocateMemory(settings.bytes))),
        raw_(static_cast<std::byte*>(
            Checked(pinned_->Allocate(static_cast<std::size_t>(settings.bytes))))),
        compressed_(ZeroValueBound(static_cast<std::size_t>(settings.bytes)), std::byte{1}) {}

  ~Bench() { pinned_->Free(raw_).IgnoreError(); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void Run(double density) {
    const std::vector<float> words =
        Activations(static_cast<std::size_t>(settings_.bytes), density);
    Copy(memory_, words.data(), CopyDirection::kToDevice);
    Times copy;
    Times out;
    Times in;
    Times out_whole;
    Times in_whole;
    for (int round = 0; round < settings_.rounds; ++round) {
      Stored stored;
      copy.Measure([&] { Copy(raw_, memory_, CopyDirection::kFromDevice); });
      out.Measure([&] { stored = Offload(); });
      device_->Fill(memory_, 0xee, settings_.bytes, stream_).IgnoreError();
      Check(device_->SynchronizeStream(stream_));
      in.Measure([&] { Prefetch(stored); });
      if (round == 0) Copy(raw_, memory_, CopyDirection::kFromDevice);
      if (round == 0 &&
          std::memcmp(raw_, words.data(), static_cast<std::size_t>(settings_.bytes)) != 0) {
        Check(absl::InternalError("what came back is not what was taken"));
      }
      stored.reset();
      std::size_t size = 0;
      out_whole.Measure([&] {
        Copy(raw_, memory_, CopyDirection::kFromDevice);
        size = Checked(codec_->Compress(RawBytes(), absl::MakeSpan(compressed_)));
      });
      in_whole.Measure([&] {
        Check(
            codec_->Decompress(absl::MakeSpan(compressed_).subspan(0, size), RawBytes()).status());
        Copy(memory_, raw_, CopyDirection::kToDevice);
      });
    }
    const auto rate = [&](const Times& times) {
      return static_cast<double>(settings_.bytes) / 1e9 / Median(times.wall);
    };
    const double cpu =
        (Median(out.cpu) + Median(in.cpu)) / (static_cast<double>(settings_.bytes) / 1e9);
    std::printf("%7.2f  %6.2f  %8.2f %8.2f %6.2fx  %8.2f %8.2f %6.2fx  %8.3f\n", density,
                rate(copy), rate(out), rate(out_whole), rate(out) / rate(out_whole), rate(in),
                rate(in_whole), rate(in) / rate(in_whole), cpu);
    std::fflush(stdout);
  }

 private:
  void Copy(void* to, const void* from, CopyDirection direction) {
    Check(device_->Copy(to, from, settings_.bytes, direction, stream_));
    Check(device_->SynchronizeStream(stream_));
  }
  absl::Span<std::byte> RawBytes() { return {raw_, static_cast<std::size_t>(settings_.bytes)}; }
  Stored Offload() {
    std::promise<absl::StatusOr<Stored>> over;
    Check(pipeline_->Offload(
        memory_, settings_.bytes, ZeroValueWord::k32Bits, {},
        [&over](absl::StatusOr<Stored> end) { over.set_value(std::move(end)); }));
    return Checked(over.get_future().get());
  }
  void Prefetch(const Stored& stored) {
    std::promise<absl::Status> over;
    Check(pipeline_->Prefetch(stored, memory_, {},
                              [&over](absl::Status end) { over.set_value(std::move(end)); }));
    Check(over.get_future().get());
  }

  const Settings settings_;
  std::unique_ptr<HostDevice> device_;
  Stream stream_;
  std::unique_ptr<PinnedPool> pinned_;
  std::unique_ptr<PagePool> pages_;
  std::unique_ptr<CompressionPipeline> pipeline_;
  std::unique_ptr<ZeroValueCodec> codec_;
  void* memory_;
  std::byte* raw_;
  std::vector<std::byte> compressed_;
};

}  // namespace

int main(int argc, char** argv) {
  const tidepool::bench::NumberArguments arguments = {argc, argv};
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

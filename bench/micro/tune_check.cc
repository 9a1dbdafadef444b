// SPDX-License-Identifier: Apache-2.0
// Claim: the tuner's profile predicts the time of a transfer within 20 %. Measures this machine
// like `tidepool tune compression`, then sends buffers of three densities through a
// CompressionPipeline on the host device, with copies at the rate of a link: with the fastest
// instructions, which wait for the link, and with scalar ones, for which the link waits. Takes the
// best of several measurements on both sides, because other programs may disturb the machine. Exit
// status 1 if a prediction is off by more.
//
//   tune_check [MIB [GB_PER_S [ROUNDS]]]     defaults: 128 MiB, 4 GB/s, 15 rounds
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "bench/support/activations.h"
#include "bench/support/number_argument.h"
#include "bench/support/offload_rig.h"
#include "tidepool/copies/compression_profile.h"
#include "trace_replay/tune/compression_tuning.h"

namespace tidepool::bench {
namespace {

constexpr double kLargestError = 0.2;

CompressionProfile Tuned(ZeroValueInstructionSet set, double link) {
  const std::vector<double> densities = {0, 0.25, 0.5, 0.75, 1};
  constexpr std::int64_t kBytes = std::int64_t{256} << 20;
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  tool::MeasurementOptions options;
  options.bytes = kBytes;
  options.instruction_set = set;
  options.takes_best = true;
  options.time_limit_seconds = 9;
  const auto measured =
      Take(tool::MeasureCompression(tool::SettingsFor(densities, threads, kBytes), options));
  CompressionProfile defaults;
  defaults.processors = threads;
  return tool::ProfileFrom({{ZeroValueWord::k32Bits, measured}}, densities, kBytes, link, defaults);
}

double Best(const std::vector<double>& seconds) {
  return *std::min_element(seconds.begin(), seconds.end());
}

// Prints a row. Returns whether the prediction is within the largest error.
bool Compare(const char* direction, double density, double predicted, double measured) {
  const bool is_good = std::abs(predicted / measured - 1) <= kLargestError;
  std::printf("%-9s  %7.2f  %9.2f ms  %9.2f ms  %+6.1f %%%s\n", direction, density, predicted * 1e3,
              measured * 1e3, (predicted / measured - 1) * 100,
              is_good ? "" : "  off by more than 20 %");
  std::fflush(stdout);
  return is_good;
}

bool CheckDensity(OffloadRig& rig, const CompressionProfile& profile, std::int64_t bytes,
                  double link, double density, int rounds) {
  constexpr ZeroValueWord kWord = ZeroValueWord::k32Bits;
  const auto buffer = Activations(static_cast<std::size_t>(bytes), density, Zeros::kUniform, 1);
  std::memcpy(rig.memory(), buffer.data(), buffer.size());
  std::vector<double> offload;
  std::vector<double> prefetch;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    auto stored = rig.Offload(rig.memory(), bytes, kWord);
    offload.push_back(SecondsSince(begin));
    const auto middle = std::chrono::steady_clock::now();
    rig.Prefetch(std::move(stored), rig.memory());
    prefetch.push_back(SecondsSince(middle));
  }
  if (std::memcmp(rig.memory(), buffer.data(), buffer.size()) != 0) {
    Check(absl::InternalError("prefetch returned other bytes, expected the offloaded ones"));
  }
  const auto predicted = [&](TransferDirection direction) {
    return TransferSeconds(profile, bytes, kWord, density, direction, link, profile.threads);
  };
  const bool is_good_out =
      Compare("offload", density, predicted(TransferDirection::kOffload), Best(offload));
  const bool is_good_in =
      Compare("prefetch", density, predicted(TransferDirection::kPrefetch), Best(prefetch));
  return is_good_out && is_good_in;
}

bool CheckSet(ZeroValueInstructionSet set, std::int64_t bytes, double link, int rounds) {
  const CompressionProfile profile = Tuned(set, link);
  std::printf(
      "\n%s, %d threads, slots of %lld KiB: compress %.3f + %.3f r, decompress %.3f + %.3f r\n",
      std::string(ZeroValueInstructionSetName(set)).c_str(), profile.threads,
      static_cast<long long>(profile.chunk_bytes >> 10), profile.words32.compress.a,
      profile.words32.compress.b, profile.words32.decompress.a, profile.words32.decompress.b);
  std::printf("%-9s  %7s  %12s  %12s\n", "", "density", "predicted", "measured");
  RigOptions options;
  options.device_bytes = bytes;
  options.host_bytes = bytes + (std::int64_t{8} << 20);
  options.link_bytes_per_second = link;
  options.pipeline.ring.slot_bytes = profile.chunk_bytes;
  options.pipeline.threads = profile.threads;
  options.pipeline.instruction_set = set;
  OffloadRig rig(options);
  bool is_good = true;
  for (const double density : {0.25, 0.5, 0.9}) {
    is_good &= CheckDensity(rig, profile, bytes, link, density, rounds);
  }
  return is_good;
}

int Main(int argc, char** argv) {
  const NumberArguments arguments = {argc, argv};
  const auto bytes = static_cast<std::int64_t>(arguments.At(1, 128, 1, 4096)) << 20;
  const double link = arguments.At(2, 4, 0.01, 1e6) * 1e9;
  const int rounds = static_cast<int>(arguments.At(3, 15, 1, 1e6));
  std::printf("%lld MiB over %.1f GB/s, best of %d rounds\n", static_cast<long long>(bytes >> 20),
              link / 1e9, rounds);
  const bool best = CheckSet(ZeroValueInstructionSets().back(), bytes, link, rounds);
  const bool scalar = CheckSet(ZeroValueInstructionSet::kScalar, bytes, link, rounds);
  return best && scalar ? 0 : 1;
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) { return tidepool::bench::Main(argc, argv); }

// SPDX-License-Identifier: Apache-2.0
// Each region of the trace is a region of the pool with the same name.
#include "trace_replay/replay/replay_regions.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "tidepool/copies/contents_stores.h"

namespace tidepool::tool {
namespace {

absl::StatusOr<std::unique_ptr<ContentsStore>> StoreOf(SleepMode mode) {
  if (mode == SleepMode::kCompressed) return MakeCompressedStore({});
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  return MakeFileStore(error ? "/tmp" : folder.string());
}

}  // namespace

absl::Status ReplayRegions::Make() {
  for (std::size_t i = 0; i < trace_.region_names.size(); ++i) {
    const std::string_view name = trace_.region_names[i];
    const absl::StatusOr<Pool*> pool = main().Region(name);
    if (!pool.ok()) return pool.status();
    parts_.push_back({.pool = *pool});
  }
  return absl::OkStatus();
}

bool ReplayRegions::CountRefusal(std::uint32_t allocation) {
  Part& part = PartOf(allocation);
  if (part.pool->Stats().failures == part.refused) return false;
  ++part.refused;
  return true;
}

absl::Status ReplayRegions::PauseInto(const TracePause& pause, Stream stream) {
  const std::string_view name = trace_.region_names[pause.region - 1U];
  if (pause.mode == SleepMode::kHost || pause.mode == SleepMode::kStore) {
    return main().PauseRegion(name, PauseMode::kHost, stream);
  }
  absl::StatusOr<std::unique_ptr<ContentsStore>> store = StoreOf(pause.mode);
  if (!store.ok()) return store.status();
  return main().PauseRegionInto(name, *std::move(store), stream);
}

absl::Status ReplayRegions::Pause(const TracePause& pause, bool keeps_contents, Stream stream) {
  if (!HasAny()) return absl::OkStatus();
  Part& part = parts_[pause.region];
  if (part.is_asleep) return absl::OkStatus();  // its last resume was refused
  const bool is_lost = !keeps_contents || pause.mode == SleepMode::kDiscard;
  absl::Status status = is_lost ? main().PauseRegion(trace_.region_names[pause.region - 1U],
                                                     PauseMode::kDiscard, stream)
                                : PauseInto(pause, stream);
  if (!status.ok()) return status;
  part.is_asleep = true;
  part.losses += is_lost ? 1 : 0;
  return status;
}

absl::Status ReplayRegions::Resume(const TracePause& pause, Stream stream) {
  if (!HasAny()) return absl::OkStatus();
  absl::Status status = main().ResumeRegion(trace_.region_names[pause.region - 1U], stream);
  if (status.ok()) parts_[pause.region].is_asleep = false;
  return status;
}

void ReplayRegions::NotePeaks() {
  std::int64_t live_bytes = 0;
  std::int64_t reserved_bytes = 0;
  for (const Part& part : parts_) {
    if (part.is_asleep) continue;
    const PoolStats stats = part.pool->Stats();
    live_bytes += stats.live_bytes;
    reserved_bytes += stats.reserved_bytes;
  }
  peak_live_bytes_ = std::max(peak_live_bytes_, live_bytes);
  peak_reserved_bytes_ = std::max(peak_reserved_bytes_, reserved_bytes);
}

void ReplayRegions::AddTo(PoolStats& stats) const {
  if (!HasAny()) return;
  for (std::size_t i = 1; i < parts_.size(); ++i) {
    const PoolStats region = parts_[i].pool->Stats();
    stats.high_water_bytes += region.high_water_bytes;
    stats.growths += region.growths;
    stats.remaps += region.remaps;
    stats.stream_waits += region.stream_waits;
    stats.event_records += region.event_records;
  }
  stats.peak_live_bytes = peak_live_bytes_;
  stats.peak_reserved_bytes = peak_reserved_bytes_;
}

}  // namespace tidepool::tool

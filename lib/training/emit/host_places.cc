// SPDX-License-Identifier: Apache-2.0
#include "lib/training/emit/host_places.h"

#include <algorithm>

#include "lib/base/arithmetic.h"

namespace tidepool::emit {

HostPlaces::HostPlaces(absl::Span<const TaskGraph> graphs, const Program& program,
                       std::int64_t samples)
    : offsets_(graphs.front().data.size(), kNone) {
  const std::vector<GraphData>& data = graphs.front().data;
  std::vector<bool> needs_place(data.size());
  for (std::size_t i = 0; i < data.size(); ++i) {
    needs_place[i] = data[i].kind == DataKind::kInput || data[i].before == DataHome::kHost;
  }
  for (const ProgramOperation& operation : program.operations) {
    if (operation.kind != ProgramOperation::Kind::kTask) needs_place[operation.index] = true;
  }
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (!needs_place[i]) continue;
    std::int64_t bytes = SampleBytes(graphs.front(), i) * samples;
    if (data[i].kind != DataKind::kInput) {
      bytes = 0;
      for (const TaskGraph& graph : graphs) bytes = std::max(bytes, graph.data[i].bytes);
    }
    offsets_[i] = Take(bytes);
  }
}

std::int64_t HostPlaces::Take(std::int64_t bytes) {
  constexpr std::int64_t kAlignment = 512;  // as allocations of devices
  const std::int64_t offset = bytes_;
  bytes_ = RoundUp(bytes_ + bytes, kAlignment);
  return offset;
}

}  // namespace tidepool::emit

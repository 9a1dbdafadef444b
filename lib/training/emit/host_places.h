// SPDX-License-Identifier: Apache-2.0
// The places of data in the host's memory: inputs of the whole batch, data at home on the host, and
// data that is copied.
#ifndef TIDEPOOL_LIB_TRAINING_EMIT_HOST_PLACES_H_
#define TIDEPOOL_LIB_TRAINING_EMIT_HOST_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/program.h"

namespace tidepool::emit {

class HostPlaces {
 public:
  static constexpr std::int64_t kNone = -1;

  // `samples` is the batch of an iteration.
  HostPlaces(absl::Span<const TaskGraph> graphs, const Program& program, std::int64_t samples);

  // Returns the offset of a datum, or kNone.
  std::int64_t Of(std::size_t data) const { return offsets_[data]; }
  // Takes more memory, and returns its offset.
  std::int64_t Take(std::int64_t bytes);
  std::int64_t bytes() const { return bytes_; }

 private:
  std::vector<std::int64_t> offsets_;
  std::int64_t bytes_ = 0;
};

// Returns the bytes of a sample of an input, or of the whole where the graph has no batch.
inline std::int64_t SampleBytes(const TaskGraph& graph, std::size_t data) {
  return graph.data[data].bytes / (graph.batch == 0 ? 1 : graph.batch);
}

}  // namespace tidepool::emit

#endif  // TIDEPOOL_LIB_TRAINING_EMIT_HOST_PLACES_H_

// SPDX-License-Identifier: Apache-2.0
// Searches among the copies in flight.
#include "lib/copies/offload/copies_in_flight.h"

#include <iterator>
#include <memory>

namespace tidepool::offload {

std::vector<CopyPointer> CopiesInFlight::All() const {
  std::vector<CopyPointer> all;
  std::ranges::merge(outs_, ins_, std::back_inserter(all), {}, &BufferCopy::sequence,
                     &BufferCopy::sequence);
  return all;
}

CopyPointer CopiesInFlight::FirstLeaving() const {
  const auto out = std::ranges::find_if(outs_, [](const CopyPointer& copy) {
    const std::shared_ptr<DeviceMemory> device = copy->device.lock();
    return device != nullptr && device->is_leaving();
  });
  const auto in = std::ranges::find_if(ins_, [](const CopyPointer& copy) {
    return copy->held != nullptr && copy->held->is_leaving();
  });
  if (in == ins_.end()) return out == outs_.end() ? nullptr : *out;
  return out != outs_.end() && (*out)->sequence < (*in)->sequence ? *out : *in;
}

CopyPointer CopiesInFlight::FirstOut(bool is_compressed) const {
  const auto found = std::ranges::find_if(outs_, [&](const CopyPointer& copy) {
    return copy->is_compressed == is_compressed && (!is_compressed || copy->has_reported_end);
  });
  return found == outs_.end() ? nullptr : *found;
}

}  // namespace tidepool::offload

// SPDX-License-Identifier: Apache-2.0
// A buffer that is allocated on one stream, used on a second and freed from a callback that knows
// only its address.
#include <cstddef>
#include <vector>

#include "check.h"
#include "tidepool/host_device.h"
#include "tidepool/pool.h"

namespace {

// [free-by-address]
// Frees a buffer for a caller that does not know its stream, as free(p) of a framework.
void FreeByAddress(tidepool::Pool& pool, void* buffer) {
  const tidepool::Stream stream = Check(pool.AllocatedOn(buffer));
  Check(pool.Free(buffer, stream));
}
// [/free-by-address]

}  // namespace

int main() {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  auto device = Check(tidepool::HostDevice::Create({}));
  auto pool = Check(tidepool::Pool::Create(device.get(), {.max_bytes = std::int64_t{64} << 20}));
  const tidepool::Stream compute = Check(device->CreateStream());
  const tidepool::Stream copies = Check(device->CreateStream());
  const tidepool::Event written = Check(device->CreateEvent());
  std::vector<std::byte> result(kBytes);

  // [record-use]
  void* buffer = Check(pool->Allocate(kBytes, compute));
  Check(device->Fill(buffer, 7, kBytes, compute));
  Check(device->RecordEvent(written, compute));
  Check(device->WaitEvent(copies, written));  // the order of the work is the caller's
  Check(device->Copy(result.data(), buffer, kBytes, tidepool::CopyDirection::kFromDevice, copies));
  Check(pool->RecordUse(buffer, copies));  // before the free: the copy uses the buffer too
  FreeByAddress(*pool, buffer);            // reused only after the fill and the copy
  // [/record-use]

  Check(device->SynchronizeStream(copies));
  std::printf("copied %.0f MiB, the last byte is %d\n", MiB(kBytes),
              std::to_integer<int>(result.back()));
  return result.back() == std::byte{7} ? 0 : 1;
}

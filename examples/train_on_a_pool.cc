// Two streams of a device share a pool: memory that one has freed goes to the other behind the work
// that may still use it, and nobody waits on the host.
#include <cstdio>
#include <memory>

#include "tidepool/host_device.h"
#include "tidepool/pool.h"

namespace {

constexpr std::size_t kBytes = std::size_t{8} << 20;

absl::Status Train() {
  auto device = tidepool::HostDevice::Create({.memory_bytes = std::int64_t{64} << 20});
  if (!device.ok()) return device.status();
  tidepool::PoolOptions options;
  options.max_bytes = std::int64_t{32} << 20;  // never exceeded
  auto pool = tidepool::Pool::Create(device->get(), options);
  if (!pool.ok()) return pool.status();
  const auto compute = (*device)->CreateStream();
  const auto copies = (*device)->CreateStream();
  if (!compute.ok() || !copies.ok()) return compute.ok() ? copies.status() : compute.status();

  for (int step = 0; step < 100; ++step) {
    const tidepool::Stream stream = step % 2 == 0 ? *compute : *copies;
    const absl::StatusOr<void*> buffer = (*pool)->Allocate(kBytes, stream);
    if (!buffer.ok()) return buffer.status();
    absl::Status status = (*device)->Fill(*buffer, 1, kBytes, stream);
    if (!status.ok()) return status;
    status = (*pool)->Free(*buffer, stream);  // at once: what is queued before it still runs
    if (!status.ok()) return status;
  }
  const tidepool::PoolStats stats = (*pool)->Stats();
  std::printf("%lld allocations from %lld bytes, %lld waits of one stream for the other\n",
              static_cast<long long>(stats.allocations),
              static_cast<long long>(stats.reserved_bytes),
              static_cast<long long>(stats.stream_waits));
  return absl::OkStatus();
}

}  // namespace

int main() {
  const absl::Status status = Train();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

// Memory of the device for buffers, in turn: who finds no room waits for what is going out.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/offload/buffer_states.h"
#include "lib/offload/offloader_impl.h"

namespace tidepool::offload {
namespace {

constexpr std::size_t kMostNamed = 5;

std::string Wanted(std::size_t bytes, std::string_view name) {
  return absl::StrCat(
      "no room for ", bytes, " bytes",
      name.empty() ? "" : absl::StrCat(" of '", absl::CHexEscape({name.data(), name.size()}), "'"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<DeviceMemory>> OffloaderImpl::TakeMemory(Lock& lock,
                                                                        std::size_t bytes,
                                                                        Stream stream, Hint hint,
                                                                        std::string_view name,
                                                                        absl::Time deadline) {
  const std::uint64_t ticket = ++last_ticket_;
  const auto place = line_.insert(line_.end(), ticket);
  bool has_waited = line_.front() != ticket;
  const bool is_turn = WaitForTurn(lock, ticket, deadline);
  const absl::StatusOr<void*> address =
      is_turn ? TakeInTurn(lock, bytes, stream, hint, name, deadline, has_waited)
              : TooLate(bytes, name);
  if (has_waited) ++stats_.blocked;
  line_.erase(place);
  if (!line_.empty()) Changed();
  if (!address.ok()) return address.status();
  return std::make_shared<DeviceMemory>(DeviceSource{device_, pool_, holdings_, out_, in_},
                                        *address, static_cast<std::int64_t>(bytes), stream);
}

bool OffloaderImpl::WaitForTurn(Lock& lock, std::uint64_t ticket, absl::Time deadline) {
  while (line_.front() != ticket) {
    if (!AwaitChange(lock, ended_.changes(), deadline)) return line_.front() == ticket;
  }
  return true;
}

// One request is first in line, so its thread asks the pool without the mutex.
absl::StatusOr<void*> OffloaderImpl::TakeInTurn(Lock& lock, std::size_t bytes, Stream stream,
                                                Hint hint, std::string_view name,
                                                absl::Time deadline, bool& has_waited) {
  // The last try comes after the deadline.
  for (bool is_late = false;;) {
    const std::uint64_t seen = ended_.changes();
    lock.unlock();
    absl::StatusOr<void*> address = pool_.Allocate(bytes, stream, hint);
    lock.lock();
    CollectEnded();
    if (address.ok() || !absl::IsResourceExhausted(address.status())) return address;
    SettleArrivals();
    if (ended_.changes() != seen && !is_late) {
      is_late = deadline != absl::InfiniteFuture() && absl::Now() >= deadline;
      continue;
    }
    const CopyPointer leaving = FirstLeaving();
    // Others may use the pool, and it rounds sizes up: what only stays here is sure to be taken.
    const std::int64_t staying = holdings_.device_bytes - holdings_.leaving_bytes;
    const std::int64_t most = pool_.Stats().max_bytes - staying;
    if (leaving == nullptr || bytes > static_cast<std::size_t>(std::max<std::int64_t>(most, 0))) {
      return NoRoom(bytes, name, address.status());
    }
    if (is_late) return TooLate(bytes, name);
    has_waited = true;
    is_late = options_.release == OffloaderOptions::Release::kWhenOut
                  ? !AwaitChange(lock, seen, deadline)
                  : !FinishBy(lock, leaving, deadline);
  }
}

// The first that was sent of those that give memory back.
OffloaderImpl::CopyPointer OffloaderImpl::FirstLeaving() const {
  CopyPointer first;
  for (const CopyPointer& copy : outs_) {
    const std::shared_ptr<DeviceMemory> device = copy->device.lock();
    if (device == nullptr || !device->is_leaving()) continue;
    first = copy;
    break;
  }
  for (const CopyPointer& copy : ins_) {
    if (copy->held == nullptr || !copy->held->is_leaving()) continue;
    if (first == nullptr || copy->sequence < first->sequence) first = copy;
    break;
  }
  return first;
}

absl::Status OffloaderImpl::NoRoom(std::size_t bytes, std::string_view name,
                                   const absl::Status& refusal) const {
  std::vector<const Buffer*> holders;
  for (const auto& [id, buffer] : buffers_) {
    if (buffer->device != nullptr) holders.push_back(buffer.get());
  }
  const std::size_t named = std::min(holders.size(), kMostNamed);
  std::partial_sort(holders.begin(), holders.begin() + static_cast<std::ptrdiff_t>(named),
                    holders.end(), [](const Buffer* one, const Buffer* other) {
                      if (one->bytes != other->bytes) return one->bytes > other->bytes;
                      return one->id.id < other->id.id;
                    });
  std::string text =
      absl::StrCat(Wanted(bytes, name), ", and ", holdings_.leaving_bytes,
                   " bytes are going out, expected enough; ", std::string(refusal.message()));
  if (const std::int64_t promised = PromisedBytes(); promised > 0) {
    absl::StrAppend(&text, "; ", promised,
                    " bytes are kept because copies back failed after Use gave their addresses: "
                    "call Synchronize until it tells no error");
  }
  for (std::size_t i = 0; i < named; ++i) {
    absl::StrAppend(&text, i == 0 ? "; the largest of " : ", ",
                    i == 0 ? absl::StrCat(holders.size(), " buffers there: ") : "",
                    DescribeBuffer(*holders[i]), " (", holders[i]->bytes, " bytes, ",
                    std::string(BufferStateName(holders[i]->state)), ")");
  }
  return absl::ResourceExhaustedError(text);
}

// Of memory that stays until the error of a copy is told.
std::int64_t OffloaderImpl::PromisedBytes() const {
  std::int64_t bytes = 0;
  const auto add = [&](const CopyPointer& failed) {
    if (failed != nullptr && failed->promised != nullptr) bytes += failed->bytes;
  };
  for (const auto& [id, buffer] : buffers_) add(buffer->failed);
  for (const CopyPointer& lost : lost_) add(lost);
  return bytes;
}

absl::Status OffloaderImpl::TooLate(std::size_t bytes, std::string_view name) const {
  return absl::DeadlineExceededError(absl::StrCat(Wanted(bytes, name), " until the deadline, ",
                                                  holdings_.leaving_bytes,
                                                  " bytes are going out, expected them to be "
                                                  "out"));
}

}  // namespace tidepool::offload

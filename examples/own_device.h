// SPDX-License-Identifier: Apache-2.0
// OwnDevice: the interface tidepool::Device on an API of your own (own_api.h). It passes the tests
// of all devices, tests/memory/device/conformance.h.
#ifndef TIDEPOOL_EXAMPLES_OWN_DEVICE_H_
#define TIDEPOOL_EXAMPLES_OWN_DEVICE_H_

#include <cstring>
#include <set>
#include <string>

#include "own_api.h"
#include "tidepool/device.h"

class OwnDevice final : public tidepool::Device {
 public:
  using Stream = tidepool::Stream;
  using Event = tidepool::Event;
  explicit OwnDevice(std::int64_t memory_bytes) : memory_(memory_bytes) {}
  ~OwnDevice() override {
    for (const auto& [name, end] : ends_) own::Await(end);
    const std::lock_guard lock(mutex_);
    std::erase_if(events_, [&](const auto& event) { return event.second.device == this; });
  }

  std::string name() const override { return "own"; }
  std::int64_t memory_bytes() const override { return memory_.limit(); }
  std::int64_t used_bytes() const override { return memory_.used(); }

  // Streams. Each is known by the end of the work that was queued last.
  absl::StatusOr<Stream> CreateStream() override {
    const std::lock_guard lock(mutex_);
    const Stream stream = {tidepool::TakeDeviceNames(1)};
    streams_.insert(stream.id);
    ends_[stream.id] = nullptr;
    return stream;
  }
  absl::Status DestroyStream(Stream stream) override {
    const std::lock_guard lock(mutex_);
    if (streams_.erase(stream.id) == 0) return Unknown("stream");
    AdvanceStreamEpoch();  // its work goes on, and events may still be recorded at its end
    return absl::OkStatus();
  }
  bool HasStream(Stream stream) const override {
    const std::lock_guard lock(mutex_);
    return streams_.contains(stream.id);
  }

  // Events. Each stands for the end of some work.
  absl::StatusOr<Event> CreateEvent(tidepool::EventKind) override {
    const std::lock_guard lock(mutex_);
    const Event event = {tidepool::TakeDeviceNames(1)};
    events_[event.id].device = this;
    return event;
  }
  absl::Status DestroyEvent(Event event) override {
    const std::lock_guard lock(mutex_);
    if (!Has(event)) return Unknown("event");
    events_.erase(event.id);
    return absl::OkStatus();
  }
  absl::Status RecordEvent(Event event, Stream stream) override {
    const std::lock_guard lock(mutex_);
    const auto found = ends_.find(stream.id);
    return found == ends_.end() ? Unknown("stream") : Record(event, found->second);
  }
  absl::Status RecordAll(Event event) override {
    const std::lock_guard lock(mutex_);
    std::vector<own::End> ends;
    for (const auto& [name, end] : ends_) ends.push_back(end);
    return Record(event, own::Start(std::move(ends), nullptr));
  }
  absl::Status WaitEvent(Stream stream, Event event) override {
    const absl::StatusOr<own::End> end = EndOf(event, /*of_any_device=*/true);
    return end.ok() ? Queue(stream, nullptr, *end) : end.status();
  }
  absl::StatusOr<bool> QueryEvent(Event event) override {
    const absl::StatusOr<own::End> end = EndOf(event);
    if (!end.ok()) return end.status();
    return own::IsReached(*end);
  }
  absl::Status SynchronizeEvent(Event event) override {
    const absl::StatusOr<own::End> end = EndOf(event);
    if (end.ok()) own::Await(*end);
    return end.status();
  }

  // Work.
  absl::Status Copy(void* to, const void* from, std::int64_t bytes, tidepool::CopyDirection,
                    Stream stream) override {
    if (to == nullptr || from == nullptr || bytes < 0) return Invalid("copy");
    return Queue(stream, [=] { std::memmove(to, from, static_cast<std::size_t>(bytes)); });
  }
  absl::Status Fill(void* to, std::uint8_t value, std::int64_t bytes, Stream stream) override {
    if (to == nullptr || bytes < 0) return Invalid("fill");
    return Queue(stream, [=] { std::memset(to, value, static_cast<std::size_t>(bytes)); });
  }
  absl::Status CallHost(Stream stream, std::function<void()> function) override {
    return function == nullptr ? Invalid("function") : Queue(stream, std::move(function));
  }

  // Memory.
  absl::StatusOr<void*> AllocateMemory(std::int64_t size) override { return memory_.Malloc(size); }
  absl::Status FreeMemory(void* address) override { return memory_.Free(address); }
  absl::StatusOr<void*> AllocatePinned(std::int64_t size) override { return pinned_.Malloc(size); }
  absl::Status FreePinned(void* address) override { return pinned_.Free(address); }

 private:
  struct OwnEvent {
    const OwnDevice* device = nullptr;
    own::End end;
  };

  static absl::Status Unknown(const std::string& what) {
    return absl::NotFoundError("the device has no such " + what);
  }
  static absl::Status Invalid(const std::string& what) {
    return absl::InvalidArgumentError("not a valid " + what);
  }
  absl::Status Queue(Stream stream, std::function<void()> work, own::End after = nullptr) {
    const std::lock_guard lock(mutex_);
    if (!streams_.contains(stream.id)) return Unknown("stream");
    own::End& end = ends_[stream.id];
    end = own::Start({end, std::move(after)}, std::move(work));
    return absl::OkStatus();
  }
  bool Has(Event event) const {
    const auto found = events_.find(event.id);
    return found != events_.end() && found->second.device == this;
  }
  absl::Status Record(Event event, own::End end) {
    if (!Has(event)) return Unknown("event");
    events_[event.id].end = std::move(end);
    return absl::OkStatus();
  }
  absl::StatusOr<own::End> EndOf(Event event, bool of_any_device = false) const {
    const std::lock_guard lock(mutex_);
    if (of_any_device ? !events_.contains(event.id) : !Has(event)) return Unknown("event");
    return events_[event.id].end;
  }

  // A stream may wait for an event of another device, so the devices share the map of events.
  static inline std::mutex mutex_;
  static inline std::map<std::uint64_t, OwnEvent> events_;
  std::set<std::uint64_t> streams_;         // those that take work
  std::map<std::uint64_t, own::End> ends_;  // of these and of destroyed streams
  own::Heap memory_;
  own::Heap pinned_{own::Heap::kNoLimit};
};

#endif  // TIDEPOOL_EXAMPLES_OWN_DEVICE_H_

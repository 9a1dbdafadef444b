// SPDX-License-Identifier: Apache-2.0
// OwnDevice: the interface tidepool::Device on an API of your own. Here the API is threads: a
// stream is a thread with a queue, and device memory is malloc's. On HIP or SYCL a stream is the
// API's stream and most functions are one call. The suite tests/memory/device/conformance.h tests
// it.
#ifndef TIDEPOOL_EXAMPLES_OWN_DEVICE_H_
#define TIDEPOOL_EXAMPLES_OWN_DEVICE_H_

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/device.h"

// A stream: runs functions one after the other, and the rest of them before it ends.
class OwnQueue {
 public:
  OwnQueue() : thread_([this] { Run(); }) {}
  ~OwnQueue() {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void Add(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    ++queued_;
    changed_.notify_all();
  }
  std::int64_t queued() const {
    const std::lock_guard lock(mutex_);
    return queued_;
  }
  bool HasDone(std::int64_t count) const {
    const std::lock_guard lock(mutex_);
    return done_ >= count;
  }
  void Await(std::int64_t count) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= count; });
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return is_ending_ || !work_.empty(); });
      if (work_.empty()) return;
      std::function<void()> work = std::exchange(work_.front(), nullptr);
      work_.pop_front();
      lock.unlock();
      work();
      work = nullptr;  // gone before the work counts as done
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::int64_t queued_ = 0;
  std::int64_t done_ = 0;
  bool is_ending_ = false;
  std::thread thread_;  // last: it uses the members above
};

class OwnDevice final : public tidepool::Device {
 public:
  using Stream = tidepool::Stream;
  using Event = tidepool::Event;

  explicit OwnDevice(std::int64_t memory_bytes) : memory_bytes_(memory_bytes) {}
  ~OwnDevice() override {
    for (const auto& [id, stream] : streams_) stream.queue->Await(stream.queue->queued());
    for (const Memory* rest : {&memory_, &pinned_}) {
      for (const auto& [address, bytes] : *rest) std::free(address);
    }
    const std::lock_guard lock(all_mutex_);
    std::erase_if(all_events_, [&](const auto& event) { return event.second.device == this; });
  }

  std::string name() const override { return "own"; }
  std::int64_t memory_bytes() const override { return memory_bytes_; }
  std::int64_t used_bytes() const override {
    return Locked([&] { return used_bytes_; });
  }

  // Streams. Names are unique in the process, so one device knows another's from its own.
  absl::StatusOr<Stream> CreateStream() override {
    const Stream stream = {tidepool::TakeDeviceNames(1)};
    Locked([&] { streams_[stream.id].queue = std::make_shared<OwnQueue>(); });
    return stream;
  }
  absl::Status DestroyStream(Stream stream) override {
    const absl::Status status = Locked([&]() -> absl::Status {
      if (Find(stream) == nullptr) return Unknown("stream");
      streams_[stream.id].is_destroyed = true;  // the work in its queue still runs
      return absl::OkStatus();
    });
    if (status.ok()) AdvanceStreamEpoch();
    return status;
  }
  bool HasStream(Stream stream) const override {
    return Locked([&] { return Find(stream) != nullptr; });
  }
  absl::Status SynchronizeStream(Stream stream) override {
    const std::shared_ptr<OwnQueue> queue = Locked([&] { return Find(stream); });
    if (queue == nullptr) return Unknown("stream");
    queue->Await(queue->queued());
    return absl::OkStatus();
  }

  // Events. A recorded event is a count of finished work for each stream that it stands for.
  absl::StatusOr<Event> CreateEvent(tidepool::EventKind kind) override {
    const Event event = {tidepool::TakeDeviceNames(1)};
    const std::lock_guard lock(all_mutex_);
    all_events_[event.id] = {.device = this, .kind = kind};
    return event;
  }
  absl::Status DestroyEvent(Event event) override {
    return OnEvent(event, [&](Recorded&) {
      all_events_.erase(event.id);
      return absl::OkStatus();
    });
  }
  absl::Status RecordEvent(Event event, Stream stream) override {
    return OnEvent(event, [&](Recorded& recorded) -> absl::Status {
      const std::lock_guard lock(mutex_);
      const auto found = streams_.find(stream.id);
      if (found == streams_.end()) return Unknown("stream");
      OwnQueue& queue = *found->second.queue;
      recorded.time = nullptr;
      if (recorded.kind == tidepool::EventKind::kTimed && !found->second.is_destroyed) {
        recorded.time = std::make_shared<Clock::time_point>();
        queue.Add([time = recorded.time] { *time = Clock::now(); });
      }
      recorded.points = {{found->second.queue, queue.queued()}};
      return absl::OkStatus();
    });
  }
  absl::Status RecordAll(Event event) override {
    return OnEvent(event, [&](Recorded& recorded) {
      const std::lock_guard lock(mutex_);
      recorded.time = nullptr;
      recorded.points.clear();
      for (const auto& [id, stream] : streams_) {
        recorded.points.emplace_back(stream.queue, stream.queue->queued());
      }
      return absl::OkStatus();
    });
  }
  absl::Status WaitEvent(Stream stream, Event event) override {
    absl::StatusOr<Points> points = PointsOf(event, /*of_any_device=*/true);
    if (!points.ok()) return points.status();
    return Queue(stream, [points = *std::move(points)] { Await(points); });
  }
  absl::StatusOr<bool> QueryEvent(Event event) override {
    const absl::StatusOr<Points> points = PointsOf(event);
    if (!points.ok()) return points.status();
    return IsOver(*points);
  }
  absl::Status SynchronizeEvent(Event event) override {
    const absl::StatusOr<Points> points = PointsOf(event);
    if (points.ok()) Await(*points);
    return points.status();
  }
  absl::StatusOr<double> SecondsBetween(Event first, Event second) override {
    std::optional<Clock::time_point> times[2];
    for (const int i : {0, 1}) {
      absl::Status status = OnEvent(i == 0 ? first : second, [&](Recorded& recorded) {
        if (recorded.time != nullptr && IsOver(recorded.points)) times[i] = *recorded.time;
        return absl::OkStatus();
      });
      if (!status.ok()) return status;
      if (!times[i].has_value()) {
        return absl::FailedPreconditionError(
            "an event without a time, expected kTimed and reached");
      }
    }
    return std::chrono::duration<double>(*times[1] - *times[0]).count();
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
  absl::Status SpendTime(Stream stream, std::int64_t nanoseconds) override {
    if (nanoseconds < 0) return Invalid("time");
    return Queue(stream,
                 [=] { std::this_thread::sleep_for(std::chrono::nanoseconds(nanoseconds)); });
  }
  absl::Status CallHost(Stream stream, std::function<void()> function) override {
    if (function == nullptr) return Invalid("function");
    return Queue(stream, std::move(function));
  }

  // Memory of the device, of which there is memory_bytes(), and of the host.
  absl::StatusOr<void*> AllocateMemory(std::int64_t bytes) override {
    if (bytes < 1) return Invalid("size");
    return Locked([&]() -> absl::StatusOr<void*> {
      if (bytes > memory_bytes_ - used_bytes_) return absl::ResourceExhaustedError("out of memory");
      used_bytes_ += bytes;
      return Take(memory_, bytes);
    });
  }
  absl::Status FreeMemory(void* address) override {
    return Locked([&]() -> absl::Status {
      const auto found = memory_.find(address);
      if (found == memory_.end()) return Unknown("allocation");
      used_bytes_ -= found->second;
      return Give(memory_, found);
    });
  }
  absl::StatusOr<void*> AllocatePinned(std::int64_t bytes) override {
    if (bytes < 1) return Invalid("size");
    return Locked([&] { return Take(pinned_, bytes); });
  }
  absl::Status FreePinned(void* address) override {
    return Locked([&]() -> absl::Status {
      const auto found = pinned_.find(address);
      return found == pinned_.end() ? Unknown("pinned memory") : Give(pinned_, found);
    });
  }
  // Threads reach all memory of the host, so only the books are kept. An API that page-locks memory
  // does it here.
  absl::Status RegisterHostMemory(void* address, std::int64_t bytes) override {
    if (address == nullptr || bytes < 1 || !HasMemory(address, bytes)) return Invalid("range");
    return Locked([&]() -> absl::Status {
      for (const Memory* known : {&memory_, &pinned_, &registered_}) {
        if (Meets(*known, address, bytes)) return Invalid("range");
      }
      registered_.emplace(address, bytes);
      return absl::OkStatus();
    });
  }
  absl::Status UnregisterHostMemory(void* address) override {
    return Locked([&] {
      return registered_.erase(address) == 1 ? absl::OkStatus() : Unknown("registration");
    });
  }

  // Virtual memory, which this device does not have. Pools then take whole allocations.
  std::int64_t granularity() const override { return 0; }
  absl::StatusOr<void*> ReserveAddresses(std::int64_t) override { return NoSuch("addresses"); }
  absl::Status ReleaseAddresses(void*, std::int64_t) override { return NoSuch("addresses"); }
  absl::StatusOr<tidepool::PhysicalMemory> CreatePhysical(std::int64_t) override {
    return NoSuch("memory");
  }
  absl::Status ReleasePhysical(tidepool::PhysicalMemory) override { return NoSuch("memory"); }
  absl::Status Map(void*, tidepool::PhysicalMemory) override { return NoSuch("mapping"); }
  absl::Status Unmap(void*) override { return NoSuch("mapping"); }

 private:
  using Clock = std::chrono::steady_clock;
  using Points = std::vector<std::pair<std::shared_ptr<OwnQueue>, std::int64_t>>;
  using Memory = std::map<void*, std::int64_t>;  // bytes by address

  struct OwnStream {
    std::shared_ptr<OwnQueue> queue;
    bool is_destroyed = false;
  };
  struct Recorded {
    const OwnDevice* device = nullptr;
    tidepool::EventKind kind = tidepool::EventKind::kOrder;
    Points points = {};
    std::shared_ptr<Clock::time_point> time = nullptr;  // of a timed event that was recorded
  };

  static absl::Status Unknown(const char* what) {
    return absl::NotFoundError(std::string("no such ") + what + ", expected one of this device");
  }
  static absl::Status Invalid(const char* what) {
    return absl::InvalidArgumentError(std::string("not a valid ") + what);
  }
  static absl::Status NoSuch(const char* what) {
    return absl::UnimplementedError(std::string("no virtual memory: ") + what);
  }
  static bool IsOver(const Points& points) {
    for (const auto& [queue, count] : points) {
      if (!queue->HasDone(count)) return false;
    }
    return true;
  }
  static void Await(const Points& points) {
    for (const auto& [queue, count] : points) queue->Await(count);
  }
  static bool HasMemory(void* address, std::int64_t bytes) {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<std::uintptr_t>(address) & ~(page - 1);
    const auto end = reinterpret_cast<std::uintptr_t>(address) + static_cast<std::uintptr_t>(bytes);
    return msync(reinterpret_cast<void*>(begin), end - begin, MS_ASYNC) == 0;
  }
  static bool Meets(const Memory& memory, void* address, std::int64_t bytes) {
    auto* const begin = static_cast<char*>(address);
    for (const auto& [other, size] : memory) {
      auto* const its = static_cast<char*>(other);
      if (its < begin + bytes && begin < its + size) return true;
    }
    return false;
  }

  template <typename Function>
  auto Locked(const Function& function) const -> decltype(function()) {
    const std::lock_guard lock(mutex_);
    return function();
  }
  // Calls a function with an event of this device.
  template <typename Function>
  absl::Status OnEvent(Event event, const Function& function) {
    const std::lock_guard lock(all_mutex_);
    const auto found = all_events_.find(event.id);
    if (found == all_events_.end() || found->second.device != this) return Unknown("event");
    return function(found->second);
  }
  absl::StatusOr<Points> PointsOf(Event event, bool of_any_device = false) const {
    const std::lock_guard lock(all_mutex_);
    const auto found = all_events_.find(event.id);
    if (found == all_events_.end()) return Unknown("event");
    if (!of_any_device && found->second.device != this) return Unknown("event");
    return found->second.points;
  }
  std::shared_ptr<OwnQueue> Find(Stream stream) const {
    const auto found = streams_.find(stream.id);
    if (found == streams_.end() || found->second.is_destroyed) return nullptr;
    return found->second.queue;
  }
  absl::Status Queue(Stream stream, std::function<void()> work) {
    return Locked([&]() -> absl::Status {
      const std::shared_ptr<OwnQueue> queue = Find(stream);
      if (queue == nullptr) return Unknown("stream");
      queue->Add(std::move(work));
      return absl::OkStatus();
    });
  }
  static void* Take(Memory& memory, std::int64_t bytes) {
    constexpr std::int64_t kAlignment = 512;
    const std::int64_t rounded = (bytes + kAlignment - 1) & -kAlignment;
    void* const address = std::aligned_alloc(kAlignment, static_cast<std::size_t>(rounded));
    memory.emplace(address, bytes);
    return address;
  }
  static absl::Status Give(Memory& memory, Memory::iterator at) {
    std::free(at->first);
    memory.erase(at);
    return absl::OkStatus();
  }

  // Streams may wait for events of other devices, so all devices keep their events in one place.
  static inline std::mutex all_mutex_;
  static inline std::map<std::uint64_t, Recorded> all_events_;

  const std::int64_t memory_bytes_;
  mutable std::mutex mutex_;
  std::int64_t used_bytes_ = 0;
  Memory memory_;
  Memory pinned_;
  Memory registered_;
  std::map<std::uint64_t, OwnStream> streams_;
};

#endif  // TIDEPOOL_EXAMPLES_OWN_DEVICE_H_

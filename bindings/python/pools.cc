// SPDX-License-Identifier: Apache-2.0
#include "bindings/python/pools.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <cmath>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bindings/python/buffer.h"
#include "bindings/python/errors.h"
#include "bindings/python/gil.h"
#include "bindings/python/host_pool.h"
#include "bindings/python/work.h"
#include "bindings/support/plan_file.h"

namespace tidepool::python {
namespace {

namespace nb = nanobind;

// The Python class: a pool that buffers share.
struct PythonPool {
  std::shared_ptr<HostPool> host;
};

// A request of this thread, with the Python function that may make room for it. The pool itself
// holds no Python object: such a reference from C++ would keep a function that uses the pool, and
// with it the pool, for ever.
class Request {
 public:
  explicit Request(nb::handle function) : function_(function), before_(current_) {
    current_ = this;
  }
  ~Request() { current_ = before_; }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  // Calls the function of the thread's request. The pool holds no lock then.
  static bool MakeRoom(const OutOfMemoryRequest& refused) {
    return current_ != nullptr && !current_->function_.is_none() && current_->Call(refused);
  }
  // Throws the exception of the function, if it threw one.
  void CheckFunction() {
    if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  bool Call(const OutOfMemoryRequest& refused) noexcept {
    try {
      const char* hint = refused.hint == Hint::kResident ? "resident" : "offloadable";
      return nb::cast<bool>(
          CallPython(function_, nb::make_tuple(refused.bytes, hint, refused.attempt)));
    } catch (...) {
      error_ = std::current_exception();  // no exception may pass through the pool
      return false;
    }
  }

  static thread_local Request* current_;
  const nb::handle function_;
  Request* const before_;  // a function may allocate too
  std::exception_ptr error_;
};
thread_local Request* Request::current_ = nullptr;

Pool& Live(const PythonPool& pool) {
  Check(pool.host->CheckProcess());
  return pool.host->pool();
}

Hint HintOf(const std::string& name) {
  if (name == "resident") return Hint::kResident;
  if (name == "offloadable") return Hint::kOffloadable;
  Raise(absl::InvalidArgumentError(absl::StrCat("unknown hint '", absl::CHexEscape(name),
                                                "', expected 'resident' or 'offloadable'")));
}

PoolMemory MemoryOf(const std::string& name) {
  if (name == "automatic") return PoolMemory::kAutomatic;
  if (name == "virtual") return PoolMemory::kVirtual;
  if (name == "segments") return PoolMemory::kSegments;
  Raise(
      absl::InvalidArgumentError(absl::StrCat("unknown memory '", absl::CHexEscape(name),
                                              "', expected 'automatic', 'virtual' or 'segments'")));
}

void MakePool(PythonPool* place, std::int64_t budget, std::string placement, std::int64_t initial,
              std::int64_t alignment, double growth, bool remap, const std::string& memory,
              const std::string& trace, const std::string& plan, const std::string& shared_budget) {
  for (const std::string* path : {&trace, &plan, &shared_budget}) CheckHasNoNull(*path);
  PoolOptions options;
  options.max_bytes = budget;
  options.initial_bytes = initial;
  options.placement = std::move(placement);
  options.alignment = alignment;
  options.growth = growth;
  options.remap = remap;
  options.memory = MemoryOf(memory);
  options.shared_budget = shared_budget;
  options.on_out_of_memory = &Request::MakeRoom;
  const bool is_power = alignment > 0 && (alignment & (alignment - 1)) == 0;
  // Without it, Pool::Create refuses the alignment.
  if (!plan.empty() && is_power) {
    options.plan = Check(bindings::ReadPoolPlan(plan, alignment, budget));
  }
  new (place) PythonPool{Check(HostPool::Create(options, trace))};
}

// Takes memory that is there at once, or that the function of the request makes room for, or waits
// for it on another thread.
absl::StatusOr<std::shared_ptr<Allocation>> AllocateWaiting(
    const std::shared_ptr<HostPool>& pool, std::size_t bytes, Hint hint, absl::Time deadline,
    const std::shared_ptr<HostStream>& stream, Request& request) {
  using Made = absl::StatusOr<std::shared_ptr<Allocation>>;
  std::stop_source no_wait;
  no_wait.request_stop();
  const auto try_at_once = [&]() -> Made {
    return pool->AllocateBlocking(bytes, hint, stream, deadline, no_wait.get_token());
  };
  Made at_once = WithoutGil(try_at_once);
  OutOfMemoryRequest refused;
  refused.bytes = bytes;
  refused.hint = hint;
  while (absl::IsCancelled(at_once.status()) && refused.attempt <= Pool::kMostOutOfMemoryCalls &&
         Request::MakeRoom(refused)) {
    ++refused.attempt;
    at_once = WithoutGil(try_at_once);
  }
  request.CheckFunction();
  if (!absl::IsCancelled(at_once.status())) return at_once;
  const auto made = std::make_shared<Made>(std::move(at_once));
  RunWork([=](const WorkContext& context) {
    *made = pool->AllocateBlocking(bytes, hint, stream, deadline, context.stop);
  });
  return *std::move(made);
}

Buffer Allocate(const PythonPool& pool, std::size_t bytes, const std::string& hint,
                std::optional<double> wait, const std::shared_ptr<HostStream>& stream,
                nb::object on_out_of_memory) {
  const Hint known = HintOf(hint);
  Request request(on_out_of_memory);
  if (!wait.has_value()) {
    auto made = pool.host->Allocate(bytes, known, stream);
    request.CheckFunction();
    return {Check(std::move(made))};
  }
  if (!(*wait >= 0)) {
    Raise(absl::InvalidArgumentError(absl::StrCat("a wait of ", *wait, " s, expected 0 or more")));
  }
  const absl::Time deadline = absl::Now() + absl::Seconds(*wait);
  return {Check(AllocateWaiting(pool.host, bytes, known, deadline, stream, request))};
}

nb::dict Statistics(const PythonPool& pool) {
  const PoolStats stats = Live(pool).Stats();
  nb::dict result;
  result["live_bytes"] = stats.live_bytes;
  result["live_count"] = stats.live_count;
  result["peak_live_bytes"] = stats.peak_live_bytes;
  result["reserved_bytes"] = stats.reserved_bytes;
  result["peak_reserved_bytes"] = stats.peak_reserved_bytes;
  result["max_bytes"] = stats.max_bytes;
  result["high_water_bytes"] = stats.high_water_bytes;
  result["free_bytes"] = stats.free_bytes;
  result["largest_hole_bytes"] = stats.largest_hole_bytes;
  result["fragmentation"] = stats.fragmentation;
  result["allocations"] = stats.allocations;
  result["frees"] = stats.frees;
  result["failures"] = stats.failures;
  result["blocked"] = stats.blocked;
  result["stream_waits"] = stats.stream_waits;
  result["event_records"] = stats.event_records;
  result["growths"] = stats.growths;
  result["remaps"] = stats.remaps;
  result["remapped_bytes"] = stats.remapped_bytes;
  result["planned"] = stats.planned;
  result["deviations"] = stats.deviations;
  result["plans"] = stats.plans;
  result["iterations"] = stats.iterations;
  return result;
}

nb::list Blocks(const PythonPool& pool) {
  nb::list blocks;
  for (const PoolBlock& block : Live(pool).Snapshot()) {
    nb::dict one;
    one["address"] = reinterpret_cast<std::uintptr_t>(block.address);
    one["bytes"] = block.bytes;
    one["used"] = block.used;
    blocks.append(one);
  }
  return blocks;
}

std::int64_t Trim(const PythonPool& pool, std::int64_t keep) {
  Pool& live = Live(pool);
  return Check(WithoutGil([&] { return live.Trim(keep); }));
}

void CloseTrace(const PythonPool& pool) {
  Check(WithoutGil([&] { return pool.host->CloseTrace(); }));
}

}  // namespace

void AddPools(nb::module_& module) {
  AddBuffer(module);
  nb::class_<PythonPool>(module, "HostPool", "A pool on the host device. Sizes are bytes.")
      .def("__init__", &MakePool, nb::arg("budget"), nb::kw_only(), nb::arg("placement"),
           nb::arg("initial"), nb::arg("alignment"), nb::arg("growth"), nb::arg("remap"),
           nb::arg("memory"), nb::arg("trace"), nb::arg("plan"), nb::arg("shared_budget"))
      .def("allocate_buffer", &Allocate, nb::arg("bytes"), nb::arg("hint"), nb::arg("wait").none(),
           nb::arg("stream").none(), nb::arg("on_out_of_memory").none(),
           nb::sig("def allocate_buffer(self, bytes: int, hint: str, wait: float | None, stream: "
                   "Stream | None, on_out_of_memory: typing.Any) -> Buffer"))
      .def(
          "stream", [](const PythonPool& pool) { return Check(pool.host->CreateStream()); },
          nb::sig("def stream(self) -> Stream"),
          "Makes a stream. It ends with the object; queued work still runs.")
      .def("read_statistics", &Statistics,
           nb::sig("def read_statistics(self) -> dict[str, typing.Any]"))
      .def("read_blocks", &Blocks, nb::sig("def read_blocks(self) -> list[dict[str, typing.Any]]"))
      .def("trim_bytes", &Trim, nb::arg("keep"))
      .def(
          "take_wanted_by_others",
          [](const PythonPool& pool) { return Live(pool).TakeWantedByOthers(); },
          "Returns the bytes that other pools of the shared budget wait for, or were refused "
          "since the last call, as far as is known.")
      .def(
          "mark", [](const PythonPool& pool, const std::string& name) { Live(pool).Mark(name); },
          nb::arg("name"), "Tells the placement policy and the trace that a phase begins.")
      .def(
          "mark_iteration", [](const PythonPool& pool) { Live(pool).MarkIteration(); },
          "Says that an iteration begins that is similar to earlier ones.")
      .def("close_trace", &CloseTrace,
           "Ends the recording of the pool, and raises its first error. Later requests are not "
           "recorded.");
}

}  // namespace tidepool::python

// SPDX-License-Identifier: Apache-2.0
#include "bindings/python/traces.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/python/errors.h"
#include "bindings/python/work.h"
#include "tidepool/trace/trace_files.h"
#include "trace_replay/caller.h"
#include "trace_replay/quantity.h"

namespace tidepool::python {
namespace {

namespace nb = nanobind;

// A trace that calls share. Immutable.
struct TraceData {
  std::shared_ptr<const Trace> trace;
};

TraceData ReadTraceData(const std::string& path, std::optional<std::int32_t> device,
                        nb::object show) {
  CheckHasNoNull(path);
  const auto read = std::make_shared<absl::StatusOr<Trace>>(absl::CancelledError("interrupted"));
  RunWork(
      [read, path, device](const WorkContext& context) {
        context.show_progress("reading " + path, -1);
        *read = ReadTrace(path, {.device = device, .stop = context.stop});
      },
      show);
  return {std::make_shared<const Trace>(Check(std::move(*read)))};
}

// An answer of a command.
struct Ran {
  absl::StatusOr<tool::Answer> answer = absl::CancelledError("interrupted");
  std::string json;
};

nb::str JsonOf(const Ran& ran) { return nb::str(ran.json.c_str(), ran.json.size()); }

// Runs a command, and returns the JSON that it prints.
nb::str RunCommand(std::vector<std::string> arguments,
                   const std::map<std::string, TraceData>& traces, nb::object show) {
  for (const std::string& argument : arguments) CheckHasNoNull(argument);
  tool::Caller caller;
  for (const auto& [path, data] : traces) caller.traces[path] = data.trace;
  const auto ran = std::make_shared<Ran>();
  RunWork(
      [ran, caller, arguments = std::move(arguments)](const WorkContext& context) {
        tool::Caller with_context = caller;
        with_context.json = &ran->json;
        with_context.stop = context.stop;
        with_context.show_progress = context.show_progress;
        ran->answer = tool::RunFor(with_context, arguments);
      },
      show, [ran] { return ran->answer.ok() ? nb::object(JsonOf(*ran)) : nb::none(); });
  Check(ran->answer.status());
  return JsonOf(*ran);
}

}  // namespace

void AddTraces(nb::module_& module) {
  nb::class_<TraceData>(module, "TraceData", "A trace in memory. Immutable.")
      .def_prop_ro(
          "format",
          [](const TraceData& data) { return std::string(TraceFormatName(data.trace->format)); })
      .def_prop_ro("device", [](const TraceData& data) { return data.trace->device; })
      .def_prop_ro("events", [](const TraceData& data) { return data.trace->events.size(); })
      .def_prop_ro("allocations",
                   [](const TraceData& data) { return data.trace->allocations.size(); });
  module.def("read_trace", &ReadTraceData, nb::arg("path"), nb::arg("device").none() = nb::none(),
             nb::arg("show").none() = nb::none(), "Reads a trace of any format.");
  module.def("run_command", &RunCommand, nb::arg("arguments"), nb::arg("traces"),
             nb::arg("show").none() = nb::none(),
             "Runs a command of the tool in this process and returns the JSON that it prints.");
  module.def(
      "parse_size", [](const std::string& text) { return Check(tool::ParseSize(text)); },
      nb::arg("text"), "Returns the bytes of a size such as '80GiB'.");
  module.def(
      "parse_seconds", [](const std::string& text) { return Check(tool::ParseSeconds(text)); },
      nb::arg("text"), "Returns the seconds of a time such as '40m'.");
  module.def("finish", &FinishWork,
             "Stops and joins threads of interrupted calls. For the end of the process.");
}

}  // namespace tidepool::python

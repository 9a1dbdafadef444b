// SPDX-License-Identifier: Apache-2.0
// TaskCalls: the calls of one task as text, with the checks of its data.
#ifndef TIDEPOOL_LIB_TRAINING_EMIT_TASK_CALLS_H_
#define TIDEPOOL_LIB_TRAINING_EMIT_TASK_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lib/training/emit/kernel_calls.h"
#include "lib/training/emit/network.h"
#include "tidepool/training/graph.h"

namespace tidepool::emit {

struct RoleUse {
  std::size_t data = 0;
  std::string address;
  bool adds = false;  // a task updates it: the result is added to it
};

// The data of a task by its role: the kind of data and the order of uses tell it. Each list is in
// the order of uses.
struct TaskRoles {
  explicit TaskRoles(const PlacedTask& placed);

  std::vector<RoleUse> inputs;            // inputs and activations that are read
  std::vector<RoleUse> outputs;           // activations that are written
  std::vector<RoleUse> in_place;          // activations that are updated
  std::vector<RoleUse> weights;           // read
  std::vector<RoleUse> changed_weights;   // updated: learned ones by updates, else statistics
  std::vector<RoleUse> states;            // of the optimizer
  std::vector<RoleUse> gradients;         // of activations, read
  std::vector<RoleUse> made_gradients;    // of activations, written or updated
  std::vector<RoleUse> weight_gradients;  // read by updates
  std::vector<RoleUse> made_weight_gradients;
};

// A base of the classes that know the calls of an operation. After a fault, the first fault is the
// answer.
class TaskCalls {
 public:
  TaskCalls(const Network& network, const PlacedTask& placed)
      : network_(network), placed_(placed), task_(placed.task), roles_(placed) {}

  // Returns the calls that were added.
  absl::StatusOr<std::string> Finish() && {
    if (!status_.ok()) return status_;
    return std::move(text_);
  }

 protected:
  // Notes the first fault of the task.
  void Fault(const std::string& fault) {
    if (status_.ok()) status_ = AboutTask(task_, fault);
  }

  // Returns the parameters, which must be of this kind and of numbers that cuDNN takes.
  template <typename Parameters>
  Parameters Get() {
    const auto* found = std::get_if<Parameters>(&task_.parameters);
    if (found == nullptr) {
      Fault(absl::StrCat("has no layer parameters of the kind '", std::string(Parameters::kName),
                         "', expected them for its kernels"));
      return {};
    }
    return *found;
  }

  // Returns the use number `i` of a list, which must have `elements` elements; 0: any number.
  RoleUse Use(const std::vector<RoleUse>& list, std::size_t i, const char* role,
              std::int64_t elements = 0);
  RoleUse Input(std::size_t i, std::int64_t elements) {
    return Use(roles_.inputs, i, "input", elements);
  }
  RoleUse Output(std::int64_t elements) { return Use(roles_.outputs, 0, "output", elements); }
  RoleUse Weight(std::size_t i, std::int64_t elements) {
    return Use(roles_.weights, i, "weight", elements);
  }
  RoleUse Gradient(std::int64_t elements) {
    return Use(roles_.gradients, 0, "gradient of its output", elements);
  }
  RoleUse MadeGradient(std::int64_t elements) {
    return Use(roles_.made_gradients, 0, "gradient of its input", elements);
  }
  RoleUse WeightGradient(std::size_t i, std::int64_t elements) {
    return Use(roles_.made_weight_gradients, i, "gradient of its weights", elements);
  }

  // Adds a call with its arguments.
  template <typename... Arguments>
  void Call(const std::string& function, const Arguments&... arguments) {
    std::string list;
    (absl::StrAppend(&list, list.empty() ? "" : ", ", arguments), ...);
    absl::StrAppend(&text_, "  ", function, "(", list, ");\n");
  }
  static std::string Braced(std::initializer_list<std::int64_t> numbers);
  // Returns the shape of a tensor, of at most as many numbers as cuDNN and cuBLAS count, in int.
  std::string ShapeOf(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w);
  // The gradients of weights of an iteration are sums over its passes.
  static std::string AddsTo(const RoleUse& weight_gradient) {
    return weight_gradient.adds ? "true" : "pass.adds";
  }
  static const char* Adds(const RoleUse& gradient) { return gradient.adds ? "true" : "false"; }

  const Network& network_;
  const PlacedTask& placed_;
  const GraphTask& task_;
  const TaskRoles roles_;
  absl::Status status_;

 private:
  std::string text_;
};

}  // namespace tidepool::emit

#endif  // TIDEPOOL_LIB_TRAINING_EMIT_TASK_CALLS_H_

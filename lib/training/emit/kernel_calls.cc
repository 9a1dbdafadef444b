// SPDX-License-Identifier: Apache-2.0
#include "lib/training/emit/kernel_calls.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/training/emit/task_calls.h"

namespace tidepool::emit {
namespace {

// All operations without a file of their own (operation_calls.h). Their kernels take no workspace,
// so they compute the whole batch at once, in micro-batches or not.
class Layers final : public TaskCalls {
 public:
  using TaskCalls::TaskCalls;

  void AddLinear() {
    const auto l = Get<LinearParameters>();
    if (!status_.ok()) return;
    const std::int64_t rows = l.n * l.positions;
    const std::int64_t weights = l.inputs * l.outputs;
    static_cast<void>(ShapeOf(rows, std::max(l.inputs, l.outputs), 1, 1));
    const std::string shape = Braced({rows, l.inputs, l.outputs});
    if (task_.phase == TaskPhase::kForward) {
      const std::string bias = l.bias != 0 ? Weight(1, l.outputs).address : "nullptr";
      Call("Multiply", shape, Input(0, rows * l.inputs).address, Weight(0, weights).address, bias,
           Output(rows * l.outputs).address);
      return;
    }
    const std::string dy = Gradient(rows * l.outputs).address;
    if (!roles_.made_weight_gradients.empty()) {
      const RoleUse dw = WeightGradient(0, weights);
      Call("MultiplyWeights", shape, Input(0, rows * l.inputs).address, dy, dw.address,
           l.bias != 0 ? WeightGradient(1, l.outputs).address : "nullptr", AddsTo(dw));
    }
    if (roles_.made_gradients.empty()) return;
    const RoleUse dx = MadeGradient(rows * l.inputs);
    Call("MultiplyData", shape, Weight(0, weights).address, dy, dx.address, Adds(dx));
  }

  void AddRelu() { AddActivation("CUDNN_ACTIVATION_RELU"); }
  void AddTanh() { AddActivation("CUDNN_ACTIVATION_TANH"); }

  // In place: the only input is the output, and the gradient is changed where it lies.
  void AddActivation(const char* mode) {
    const auto e = Get<ElementwiseParameters>();
    const std::int64_t elements = e.n * e.elements;
    const std::string shape = ShapeOf(e.n, e.elements, 1, 1);
    const bool is_in_place = roles_.outputs.empty();
    if (task_.phase == TaskPhase::kForward) {
      const RoleUse x =
          is_in_place ? Use(roles_.in_place, 0, "output", elements) : Input(0, elements);
      Call("Activate", mode, shape, x.address, is_in_place ? x.address : Output(elements).address);
      return;
    }
    const RoleUse dx = MadeGradient(elements);
    const bool changes = roles_.gradients.empty();
    const RoleUse dy = changes ? dx : Gradient(elements);
    const RoleUse x = Input(0, elements);
    const RoleUse y = Input(roles_.inputs.size() - 1, elements);
    Call("ActivateData", mode, shape, y.address, dy.address, x.address, dx.address,
         changes ? "false" : Adds(dx));
  }

  void AddMaxPool() { AddPool("CUDNN_POOLING_MAX_DETERMINISTIC"); }
  void AddAveragePool() { AddPool("CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING"); }

  // Returns the number of windows on a side: `room` is the pixels beside the first one. cuDNN takes
  // the maximum of a window that exceeds the edge, and has no average of one.
  std::int64_t WindowsOf(std::int64_t room, std::int64_t stride, const PoolingParameters& p) {
    const bool exceeds = p.round_up != 0 && room % stride != 0;
    if (exceeds && task_.operation != "max-pool") {
      Fault("has averages of windows beyond the edge of the image, expected windows inside of it");
    }
    return room / stride + (exceeds ? 2 : 1);
  }

  void AddPool(const char* mode) {
    const auto p = Get<PoolingParameters>();
    if (!status_.ok()) return;
    const std::int64_t height = WindowsOf(p.h + 2 * p.padding_height - p.r, p.stride_height, p);
    const std::int64_t width = WindowsOf(p.w + 2 * p.padding_width - p.s, p.stride_width, p);
    if (!status_.ok()) return;
    const std::int64_t inputs = p.n * p.c * p.h * p.w;
    const std::int64_t outputs = p.n * p.c * height * width;
    const std::string shape =
        absl::StrCat("{", mode, ", ", ShapeOf(p.n, p.c, p.h, p.w), ", ", p.r, ", ", p.s, ", ",
                     p.padding_height, ", ", p.padding_width, ", ", p.stride_height, ", ",
                     p.stride_width, ", ", height, ", ", width, "}");
    if (task_.phase == TaskPhase::kForward) {
      Call("Pool", shape, Input(0, inputs).address, Output(outputs).address);
      return;
    }
    const RoleUse dy = Gradient(outputs);
    const RoleUse dx = MadeGradient(inputs);
    const bool is_maximum = task_.operation == "max-pool";
    Call("PoolData", shape, is_maximum ? Input(1, outputs).address : dy.address, dy.address,
         is_maximum ? Input(0, inputs).address : dx.address, dx.address, Adds(dx));
  }

  void AddNormalization() {
    const auto n = Get<NormalizationParameters>();
    if (!status_.ok()) return;
    if (!roles_.in_place.empty() ||
        (roles_.gradients.empty() && task_.phase == TaskPhase::kBackward)) {
      Fault(
          "normalises in place, where layers in place overwrite the values that its gradients "
          "need; "
          "expected batch normalisation that keeps its input: without --fused-batch-norm");
      return;
    }
    const std::int64_t elements = n.n * n.c * n.h * n.w;
    const std::string shape = ShapeOf(n.n, n.c, n.h, n.w);
    if (task_.phase == TaskPhase::kForward) {
      Call("Normalize", shape, Input(0, elements).address, Weight(0, n.c).address,
           Weight(1, n.c).address, Output(elements).address,
           Use(roles_.outputs, 1, "saved statistics", 2 * n.c).address,
           Use(roles_.changed_weights, 0, "running statistics", 2 * n.c).address);
      return;
    }
    const RoleUse dx = MadeGradient(elements);
    const RoleUse dscale = WeightGradient(0, n.c);
    Call("NormalizeGradients", shape, Input(0, elements).address, Gradient(elements).address,
         dx.address, Adds(dx), Weight(0, n.c).address,
         Use(roles_.inputs, 1, "saved statistics", 2 * n.c).address, dscale.address,
         WeightGradient(1, n.c).address, AddsTo(dscale));
  }

  void AddResponseNormalization() {
    const auto n = Get<NormalizationParameters>();
    const std::int64_t elements = n.n * n.c * n.h * n.w;
    const std::string shape = ShapeOf(n.n, n.c, n.h, n.w);
    if (task_.phase == TaskPhase::kForward) {
      Call("NormalizeResponse", shape, Input(0, elements).address, Output(elements).address);
      return;
    }
    const RoleUse dx = MadeGradient(elements);
    Call("NormalizeResponseData", shape, Input(1, elements).address, Gradient(elements).address,
         Input(0, elements).address, dx.address, Adds(dx));
  }

  // In place, or from its input to its output. The mask is the last one of its data.
  void AddDropout() {
    const auto e = Get<ElementwiseParameters>();
    const std::int64_t elements = e.n * e.elements;
    const std::string shape = ShapeOf(e.n, e.elements, 1, 1);
    const auto layer = std::ranges::find(network_.dropouts, task_.layer);
    if (layer == network_.dropouts.end()) return Fault("has no forward task, expected one");
    const auto number = layer - network_.dropouts.begin();
    const auto mask = [&](const std::vector<RoleUse>& list) {
      const RoleUse use = Use(list, list.empty() ? 0 : list.size() - 1, "mask");
      if (!status_.ok()) return std::string();
      return absl::StrCat("{", use.address, ", ", placed_.graph.data[use.data].bytes, "}");
    };
    if (task_.phase == TaskPhase::kForward) {
      const bool is_in_place = !roles_.in_place.empty();
      const RoleUse x =
          is_in_place ? Use(roles_.in_place, 0, "output", elements) : Input(0, elements);
      Call("Drop", number, shape, x.address, is_in_place ? x.address : Output(elements).address,
           mask(roles_.outputs));
      return;
    }
    const RoleUse dx = MadeGradient(elements);
    const bool changes = roles_.gradients.empty();
    if (dx.adds && !changes) {
      return Fault("adds to the gradient of its input, expected an input of one reader");
    }
    Call("DropData", number, shape, changes ? dx.address : Gradient(elements).address, dx.address,
         mask(roles_.inputs));
  }

  // The softmax before the loss computes logarithms.
  void AddSoftmax() {
    const auto n = Get<NormalizationParameters>();
    const std::int64_t elements = n.n * n.c * n.h * n.w;
    const std::string shape = ShapeOf(n.n, n.c, n.h, n.w);
    const auto kind = [&](const RoleUse& y) {
      return y.data == network_.log_probabilities ? "CUDNN_SOFTMAX_LOG" : "CUDNN_SOFTMAX_ACCURATE";
    };
    if (task_.phase == TaskPhase::kForward) {
      const RoleUse y = Output(elements);
      Call("Softmax", kind(y), shape, Input(0, elements).address, y.address);
      return;
    }
    const RoleUse y = Input(0, elements);
    const RoleUse dx = MadeGradient(elements);
    Call("SoftmaxData", kind(y), shape, y.address, Gradient(elements).address, dx.address,
         Adds(dx));
  }

  void AddLoss() {
    const auto e = Get<ElementwiseParameters>();
    const std::int64_t elements = e.n * network_.classes * network_.positions;
    const RoleUse gradient = MadeGradient(elements);
    Call("Lose", placed_.stream, "pass", e.n, Input(0, elements).address, gradient.address);
  }

  // The gradients of the weights of a layer in order, with the weights and their states.
  void AddUpdate() {
    const std::size_t count = roles_.weight_gradients.size();
    const std::size_t states = count == 0 ? 0 : roles_.states.size() / count;
    if (roles_.changed_weights.size() != count || roles_.states.size() != states * count ||
        states > 2) {
      Fault(absl::StrCat("updates ", roles_.changed_weights.size(), " weights with ",
                         roles_.states.size(), " states from ", count,
                         " gradients, expected gradient descent, with momentum, or Adam"));
      return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const RoleUse& weight = roles_.changed_weights[i];
      const std::int64_t elements = placed_.graph.data[weight.data].bytes / kWordBytes;
      static_cast<void>(ShapeOf(elements, 1, 1, 1));
      const RoleUse gradient = Use(roles_.weight_gradients, i, "gradient of a weight", elements);
      const auto state = [&](std::size_t number) {
        return Use(roles_.states, i * states + number, "state", elements).address;
      };
      if (states == 2) {
        Call("DescendWithAdam", elements, gradient.address, weight.address, state(0), state(1));
      } else if (states == 1) {
        Call("DescendWithMomentum", elements, gradient.address, weight.address, state(0));
      } else {
        Call("Descend", elements, gradient.address, weight.address);
      }
    }
  }
};

using MadeCalls = absl::StatusOr<std::string>;

template <void (Layers::*add)()>
MadeCalls LayerCalls(const Network& network, const PlacedTask& placed) {
  Layers calls(network, placed);
  (calls.*add)();
  return std::move(calls).Finish();
}

struct Operation {
  std::string_view name;
  MadeCalls (*calls)(const Network& network, const PlacedTask& placed);
};
constexpr std::array<Operation, 14> kOperations = {
    {{"conv", ConvolutionCalls},
     {"transposed-conv", TransposedConvolutionCalls},
     {"linear", LayerCalls<&Layers::AddLinear>},
     {"relu", LayerCalls<&Layers::AddRelu>},
     {"tanh", LayerCalls<&Layers::AddTanh>},
     {"max-pool", LayerCalls<&Layers::AddMaxPool>},
     {"average-pool", LayerCalls<&Layers::AddAveragePool>},
     {"batch-norm", LayerCalls<&Layers::AddNormalization>},
     {"lrn", LayerCalls<&Layers::AddResponseNormalization>},
     {"dropout", LayerCalls<&Layers::AddDropout>},
     {"softmax", LayerCalls<&Layers::AddSoftmax>},
     {"add", SumCalls},
     {"concat", ConcatenationCalls},
     {"loss", LayerCalls<&Layers::AddLoss>}}};

absl::Status UnknownOperation(const GraphTask& task) {
  std::string known;
  for (const Operation& operation : kOperations) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(operation.name));
  }
  return AboutTask(
      task, absl::StrCat("has the operation ", text::Quoted(task.operation), ", expected one of ",
                         known, ", or callbacks in the place of kernels"));
}

}  // namespace

absl::StatusOr<std::string> KernelCalls(const Network& network, const PlacedTask& placed) {
  const GraphTask& task = placed.task;
  const bool is_single =
      task.data_type == DataType::kFloat32 || task.data_type == DataType::kUnknown;
  if (!is_single) return AboutTask(task, "has tensors of another type, expected float32");
  if (task.phase == TaskPhase::kUpdate) return LayerCalls<&Layers::AddUpdate>(network, placed);
  const auto found = std::ranges::find(kOperations, task.operation, &Operation::name);
  return found == kOperations.end() ? UnknownOperation(task) : found->calls(network, placed);
}

}  // namespace tidepool::emit

// SPDX-License-Identifier: Apache-2.0
#include "lib/emit/kernel_calls.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/emit/image_shape.h"
#include "lib/emit/task_roles.h"
#include "lib/io/quote.h"

namespace tidepool::emit {
namespace {

constexpr char kNull[] = "nullptr";

// Collects the calls of one task. After a fault it adds nothing, and the fault is the answer.
class Calls {
 public:
  Calls(const Network& network, const PlacedTask& placed)
      : network_(network), placed_(placed), task_(placed.task), roles_(placed) {}

  absl::StatusOr<std::string> Make() {
    const bool is_single =
        task_.data_type == DataType::kFloat32 || task_.data_type == DataType::kUnknown;
    if (!is_single) return AboutTask(task_, "has tensors of another type, expected float32");
    if (!placed_.algorithm.micro_batches.empty()) {
      return AboutTask(task_, "runs in micro-batches, expected an algorithm of the whole batch");
    }
    if (task_.phase == TaskPhase::kUpdate) {
      AddUpdate();
    } else {
      AddLayer();
    }
    if (!status_.ok()) return status_;
    return text_;
  }

 private:
  void AddLayer() {
    struct Operation {
      std::string_view name;
      void (Calls::*add)();
    };
    static constexpr std::array<Operation, 14> kOperations = {
        {{"conv", &Calls::AddConvolution},
         {"transposed-conv", &Calls::AddTransposedConvolution},
         {"linear", &Calls::AddLinear},
         {"relu", &Calls::AddRelu},
         {"tanh", &Calls::AddTanh},
         {"max-pool", &Calls::AddMaxPool},
         {"average-pool", &Calls::AddAveragePool},
         {"batch-norm", &Calls::AddNormalization},
         {"lrn", &Calls::AddResponseNormalization},
         {"dropout", &Calls::AddDropout},
         {"softmax", &Calls::AddSoftmax},
         {"add", &Calls::AddSum},
         {"concat", &Calls::AddConcatenation},
         {"loss", &Calls::AddLoss}}};
    const auto found = std::ranges::find(kOperations, task_.operation, &Operation::name);
    if (found == kOperations.end()) {
      std::string known;
      for (const Operation& operation : kOperations) {
        absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(operation.name));
      }
      Fault(absl::StrCat("has the operation ", io::Quoted(task_.operation), ", expected one of ",
                         known, ", or callbacks in the place of kernels"));
      return;
    }
    (this->*found->add)();
  }

  // Faults. ---------------------------------------------------------------------------------------

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

  // Returns the use number `i` of a list, which must have so many elements; 0: any number.
  RoleUse Use(const std::vector<RoleUse>& list, std::size_t i, const char* role,
              std::int64_t elements = 0) {
    if (i >= list.size()) {
      Fault(absl::StrCat("has no ", role, " among its data, expected one"));
      return {};
    }
    const std::int64_t bytes = placed_.graph.data[list[i].data].bytes;
    if (elements != 0 && bytes != elements * kWordBytes) {
      Fault(absl::StrCat("has ", bytes, " bytes of ", role, ", expected ", elements * kWordBytes,
                         " by its layer parameters"));
    }
    return list[i];
  }
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

  // Text. -----------------------------------------------------------------------------------------

  template <typename... Arguments>
  void Call(const char* function, const Arguments&... arguments) {
    std::string list;
    (absl::StrAppend(&list, list.empty() ? "" : ", ", arguments), ...);
    absl::StrAppend(&text_, "  ", function, "(", list, ");\n");
  }
  static std::string Braced(std::initializer_list<std::int64_t> numbers) {
    std::string list;
    for (const std::int64_t number : numbers) {
      absl::StrAppend(&list, list.empty() ? "" : ", ", number);
    }
    return absl::StrCat("{", list, "}");
  }
  // cuDNN and cuBLAS count in int.
  std::string ShapeOf(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    constexpr std::int64_t kMost = std::numeric_limits<int>::max();
    if (n * c * h * w > kMost) {
      Fault(absl::StrCat("has ", n * c * h * w, " numbers in a tensor, expected at most ", kMost));
    }
    return Braced({n, c, h, w});
  }
  // The gradients of weights of an iteration are sums over its passes.
  static std::string AddsTo(const RoleUse& weight_gradient) {
    return weight_gradient.adds ? "true" : "pass.adds";
  }
  static const char* Adds(const RoleUse& gradient) { return gradient.adds ? "true" : "false"; }
  std::string WorkspaceText() const {
    return absl::StrCat("{", placed_.workspace, ", ", placed_.algorithm.workspace_bytes, "}");
  }

  // Layers. ---------------------------------------------------------------------------------------

  // Returns cuDNN's number of an algorithm: of forward convolutions, gradients of data and those of
  // weights.
  int AlgorithmNumber(std::size_t pass) {
    struct Algorithm {
      std::string_view name;
      std::array<int, 3> numbers;
    };
    static constexpr std::array<Algorithm, 7> kAlgorithms = {{{"default", {0, 1, 1}},
                                                              {"implicit-gemm", {0, 1, 1}},
                                                              {"precomputed-gemm", {1, 1, 1}},
                                                              {"gemm", {2, 0, 0}},
                                                              {"fft", {4, 2, 2}},
                                                              {"fft-tiling", {5, 3, 6}},
                                                              {"winograd", {7, 5, 5}}}};
    const auto found = std::ranges::find(kAlgorithms, placed_.algorithm.name, &Algorithm::name);
    return found == kAlgorithms.end() ? kAlgorithms.front().numbers[pass] : found->numbers[pass];
  }

  // Returns the text of a convolution from an image of shape `input`.
  static std::string ConvolutionShape(const ConvolutionParameters& c, const std::string& input,
                                      std::int64_t outputs) {
    return absl::StrCat("{", input, ", ", outputs, ", ", c.r, ", ", c.s, ", ", c.padding_height,
                        ", ", c.padding_width, ", ", c.stride_height, ", ", c.stride_width, ", ",
                        c.dilation_height, ", ", c.dilation_width, ", ", c.groups, "}");
  }

  void AddConvolution() {
    const auto c = Get<ConvolutionParameters>();
    if (!status_.ok()) return;
    const std::int64_t inputs = c.n * c.c * c.h * c.w;
    const std::int64_t weights = c.k * (c.c / c.groups) * c.r * c.s;
    const std::int64_t outputs = c.n * OutputOf(c).elements();
    const std::string shape = ConvolutionShape(c, ShapeOf(c.n, c.c, c.h, c.w), c.k);
    if (task_.phase == TaskPhase::kForward) {
      const std::string bias = roles_.weights.size() > 1 ? Weight(1, c.k).address : kNull;
      Call("Convolve", shape, AlgorithmNumber(0), Input(0, inputs).address,
           Weight(0, weights).address, bias, Output(outputs).address, "false", WorkspaceText());
      return;
    }
    const std::string dy = Gradient(outputs).address;
    if (!roles_.made_weight_gradients.empty()) {
      const RoleUse dw = WeightGradient(0, weights);
      const bool has_bias = roles_.made_weight_gradients.size() > 1;
      Call("ConvolveWeights", shape, AlgorithmNumber(2), Input(0, inputs).address, dy, dw.address,
           has_bias ? WeightGradient(1, c.k).address : kNull, AddsTo(dw), WorkspaceText());
    }
    if (roles_.made_gradients.empty()) return;
    const RoleUse dx = MadeGradient(inputs);
    Call("ConvolveData", shape, AlgorithmNumber(1), Weight(0, weights).address, dy, dx.address,
         Adds(dx), WorkspaceText());
  }

  // The gradient of a convolution from the output's pixels to the input's.
  void AddTransposedConvolution() {
    const auto c = Get<ConvolutionParameters>();
    if (!status_.ok()) return;
    const bool is_forward = task_.phase == TaskPhase::kForward;
    const RoleUse y = is_forward ? Output(0) : Gradient(0);
    if (!status_.ok()) return;
    const ImageShape out = TransposedOutputOf(c, placed_.graph.data[y.data].bytes / kWordBytes);
    const std::int64_t inputs = c.n * c.c * c.h * c.w;
    const std::int64_t weights = c.c * (c.k / c.groups) * c.r * c.s;
    const std::int64_t outputs = c.n * out.elements();
    const std::string shape = ConvolutionShape(c, ShapeOf(c.n, c.k, out.height, out.width), c.c);
    if (is_forward) {
      const std::string bias = roles_.weights.size() > 1 ? Weight(1, c.k).address : kNull;
      Call("ConvolveTransposed", shape, AlgorithmNumber(1), Input(0, inputs).address,
           Weight(0, weights).address, bias, Output(outputs).address, WorkspaceText());
      return;
    }
    const std::string dy = Gradient(outputs).address;
    if (!roles_.made_weight_gradients.empty()) {
      const RoleUse dw = WeightGradient(0, weights);
      const bool has_bias = roles_.made_weight_gradients.size() > 1;
      Call("ConvolveTransposedWeights", shape, AlgorithmNumber(2), Input(0, inputs).address, dy,
           dw.address, has_bias ? WeightGradient(1, c.k).address : kNull, AddsTo(dw),
           WorkspaceText());
    }
    if (roles_.made_gradients.empty()) return;
    const RoleUse dx = MadeGradient(inputs);
    Call("Convolve", shape, AlgorithmNumber(0), dy, Weight(0, weights).address, kNull, dx.address,
         Adds(dx), WorkspaceText());
  }

  void AddLinear() {
    const auto l = Get<LinearParameters>();
    if (!status_.ok()) return;
    const std::int64_t rows = l.n * l.positions;
    const std::int64_t weights = l.inputs * l.outputs;
    static_cast<void>(ShapeOf(rows, std::max(l.inputs, l.outputs), 1, 1));
    const std::string shape = Braced({rows, l.inputs, l.outputs});
    if (task_.phase == TaskPhase::kForward) {
      const std::string bias = l.bias != 0 ? Weight(1, l.outputs).address : kNull;
      Call("Multiply", shape, Input(0, rows * l.inputs).address, Weight(0, weights).address, bias,
           Output(rows * l.outputs).address);
      return;
    }
    const std::string dy = Gradient(rows * l.outputs).address;
    if (!roles_.made_weight_gradients.empty()) {
      const RoleUse dw = WeightGradient(0, weights);
      Call("MultiplyWeights", shape, Input(0, rows * l.inputs).address, dy, dw.address,
           l.bias != 0 ? WeightGradient(1, l.outputs).address : kNull, AddsTo(dw));
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

  void AddTransform(std::int64_t rows, std::int64_t columns, const std::string& from,
                    const std::string& to, const char* adds) {
    Call("Transform", rows, columns, from, to, adds);
  }
  static std::string Rows(const RoleUse& use, std::int64_t pitch, std::int64_t first = 0) {
    return absl::StrCat("{", use.address, ", ", pitch, ", ", first, "}");
  }

  // In place: adds the input to the sum. Otherwise copies the first and adds the second. The
  // gradient of each summand is that of the sum.
  void AddSum() {
    const auto e = Get<ElementwiseParameters>();
    const std::int64_t elements = e.n * e.elements;
    static_cast<void>(ShapeOf(e.n, e.elements, 1, 1));
    if (task_.phase == TaskPhase::kBackward) {
      const std::string dy = Rows(Gradient(elements), e.elements);
      for (std::size_t i = 0; i < roles_.made_gradients.size(); ++i) {
        const RoleUse dx = Use(roles_.made_gradients, i, "gradient of its input", elements);
        AddTransform(e.n, e.elements, dy, Rows(dx, e.elements), Adds(dx));
      }
      return;
    }
    const bool is_in_place = roles_.outputs.empty();
    const RoleUse sum =
        is_in_place ? Use(roles_.in_place, 0, "output", elements) : Output(elements);
    bool adds = is_in_place;
    for (std::size_t i = 0; i < roles_.inputs.size(); ++i) {
      AddTransform(e.n, e.elements, Rows(Input(i, elements), e.elements), Rows(sum, e.elements),
                   adds ? "true" : "false");
      adds = true;
    }
  }

  // Each sample of the output is the samples of the inputs one after the other.
  void AddConcatenation() {
    const auto e = Get<ElementwiseParameters>();
    if (!status_.ok()) return;
    static_cast<void>(ShapeOf(e.n, e.elements, 1, 1));
    const bool is_forward = task_.phase == TaskPhase::kForward;
    const RoleUse whole = is_forward ? Output(e.n * e.elements) : Gradient(e.n * e.elements);
    const std::vector<std::size_t> inputs = is_forward ? ReadsOf(task_) : InputsOfLayer();
    std::int64_t numbers = 0;
    const auto columns = [&](std::size_t input) {
      return placed_.graph.data[input].bytes / kWordBytes / std::max<std::int64_t>(e.n, 1);
    };
    for (const std::size_t input : inputs) numbers += columns(input);
    if (numbers != e.elements) return AddCroppedParts(e, inputs, whole, is_forward);
    std::int64_t first = 0;
    for (const std::size_t input : inputs) {
      AddPart(input, {e.n, columns(input), e.elements, first}, whole, is_forward);
      first += columns(input);
    }
  }

  struct Part {
    std::int64_t rows;
    std::int64_t columns;
    std::int64_t pitch;  // of the whole
    std::int64_t first;
  };
  void AddPart(std::size_t input, const Part& part, const RoleUse& whole, bool is_forward) {
    const std::optional<RoleUse> use = PartOf(input, is_forward);
    if (!use.has_value()) return;
    const std::string in_whole = Rows(whole, part.pitch, part.first);
    const std::string alone = Rows(*use, part.columns);
    AddTransform(part.rows, part.columns, is_forward ? alone : in_whole,
                 is_forward ? in_whole : alone, Adds(*use));
  }
  // Returns an input of the concatenation, or its gradient; none where that is not wanted.
  std::optional<RoleUse> PartOf(std::size_t input, bool is_forward) {
    if (is_forward) return *std::ranges::find(roles_.inputs, input, &RoleUse::data);
    const std::string name = placed_.graph.data[input].name + ".gradient";
    const auto use = std::ranges::find_if(roles_.made_gradients, [&](const RoleUse& gradient) {
      return placed_.graph.data[gradient.data].name == name;
    });
    if (use != roles_.made_gradients.end()) return *use;
    if (placed_.graph.data[input].kind != DataKind::kInput) {
      Fault(absl::StrCat("makes no gradient ", io::Quoted(name), ", expected one for each input"));
    }
    return std::nullopt;
  }

  // The output has the least height and width of the inputs, and of others the middle.
  void AddCroppedParts(const ElementwiseParameters& e, const std::vector<std::size_t>& inputs,
                       const RoleUse& whole, bool is_forward) {
    std::vector<ImageShape> shapes;
    shapes.reserve(inputs.size());
    for (const std::size_t input : inputs) {
      shapes.push_back(ShapeOfData(placed_.graph, input).value_or(ImageShape()));
    }
    const std::int64_t height = std::ranges::min(shapes, {}, &ImageShape::height).height;
    const std::int64_t width = std::ranges::min(shapes, {}, &ImageShape::width).width;
    std::int64_t first = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const ImageShape part = {shapes[i].channels, height, width};
      AddCroppedPart(inputs[i], shapes[i], part,
                     Images(whole, e.elements, {part.channels, height, width}, first), is_forward);
      first += part.elements();
    }
    if (first == e.elements) return;
    Fault(absl::StrCat("has ", e.elements,
                       " numbers a sample, expected as many as its inputs have, or images of "
                       "convolutions, cropped to the smallest"));
  }
  // Returns images of this shape in memory, from number `first` of each sample on.
  static std::string Images(const RoleUse& use, std::int64_t sample, const ImageShape& shape,
                            std::int64_t first) {
    return absl::StrCat("{", use.address, ", ", sample, ", ", shape.height * shape.width, ", ",
                        shape.width, ", ", first, "}");
  }
  // A gradient is 0 beside the part.
  void AddCroppedPart(std::size_t input, const ImageShape& image, const ImageShape& part,
                      const std::string& in_whole, bool is_forward) {
    const std::optional<RoleUse> use = PartOf(input, is_forward);
    if (!use.has_value()) return;
    const std::int64_t top = (image.height - part.height) / 2;
    const std::int64_t left = (image.width - part.width) / 2;
    const std::string alone = Images(*use, image.elements(), image, top * image.width + left);
    const std::int64_t bytes = placed_.graph.data[input].bytes;
    const std::int64_t samples = bytes / kWordBytes / std::max<std::int64_t>(image.elements(), 1);
    const std::string shape = ShapeOf(samples, part.channels, part.height, part.width);
    if (is_forward) {
      Call("Crop", shape, alone, in_whole, "false");
      return;
    }
    if (!use->adds && image.elements() != part.elements()) {
      Call("Clear", placed_.stream, use->address, bytes);
    }
    Call("Crop", shape, in_whole, alone, Adds(*use));
  }
  static const std::vector<std::size_t>& ReadsOf(const GraphTask& task) { return task.reads; }
  // Returns the inputs of the forward task of a backward task's layer.
  std::vector<std::size_t> InputsOfLayer() {
    for (const GraphTask& task : placed_.graph.tasks) {
      if (task.phase == TaskPhase::kForward && task.layer == task_.layer) return task.reads;
    }
    Fault(absl::StrCat("has the layer ", io::Quoted(task_.layer),
                       " without a forward task, expected one"));
    return {};
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

  const Network& network_;
  const PlacedTask& placed_;
  const GraphTask& task_;
  const TaskRoles roles_;
  absl::Status status_;
  std::string text_;
};

}  // namespace

absl::StatusOr<std::string> KernelCalls(const Network& network, const PlacedTask& placed) {
  return Calls(network, placed).Make();
}

}  // namespace tidepool::emit

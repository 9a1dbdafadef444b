// SPDX-License-Identifier: Apache-2.0
// Sums of tensors, and concatenations.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/text/quote.h"
#include "lib/training/emit/image_shape.h"
#include "lib/training/emit/kernel_calls.h"
#include "lib/training/emit/task_calls.h"

namespace tidepool::emit {
namespace {

class Joins final : public TaskCalls {
 public:
  using TaskCalls::TaskCalls;

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

 private:
  void AddTransform(std::int64_t rows, std::int64_t columns, const std::string& from,
                    const std::string& to, const char* adds) {
    Call("Transform", rows, columns, from, to, adds);
  }
  static std::string Rows(const RoleUse& use, std::int64_t pitch, std::int64_t first = 0) {
    return absl::StrCat("{", use.address, ", ", pitch, ", ", first, "}");
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
      Fault(
          absl::StrCat("makes no gradient ", text::Quoted(name), ", expected one for each input"));
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
    Fault(absl::StrCat("has the layer ", text::Quoted(task_.layer),
                       " without a forward task, expected one"));
    return {};
  }
};

}  // namespace

absl::StatusOr<std::string> SumCalls(const Network& network, const PlacedTask& placed) {
  Joins calls(network, placed);
  calls.AddSum();
  return std::move(calls).Finish();
}

absl::StatusOr<std::string> ConcatenationCalls(const Network& network, const PlacedTask& placed) {
  Joins calls(network, placed);
  calls.AddConcatenation();
  return std::move(calls).Finish();
}

}  // namespace tidepool::emit

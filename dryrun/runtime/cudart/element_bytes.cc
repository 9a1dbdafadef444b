// SPDX-License-Identifier: Apache-2.0
#include "dryrun/runtime/cudart/element_bytes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dryrun/runtime/cudart/kernel_arguments.h"
#include "dryrun/runtime/cudart/kernel_name.h"

namespace tidepool::cudart_host {
namespace {

// The sizes of the elements that a function for elements reads and writes.
struct Function {
  std::vector<std::int64_t> inputs;
  std::int64_t output = 0;
};

std::vector<std::int64_t> SizesOf(const std::vector<std::string>& types) {
  std::vector<std::int64_t> sizes;
  for (const std::string& type : types) sizes.push_back(SizeOfType(type));
  return sizes;
}

std::int64_t LargestOf(const std::vector<std::int64_t>& sizes) {
  return sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
}

// `R (A, B)` among the arguments of a type in which CUDA's compiler wraps a lambda.
Function FunctionOfWrapper(const std::vector<std::string>& templates) {
  for (const std::string& one : templates) {
    const std::size_t list = one.find(" (");
    if (list == std::string::npos || !one.ends_with(")") || one.starts_with("__")) continue;
    return {.inputs = SizesOf(ListOf(std::string_view(one).substr(list + 2))),
            .output = SizeOfType(std::string_view(one).substr(0, list))};
  }
  return {};
}

// Lambdas tell their arguments, but not their result: as much as the largest argument, if not
// their place in PyTorch tells.
Function FunctionOfLambda(std::string_view type) {
  constexpr std::string_view kBegin = "{lambda(";
  const std::size_t at = type.rfind(kBegin);
  if (at == std::string_view::npos) return {};
  Function found = {.inputs = SizesOf(ListOf(type.substr(at + kBegin.size()))), .output = 0};
  found.output = LargestOf(found.inputs);
  constexpr std::string_view kConverts = "converting_copy_kernel_cuda";
  if (const std::size_t copy = type.find(kConverts); copy != std::string_view::npos) {
    const NameParts parts = PartsOfType(type.substr(copy));
    found.output = SizeOfType(TextOf(parts.templates, 1));
  } else if (Contains(type, "float16_copy_kernel")) {
    found.output = 2;
  } else if (Contains(type, "compare_scalar_kernel") || Contains(type, "logical_") ||
             Contains(type, "isnan")) {
    found.output = 1;
  }
  return found;
}

Function FunctionOfTemplate(std::string_view name, const std::vector<std::int64_t>& sizes) {
  const auto size = [&](std::size_t i) { return i < sizes.size() ? sizes[i] : 0; };
  if (name == "BinaryFunctor") return {.inputs = {size(0), size(1)}, .output = size(2)};
  if (name == "AUnaryFunctor") return {.inputs = {size(1)}, .output = size(2)};
  if (name == "BUnaryFunctor") return {.inputs = {size(0)}, .output = size(2)};
  if (name == "FillFunctor") return {.inputs = {}, .output = size(0)};
  if (name == "CompareFunctor") return {.inputs = {size(0), size(0)}, .output = 1};
  if (name == "CUDAFunctor_add") return {.inputs = {size(0), size(0)}, .output = size(0)};
  return {.inputs = {size(0)}, .output = size(0)};
}

Function FunctionOf(std::string_view type) {
  if (type.ends_with("}")) return FunctionOfLambda(type);
  const NameParts parts = PartsOfType(type);
  if (parts.name.starts_with("__nv_")) return FunctionOfWrapper(parts.templates);
  return FunctionOfTemplate(parts.name, SizesOf(parts.templates));
}

// Returns the bytes of an element of `tensors` tensors.
std::int64_t BytesOfElement(std::string_view type, std::int64_t tensors) {
  const Function function = FunctionOf(type);
  std::int64_t bytes = function.output;
  for (const std::int64_t size : function.inputs) bytes += size;
  const auto known = static_cast<std::int64_t>(function.inputs.size()) + 1;
  return bytes + std::max<std::int64_t>(0, tensors - known) * LargestOf(function.inputs);
}

// The array is std::array, or at::detail::Array in older versions.
std::int64_t CountOfArray(std::string_view type) { return NumberAfter(type, "rray<char*, "); }

// LoadWithCast and StoreWithCast: a byte for the type of each tensor, then the size of each.
std::int64_t BytesOfCast(const void* cast, std::int64_t tensors) {
  const auto sizes = static_cast<std::size_t>((tensors + 3) / 4 * 4);
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < tensors; ++i) {
    bytes += At<std::uint32_t>(cast, sizes + static_cast<std::size_t>(4 * i));
  }
  return bytes;
}

// OffsetCalculator: how many dimensions there are, 25 sizes with two numbers to divide by each, and
// for each dimension the bytes between its elements in each tensor.
class Offsets {
 public:
  Offsets(const void* calculator, std::int64_t tensors)
      : calculator_(calculator),
        tensors_(static_cast<std::size_t>(std::max<std::int64_t>(1, tensors))),
        dimensions_(At<std::int32_t>(calculator, 0)) {}

  bool IsFor(std::int64_t elements) const {
    if (dimensions_ < 0 || dimensions_ > kMostDimensions) return false;
    std::int64_t product = 1;
    for (int i = 0; i < dimensions_; ++i) product *= SizeOf(i);
    return product == elements;
  }
  // Elements that a dimension repeats are read once.
  std::int64_t BytesOf(std::int64_t tensor) const {
    constexpr std::int64_t kMostBytes = 32;  // that memory moves at once
    std::int64_t elements = 1;
    std::int64_t size = kMostBytes;
    for (int i = 0; i < dimensions_; ++i) {
      const std::int64_t stride = StrideOf(i, tensor);
      if (stride == 0) continue;
      elements *= SizeOf(i);
      size = std::min(size, stride);
    }
    return elements * size;
  }

 private:
  static constexpr int kMostDimensions = 25;

  std::int64_t SizeOf(int dimension) const {
    return At<std::uint32_t>(calculator_, 4 + 12 * static_cast<std::size_t>(dimension));
  }
  std::int64_t StrideOf(int dimension, std::int64_t tensor) const {
    return At<std::uint32_t>(calculator_, 4 + 12 * std::size_t{kMostDimensions} +
                                              4 * (static_cast<std::size_t>(dimension) * tensors_ +
                                                   static_cast<std::size_t>(tensor)));
  }

  const void* calculator_;
  std::size_t tensors_;
  int dimensions_;
};

// The function for elements in the name of the lambda that computes their places.
std::string FunctionInside(std::string_view type) {
  for (const std::string_view name : {"gpu_kernel_impl_nocast<", "gpu_kernel_impl<"}) {
    const std::size_t at = type.find(name);
    if (at != std::string_view::npos)
      return std::string(TextOf(ListOf(type.substr(at + name.size())), 0));
  }
  return "";
}

}  // namespace

std::int64_t OfVectors(const NameParts& kernel, const KernelLaunch& launch) {
  return FirstOf(kernel, launch) *
         BytesOfElement(TextOf(kernel.templates, 1), CountOfArray(TextOf(kernel.templates, 2)));
}

std::int64_t OfUnrolled(const NameParts& kernel, const KernelLaunch& launch) {
  const std::int64_t tensors = CountOfArray(TextOf(kernel.templates, 1));
  const bool casts = Contains(TextOf(kernel.parameters, 5), "LoadWithCast");
  const std::int64_t bytes =
      casts ? BytesOfCast(launch.arguments[5], tensors - 1) + BytesOfCast(launch.arguments[6], 1)
            : BytesOfElement(TextOf(kernel.templates, 0), tensors);
  return FirstOf(kernel, launch) * bytes;
}

std::int64_t OfPlaces(const NameParts& kernel, const KernelLaunch& launch) {
  const std::string type = FunctionInside(TextOf(kernel.templates, 2));
  if (type.empty()) return -1;
  const auto tensors = static_cast<std::int64_t>(FunctionOf(type).inputs.size()) + 1;
  const std::int64_t elements = FirstOf(kernel, launch);
  const Offsets offsets(launch.arguments[1], tensors);
  if (!offsets.IsFor(elements)) return elements * BytesOfElement(type, tensors);
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < tensors; ++i) bytes += offsets.BytesOf(i);
  return bytes;
}

std::int64_t OfIndices(const NameParts& kernel, const KernelLaunch& launch) {
  const std::int64_t size = NumberAfter(TextOf(kernel.templates, 2), "OpaqueType<");
  return size == 0 ? -1 : FirstOf(kernel, launch) * 2 * size;
}

std::int64_t OfScatter(const NameParts& kernel, const KernelLaunch& launch) {
  constexpr std::int64_t kIndex = 8;
  const std::string_view type = TextOf(kernel.templates, 2);
  const std::size_t at = type.find("_internal_kernel<");
  if (at == std::string_view::npos) return -1;
  const std::vector<std::string> types = PartsOfType(type.substr(at)).templates;
  const bool fills = Contains(type, "_fill_");
  const std::int64_t size = SizeOfType(TextOf(types, fills ? 0 : 1));
  const std::int64_t moves = (fills ? 1 : 2) + (Contains(type, "TensorAssign") ? 0 : 1);
  return FirstOf(kernel, launch) * (moves * size + kIndex);
}

std::int64_t OfRandom(const NameParts& kernel, const KernelLaunch& launch) {
  for (const std::string& one : kernel.templates) {
    constexpr std::string_view kLauncher = "distribution_nullary_kernel<";
    const std::size_t at = one.find(kLauncher);
    if (at == std::string::npos) continue;
    return FirstOf(kernel, launch) *
           SizeOfType(TextOf(ListOf(std::string_view(one).substr(at + kLauncher.size())), 0));
  }
  return -1;
}

std::int64_t OfNumbered(const NameParts& kernel, const KernelLaunch& launch) {
  return FirstOf(kernel, launch) * FunctionOf(TextOf(kernel.templates, 1)).output;
}

}  // namespace tidepool::cudart_host

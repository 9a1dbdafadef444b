// SPDX-License-Identifier: Apache-2.0
#include "bindings/cudnn/convolution.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bindings/cudnn/fusion.h"

namespace tidepool::cudnn {
namespace {

constexpr int kMost = static_cast<int>(Convolution::kMostDimensions);

// Returns the bytes of an element; 0 for a type that is not divided.
std::int64_t BytesOf(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return 2;
    case CUDNN_DATA_FLOAT:
      return 4;
    case CUDNN_DATA_DOUBLE:
      return 8;
    default:
      return 0;
  }
}

std::string TypeName(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_HALF:
      return "half";
    case CUDNN_DATA_BFLOAT16:
      return "bfloat16";
    case CUDNN_DATA_FLOAT:
      return "float";
    case CUDNN_DATA_DOUBLE:
      return "double";
    default:
      return absl::StrCat("type", static_cast<int>(type));
  }
}

bool ReadTensor(const Functions& functions, cudnnTensorDescriptor_t descriptor, int& dimensions,
                Convolution::Tensor& tensor) {
  return functions.get_tensor(descriptor, kMost, &tensor.type, &dimensions, tensor.sizes.data(),
                              tensor.strides.data()) == CUDNN_STATUS_SUCCESS;
}

// Returns the elements from the first to the last of a tensor for a batch of `samples`.
std::int64_t ExtentOf(const Convolution::Tensor& tensor, int dimensions, std::int64_t samples) {
  std::int64_t last = (samples - 1) * tensor.strides[0];
  for (int i = 1; i < dimensions; ++i) {
    const auto at = static_cast<std::size_t>(i);
    last += static_cast<std::int64_t>(tensor.sizes[at] - 1) * tensor.strides[at];
  }
  return last + 1;
}

template <std::size_t kSize>
std::string Joined(const std::array<int, kSize>& numbers, int from, int count) {
  const auto begin = static_cast<std::size_t>(from);
  return absl::StrJoin(absl::MakeSpan(numbers).subspan(begin, static_cast<std::size_t>(count)),
                       "x");
}

const char* PassName(Pass pass) {
  if (pass == Pass::kForward) return "forward";
  return pass == Pass::kData ? "backward-data" : "backward-filter";
}

}  // namespace

Descriptors Descriptors::Of(Pass pass, void* a, void* b, cudnnConvolutionDescriptor_t convolution,
                            void* c) {
  Descriptors its;
  its.convolution = convolution;
  its.x = static_cast<cudnnTensorDescriptor_t>(pass == Pass::kData ? c : a);
  its.w = static_cast<cudnnFilterDescriptor_t>(pass == Pass::kForward ? b
                                               : pass == Pass::kData  ? a
                                                                      : c);
  its.y = static_cast<cudnnTensorDescriptor_t>(pass == Pass::kForward ? c : b);
  return its;
}

std::array<void*, 3> Descriptors::InOrder(Pass pass) const {
  if (pass == Pass::kForward) return {x, w, y};
  if (pass == Pass::kData) return {w, y, x};
  return {x, y, w};
}

std::optional<Convolution> Convolution::Read(const Functions& functions, Pass pass,
                                             const Descriptors& descriptors) {
  Convolution its;
  its.pass = pass;
  int y_dimensions = 0;
  int filter_dimensions = 0;
  int spatial = 0;
  if (descriptors.x == nullptr || descriptors.w == nullptr || descriptors.y == nullptr ||
      descriptors.convolution == nullptr ||
      !ReadTensor(functions, descriptors.x, its.dimensions, its.x) ||
      !ReadTensor(functions, descriptors.y, y_dimensions, its.y) ||
      functions.get_filter(descriptors.w, kMost, &its.filter_type, &its.filter_format,
                           &filter_dimensions, its.filter_sizes.data()) != CUDNN_STATUS_SUCCESS ||
      functions.get_convolution(descriptors.convolution, kMostSpatial, &spatial, its.pads.data(),
                                its.strides.data(), its.dilations.data(), &its.mode,
                                &its.compute_type) != CUDNN_STATUS_SUCCESS ||
      functions.get_math(descriptors.convolution, &its.math) != CUDNN_STATUS_SUCCESS ||
      functions.get_groups(descriptors.convolution, &its.groups) != CUDNN_STATUS_SUCCESS) {
    return std::nullopt;
  }
  if (!its.IsDivided(y_dimensions, filter_dimensions, spatial)) return std::nullopt;
  return its;
}

bool Convolution::IsDivided(int y_dimensions, int filter_dimensions, int spatial) const {
  return dimensions == y_dimensions && dimensions == filter_dimensions &&
         dimensions == spatial + 2 && spatial <= kMostSpatial && x.sizes[0] == y.sizes[0] &&
         batch() >= 1 && batch() <= kMostKernelBatch && filter_format != CUDNN_TENSOR_NCHW_VECT_C &&
         BytesOf(x.type) > 0 && BytesOf(y.type) > 0 && BytesOf(filter_type) > 0;
}

std::optional<Convolution> Convolution::Packed(Pass pass, const TidepoolCudnnSizes& its) {
  constexpr std::int64_t kMostSize = std::int64_t{1} << 20;
  for (const std::int64_t size :
       {its.n, its.c, its.h, its.w, its.k, its.r, its.s, its.stride_height, its.stride_width,
        its.dilation_height, its.dilation_width, its.groups}) {
    if (size < 1 || size > kMostSize) return std::nullopt;
  }
  const auto reached = [](std::int64_t size, std::int64_t padding, std::int64_t taps,
                          std::int64_t stride, std::int64_t dilation) {
    const std::int64_t room = size + 2 * padding - (dilation * (taps - 1) + 1);
    return room < 0 ? 0 : room / stride + 1;
  };
  const bool has_padding = its.padding_height >= 0 && its.padding_width >= 0 &&
                           its.padding_height <= kMostSize && its.padding_width <= kMostSize;
  if (!has_padding || its.n > kMostKernelBatch || its.c % its.groups != 0 ||
      its.k % its.groups != 0) {
    return std::nullopt;
  }
  const std::int64_t rows =
      reached(its.h, its.padding_height, its.r, its.stride_height, its.dilation_height);
  const std::int64_t columns =
      reached(its.w, its.padding_width, its.s, its.stride_width, its.dilation_width);
  if (rows < 1 || columns < 1) return std::nullopt;
  const auto packed = [&](std::array<std::int64_t, 4> sizes) -> std::optional<Tensor> {
    Tensor tensor;
    tensor.type = its.is_half != 0 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
    // From the dimension of neighbours in memory on.
    const std::array<std::size_t, 4> order = its.is_nhwc != 0
                                                 ? std::array<std::size_t, 4>{1, 3, 2, 0}
                                                 : std::array<std::size_t, 4>{3, 2, 1, 0};
    std::int64_t stride = 1;
    for (const std::size_t i : order) {
      tensor.sizes[i] = static_cast<int>(sizes[i]);
      tensor.strides[i] = static_cast<int>(stride);
      stride *= sizes[i];
      if (stride > INT32_MAX) return std::nullopt;
    }
    return tensor;
  };
  const std::optional<Tensor> x = packed({its.n, its.c, its.h, its.w});
  const std::optional<Tensor> y = packed({its.n, its.k, rows, columns});
  if (!x.has_value() || !y.has_value()) return std::nullopt;
  const auto number = [](std::int64_t value) { return static_cast<int>(value); };
  Convolution convolution;
  convolution.pass = pass;
  convolution.x = *x;
  convolution.y = *y;
  convolution.filter_sizes = {number(its.k), number(its.c / its.groups), number(its.r),
                              number(its.s)};
  convolution.pads = {number(its.padding_height), number(its.padding_width)};
  convolution.strides = {number(its.stride_height), number(its.stride_width)};
  convolution.dilations = {number(its.dilation_height), number(its.dilation_width)};
  convolution.groups = number(its.groups);
  convolution.filter_type = x->type;
  if (its.is_nhwc != 0) convolution.filter_format = CUDNN_TENSOR_NHWC;
  if (its.is_half != 0) convolution.math = CUDNN_TENSOR_OP_MATH;
  return convolution;
}

bool Convolution::IsLikeY(const Functions& functions, cudnnTensorDescriptor_t descriptor) const {
  int its_dimensions = 0;
  Tensor its;
  return descriptor != nullptr && ReadTensor(functions, descriptor, its_dimensions, its) &&
         its_dimensions == dimensions && its == y;
}

KernelPrecision Convolution::precision() const {
  if (x.type != CUDNN_DATA_HALF) return KernelPrecision::kFloat;
  return compute_type == CUDNN_DATA_HALF ? KernelPrecision::kTrueHalf
                                         : KernelPrecision::kPseudoHalf;
}

std::int64_t Convolution::StepBytesIn(const Tensor& tensor) {
  return tensor.strides[0] * BytesOf(tensor.type);
}
std::int64_t Convolution::XStepBytes() const { return StepBytesIn(x); }
std::int64_t Convolution::YStepBytes() const { return StepBytesIn(y); }

bool Convolution::HasKnownType(const Tensor& tensor) { return BytesOf(tensor.type) > 0; }

std::array<std::int64_t, Convolution::kMostDimensions> Convolution::FilterStrides() const {
  std::array<std::int64_t, kMostDimensions> packed = {};
  const bool is_nhwc = filter_format == CUDNN_TENSOR_NHWC;
  std::int64_t stride = is_nhwc ? filter_sizes[1] : 1;
  packed[1] = 1;
  for (int i = dimensions - 1; i >= (is_nhwc ? 2 : 1); --i) {
    const auto at = static_cast<std::size_t>(i);
    packed[at] = stride;
    stride *= filter_sizes[at];
  }
  packed[0] = stride;
  return packed;
}

std::int64_t Convolution::BytesIn(const Tensor& tensor, std::int64_t samples) const {
  return ExtentOf(tensor, dimensions, samples) * BytesOf(tensor.type);
}
std::int64_t Convolution::XBytes(std::int64_t samples) const { return BytesIn(x, samples); }
std::int64_t Convolution::YBytes(std::int64_t samples) const { return BytesIn(y, samples); }
std::int64_t Convolution::FilterBytes() const {
  std::int64_t elements = 1;
  for (int i = 0; i < dimensions; ++i) elements *= filter_sizes[static_cast<std::size_t>(i)];
  return elements * BytesOf(filter_type);
}

ProfileKey Convolution::KeyOf(const ProfiledMachine& machine, std::int64_t samples) const {
  const int spatial = dimensions - 2;
  ProfileKey key;
  key.machine = machine;
  key.layer = absl::StrCat(
      "cudnn convolution ", PassName(pass), " x=", Joined(x.sizes, 1, spatial + 1),
      " w=", Joined(filter_sizes, 0, dimensions), " y=", Joined(y.sizes, 1, spatial + 1),
      " pad=", Joined(pads, 0, spatial), " stride=", Joined(strides, 0, spatial),
      " dilation=", Joined(dilations, 0, spatial), " groups=", groups,
      " mode=", static_cast<int>(mode));
  if (fusion != 0) absl::StrAppend(&key.layer, " then=", TextOfFusion(fusion));
  key.layout =
      absl::StrCat("x=", Joined(x.strides, 0, dimensions), " y=", Joined(y.strides, 0, dimensions),
                   " w=", filter_format == CUDNN_TENSOR_NHWC ? "NHWC" : "NCHW");
  if (alignment != kEngineAlignment) absl::StrAppend(&key.layout, " alignment=", alignment);
  key.types = absl::StrCat(TypeName(x.type), " ", TypeName(filter_type), " ", TypeName(y.type), " ",
                           TypeName(compute_type), " math=", static_cast<int>(math));
  key.samples = samples;
  return key;
}

}  // namespace tidepool::cudnn

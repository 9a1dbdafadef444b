// SPDX-License-Identifier: Apache-2.0
#include "bindings/cudnn/convolution.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

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
  const bool is_divided = its.dimensions == y_dimensions && its.dimensions == filter_dimensions &&
                          its.dimensions == spatial + 2 && spatial <= kMostSpatial &&
                          its.x.sizes[0] == its.y.sizes[0] && its.batch() >= 1 &&
                          its.batch() <= kMostKernelBatch &&
                          its.filter_format != CUDNN_TENSOR_NCHW_VECT_C &&
                          BytesOf(its.x.type) > 0 && BytesOf(its.y.type) > 0;
  if (!is_divided) return std::nullopt;
  return its;
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

std::int64_t Convolution::XStepBytes() const { return x.strides[0] * BytesOf(x.type); }
std::int64_t Convolution::YStepBytes() const { return y.strides[0] * BytesOf(y.type); }

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
  key.layout =
      absl::StrCat("x=", Joined(x.strides, 0, dimensions), " y=", Joined(y.strides, 0, dimensions),
                   " w=", filter_format == CUDNN_TENSOR_NHWC ? "NHWC" : "NCHW");
  key.types = absl::StrCat(TypeName(x.type), " ", TypeName(filter_type), " ", TypeName(y.type), " ",
                           TypeName(compute_type), " math=", static_cast<int>(math));
  key.samples = samples;
  return key;
}

}  // namespace tidepool::cudnn

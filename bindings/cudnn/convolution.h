// SPDX-License-Identifier: Apache-2.0
// A convolution as its descriptors describe it: the key of measurements and plans.
#ifndef TIDEPOOL_BINDINGS_CUDNN_CONVOLUTION_H_
#define TIDEPOOL_BINDINGS_CUDNN_CONVOLUTION_H_

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/types/span.h"
#include "bindings/cudnn/functions.h"
#include "bindings/cudnn/include/tidepool/cudnn.h"
#include "tidepool/training/kernel_table.h"
#include "tidepool/training/task_profile.h"

namespace tidepool::cudnn {

// The descriptors of a convolution by their roles: x and y are the input and the output of the
// forward pass, or their gradients.
struct Descriptors {
  cudnnTensorDescriptor_t x = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  cudnnTensorDescriptor_t y = nullptr;

  // Converts from and to the order of cuDNN's functions.
  static Descriptors Of(Pass pass, void* a, void* b, cudnnConvolutionDescriptor_t convolution,
                        void* c);
  std::array<void*, 3> InOrder(Pass pass) const;
};

// All that descriptors say.
class Convolution {
 public:
  static constexpr int kMostSpatial = 3;
  static constexpr int kEngineAlignment = 16;
  static constexpr std::size_t kMostDimensions = 2 + kMostSpatial;

  struct Tensor {
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    std::array<int, kMostDimensions> sizes = {};
    std::array<int, kMostDimensions> strides = {};  // of elements

    friend bool operator==(const Tensor&, const Tensor&) = default;
  };

  // Reads descriptors. Returns nothing for a convolution that is not divided: data in vectors,
  // integers, more than three spatial dimensions, or a call of cuDNN that failed.
  static std::optional<Convolution> Read(const Functions& functions, Pass pass,
                                         const Descriptors& descriptors);

  // Returns whether the sizes, types and formats are of a convolution that is divided.
  bool IsDivided(int y_dimensions, int filter_dimensions, int spatial) const;

  // Returns a convolution of packed data. Nothing for sizes that are no convolution.
  static std::optional<Convolution> Packed(Pass pass, const TidepoolCudnnSizes& sizes);

  int batch() const { return x.sizes[0]; }
  // Returns whether a descriptor has the sizes, strides and type of y.
  bool IsLikeY(const Functions& functions, cudnnTensorDescriptor_t descriptor) const;
  // Returns the arithmetic of the program (table I of the paper).
  KernelPrecision precision() const;
  // Returns the bytes of a sample's step in x and y.
  std::int64_t XStepBytes() const;
  std::int64_t YStepBytes() const;
  // Returns the strides of the filter, of elements: packed in its format.
  std::array<std::int64_t, kMostDimensions> FilterStrides() const;
  // Returns the bytes of x, y and the filter for a batch of `samples`.
  std::int64_t XBytes(std::int64_t samples) const;
  std::int64_t YBytes(std::int64_t samples) const;
  std::int64_t FilterBytes() const;
  // Returns the bytes of a tensor, and of a sample's step in it.
  std::int64_t BytesIn(const Tensor& tensor, std::int64_t samples) const;
  static std::int64_t StepBytesIn(const Tensor& tensor);
  // Returns whether a tensor is of a type that is divided.
  static bool HasKnownType(const Tensor& tensor);
  // Returns the key of a measurement, without its algorithm.
  ProfileKey KeyOf(const ProfiledMachine& machine, std::int64_t samples) const;

  friend bool operator==(const Convolution&, const Convolution&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const Convolution& its) {
    return H::combine(std::move(state), its.pass, its.x.sizes, its.x.strides, its.y.sizes,
                      its.filter_sizes, its.pads, its.x.type, its.groups, its.fusion);
  }

  Pass pass = Pass::kForward;
  int dimensions = 4;  // with n and c
  Tensor x;
  Tensor y;
  cudnnDataType_t filter_type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t filter_format = CUDNN_TENSOR_NCHW;
  std::array<int, kMostDimensions> filter_sizes = {};
  std::array<int, kMostSpatial> pads = {};
  std::array<int, kMostSpatial> strides = {};
  std::array<int, kMostSpatial> dilations = {};
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  cudnnDataType_t compute_type = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  int groups = 1;

  // The algorithms that may run it.
  enum class Source : std::uint8_t { kAlgorithms, kEngines, kBoth };
  Source source = Source::kAlgorithms;
  std::uint32_t notes = UINT32_MAX;  // bits of the numerical notes that engines may have
  int alignment = kEngineAlignment;  // of the data that engines get, in bytes
  std::int64_t fusion = 0;           // the number of the operations that follow; 0: none
};

}  // namespace tidepool::cudnn

#endif  // TIDEPOOL_BINDINGS_CUDNN_CONVOLUTION_H_

// SPDX-License-Identifier: Apache-2.0
// The pointwise operations that follow a convolution in its graph: a bias, a residual, an
// activation. They are part of the kernel's key, because cuDNN has engines of its own for the whole
// graph.
#ifndef TIDEPOOL_BINDINGS_CUDNN_FUSION_H_
#define TIDEPOOL_BINDINGS_CUDNN_FUSION_H_

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cudnn/convolution.h"

namespace tidepool::cudnn {

// An attribute that is set as the program set it.
struct FixedAttribute {
  cudnnBackendAttributeName_t name = CUDNN_ATTR_POINTWISE_MODE;
  cudnnBackendAttributeType_t type = CUDNN_TYPE_INT64;
  std::int64_t count = 0;
  std::vector<std::byte> bytes = {};
};

// A tensor besides those of the convolution.
struct FusedTensor {
  Convolution::Tensor its;  // with one sample
  bool has_batch = false;   // false: all samples use the same data
  bool is_virtual = false;  // has no memory
};

struct FusedOperation {
  std::vector<FixedAttribute> settings;  // of its descriptor
  std::vector<FixedAttribute> scales;
  // Attributes and the tensors that they name: 0, 1 and 2 are x, w and y of the convolution, and
  // the others follow.
  std::vector<std::pair<cudnnBackendAttributeName_t, std::size_t>> tensors;
};
inline constexpr std::size_t kFirstFusedTensor = 3;

struct Fusion {
  std::vector<FusedTensor> tensors;
  std::vector<FusedOperation> operations;
  bool keeps_output = false;  // the convolution's output has memory of its own
};

// Returns all that a fusion says, as a text without blanks.
std::string FusionText(const Fusion& fusion, int dimensions);

// Fusions have numbers of this process from 1 on. Return the number of a fusion, the fusion of a
// number (null for 0), and its text. Thread-safe.
std::int64_t NumberOf(const Fusion& fusion, int dimensions);
const Fusion* FusionOf(std::int64_t number);
const std::string& TextOfFusion(std::int64_t number);

}  // namespace tidepool::cudnn

#endif  // TIDEPOOL_BINDINGS_CUDNN_FUSION_H_

// SPDX-License-Identifier: Apache-2.0
// The algorithms of a convolution, with the workspaces that public formulas give for its shape, or,
// on tensor cores from Hopper on, rules derived from an H200 (hopper_workspace.h). Which algorithm
// cuDNN takes, and how large the workspace of a version is, may differ.
#ifndef TIDEPOOL_DRYRUN_CUDNN_ANSWERS_ALGORITHMS_H_
#define TIDEPOOL_DRYRUN_CUDNN_ANSWERS_ALGORITHMS_H_

#include <cstdint>
#include <vector>

#include "dryrun/cudnn/descriptors.h"
#include "dryrun/libraries/gpu.h"

namespace tidepool::cudart_host {

// Sizes are those of the forward pass: `x` is the input, or its gradient.
struct Convolution {
  Pass pass = Pass::kForward;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  bool is_channels_last = false;     // the layout of the tensors in memory
  bool may_use_tensor_cores = true;  // for 32-bit numbers: TF32
  std::vector<std::int64_t> x;       // batch, channels, and each direction
  std::vector<std::int64_t> w;       // outputs, channels of a group, and each direction
  std::vector<std::int64_t> y;       // batch, outputs, and each direction
  std::vector<std::int64_t> padding;
  std::vector<std::int64_t> stride;
  std::vector<std::int64_t> dilation;
};

// Returns whether the channels of a pixel are next to each other in memory.
bool IsChannelsLast(const std::vector<std::int64_t>& sizes,
                    const std::vector<std::int64_t>& strides);

// Returns the size of the tensor that the pass computes.
double OutputBytes(const Convolution& convolution);

// With their workspaces:
// - kImplicitGemm: none.
// - kPrecomputedGemm: an index of four bytes for each element of a filter. cuDNN documents "some
// memory workspace to precompute some indices"; micro-cuDNN (Oyama et al., CLUSTER 2018) reports
// 4.3 KiB for conv2 of AlexNet, and this gives 4.7 KiB.
// - kGemm: the matrix of one sample, as Caffe's im2col makes it.
// - kWinograd (3x3, two directions, stride 1): F(4x4, 3x3) of Lavin and Gray (CVPR 2016) with its
// transformed data in memory: 36 numbers for each 16 of X and Y and for each 9 of W.
// - kFft (kernels from 5x5, two directions, stride 1): spectra of S x (S / 2 + 1) complex numbers
// of X, Y and W of a group, where S is the power of two from 32 that holds the padded image.
// - kFftTiling: the same in tiles of 32 x 32.
// - kTensorGemm: kPrecomputedGemm on tensor cores. These read channels-last data. cuDNN documents
// that it "may use padding, folding, and NCHW-to-NHWC transformations to call the Tensor Core
// operations": for other data the workspace has copies of X, Y and W. From Hopper on it is that of
// hopper_workspace.h.
enum class AlgorithmKind : unsigned char {
  kImplicitGemm,
  kPrecomputedGemm,
  kGemm,
  kWinograd,
  kFft,
  kFftTiling,
  kTensorGemm,
};

struct Algorithm {
  AlgorithmKind kind = AlgorithmKind::kImplicitGemm;
  std::int64_t workspace_bytes = 0;
  Work work;
};

// Returns a size for the same blocks of 512 bytes that hardly any tensor has: an odd one. So
// workspaces can be told from tensors in a recording. 0 stays 0.
std::int64_t SizeOfWorkspace(double bytes);

// Returns the algorithms that can compute the convolution, the fastest on the GPU first: the choice
// of the heuristics is assumed to be that one. Without a GPU, and from Hopper on, kTensorGemm is
// the first where it exists.
std::vector<Algorithm> AlgorithmsOf(const Convolution& convolution, const Gpu& gpu);

// Returns the most that a convolution was ever seen to take: the largest workspace of its
// algorithms, or of an FFT for gradients of X with stride 2, which cuDNN 7.5 chose on a V100 for
// the forward pass of a transposed convolution (pytorch#26112: 4,692 MiB, as the formula of kFft
// gives) and which later versions may not have. AlgorithmsOf has no such one.
std::int64_t LargestWorkspace(const Convolution& convolution, const Gpu& gpu);

// Returns the algorithms as programs get them: with CUDART_HOST_CUDNN_WORKSPACE, each has that
// workspace.
std::vector<Algorithm> OfferedAlgorithms(const Convolution& convolution);

// Notes that a program was told the workspace of one of the algorithms of a convolution.
void NoteWorkspace(std::int64_t bytes, const Convolution& convolution);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_CUDNN_ANSWERS_ALGORITHMS_H_

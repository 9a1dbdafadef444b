// SPDX-License-Identifier: Apache-2.0
// The cost of a task: its work, and the time of that work on a GPU.
//
// A task takes max(operations / (flops x efficiency), bytes / bandwidth) + one launch, the roofline
// of Williams et al. (Communications of the ACM 52, 2009). Efficiencies, of the data sheet's peak:
// - implicit-gemm 0.4: Table I of vDNN++ (Shriram et al., IPDPS 2019) has 80 ms for a 3x3 and 200
// ms for a 5x5 convolution of 112x112x64, batch 128, by the memory-optimal algorithm on a GTX 1080
// Ti. That is 39 % and 43 % of its peak, if the times include both passes. The pooling layer's time
// in that table (3 ms) does: it runs at the memory's bandwidth.
// - precomputed-gemm 0.5, winograd and fft 0.25 of their own operations, other matrix products 0.8:
// assumed. With them Winograd is 2.5 times as fast as implicit-gemm where memory allows. VGG-116
// and VGG-191 of batch 32 take 3.12 and 5.24 s on a GTX 1080 Ti; vDNN++'s Table IV has 3.02 and
// 5.10 s.
// Each tensor that a task uses counts once in its bytes. Transformed data of winograd and fft
// counts twice, because it is written and read.
#ifndef TIDEPOOL_LIB_TRAINING_MODELS_COST_MODEL_H_
#define TIDEPOOL_LIB_TRAINING_MODELS_COST_MODEL_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "tidepool/training/graph.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool::models {

inline constexpr double kMatrixProductEfficiency = 0.8;
inline constexpr std::int64_t kWordBytes = 4;  // float32

// Returns the bytes of a number of a type that the zoo uses.
std::int64_t BytesOf(DataType type);
// Multiplies the factors, up to 2^62.
std::int64_t Product(std::initializer_list<std::int64_t> factors);

struct Work {
  double operations = 0;
  double bytes = 0;
  double efficiency = kMatrixProductEfficiency;
};

double Seconds(const GpuRates& gpu, const Work& work);

// Returns the algorithm of a task that has no choice.
std::vector<TaskAlgorithm> OnlyAlgorithm(const GpuRates& gpu, const Work& work);

// A convolution of a batch. Height and width are those of the output.
struct ConvolutionShape {
  std::int64_t batch = 0;
  std::int64_t inputs = 0;   // channels
  std::int64_t outputs = 0;  // channels
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t kernel_height = 0;
  std::int64_t kernel_width = 0;
  std::int64_t stride = 1;
  std::int64_t groups = 1;
  // Bytes of the tensors.
  std::int64_t input_bytes = 0;
  std::int64_t output_bytes = 0;
  std::int64_t weight_bytes = 0;
};

// Returns the algorithms of cuDNN for which the shape determines the workspace, in ascending order
// of workspaces:
// - implicit-gemm: no workspace.
// - precomputed-gemm (forward): an index of four bytes for each element of a filter. cuDNN
// documents "some memory workspace to precompute some indices"; micro-cuDNN (Oyama et al., CLUSTER
// 2018) reports 4.3 KiB for conv2 of AlexNet, and this formula gives 4.7 KiB.
// - winograd, 3x3 of stride 1: F(4x4, 3x3) (Lavin and Gray, CVPR 2016) with its transformed data in
// memory: 36 words for each 16 of X and Y and for each 9 of W, so 2.25 (|X| + |Y|) + 4 |W|; 4 times
// fewer multiplications.
// - fft, square kernels from 5 to 16 of stride 1, tiles of 32x32: spectra of 32x17 complex numbers
// for each tile of the wider side's channels and for each filter, twice. The formula is a fit to
// vDNN++'s Table II, not from cuDNN's documentation. With groups, for images of one tile: the
// spectra of X, Y and W of one group, once, so (N C + N K + C K) 32 x 17 complex numbers. That is
// the 213 MiB (batch 256) and 48.9 MiB (batch 32) of micro-cuDNN for conv2 of the grouped AlexNet.
std::vector<TaskAlgorithm> ForwardAlgorithms(const GpuRates& gpu, const ConvolutionShape& shape);
// Returns the algorithms of one gradient, or of two (of weights and of data) that one task computes
// in sequence, in one workspace.
std::vector<TaskAlgorithm> GradientAlgorithms(const GpuRates& gpu, const ConvolutionShape& shape,
                                              int gradients);

}  // namespace tidepool::models

#endif  // TIDEPOOL_LIB_TRAINING_MODELS_COST_MODEL_H_

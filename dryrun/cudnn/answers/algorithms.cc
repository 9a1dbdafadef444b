// SPDX-License-Identifier: Apache-2.0
#include "dryrun/cudnn/answers/algorithms.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "dryrun/cudnn/answers/hopper_workspace.h"
#include "dryrun/cudnn/answers/sizes.h"
#include "dryrun/spectra.h"

namespace tidepool::cudart_host {
namespace {

// Efficiencies of the same algorithms in the cost model of the model zoo.
constexpr double kImplicitEfficiency = 0.4;
constexpr double kGemmEfficiency = 0.5;
constexpr double kTransformedEfficiency = 0.25;

constexpr std::int64_t kLeastFftKernel = 5;
constexpr std::int64_t kMostFftKernel = 16;
constexpr std::int64_t kLeastStridedFftKernel = 4;

// The numbers of a convolution that the formulas share.
class Shape {
 public:
  explicit Shape(const Convolution& c)
      : convolution_(c),
        batch_(static_cast<double>(c.x[0])),
        inputs_(static_cast<double>(c.w[1])),
        groups_(std::max(1.0, static_cast<double>(c.x[1]) / inputs_)),
        outputs_(static_cast<double>(c.w[0]) / groups_),
        number_bytes_(static_cast<double>(BytesOfNumber(c.type))) {}

  // Two for each multiplication and addition.
  double Operations() const {
    return 2 * Product(convolution_.y) * inputs_ * Product(convolution_.w, 2);
  }
  double TensorBytes() const {
    return number_bytes_ * (Product(convolution_.x) + Product(convolution_.y) + WeightNumbers());
  }
  double IndexBytes() const { return 4 * inputs_ * Product(convolution_.w, 2); }
  double ColumnBytes() const {
    return number_bytes_ * inputs_ * Product(convolution_.w, 2) * Product(convolution_.y, 2);
  }

  bool HasStrideOne() const {
    return convolution_.x.size() == 4 && AreAll(convolution_.stride, 1) &&
           AreAll(convolution_.dilation, 1);
  }
  bool HasWinograd() const {
    return HasStrideOne() && groups_ == 1 && convolution_.w[2] == 3 && convolution_.w[3] == 3;
  }
  double WinogradBytes() const {
    return 4 * (2.25 * (Product(convolution_.x) + Product(convolution_.y)) + 4 * WeightNumbers());
  }

  bool HasFft() const { return HasStrideOne() && HasSquareKernel(kLeastFftKernel); }
  bool HasStridedFft() const {
    return convolution_.pass == Pass::kData && convolution_.x.size() == 4 &&
           AreAll(convolution_.stride, 2) && AreAll(convolution_.dilation, 1) &&
           convolution_.type != CUDNN_DATA_DOUBLE && HasSquareKernel(kLeastStridedFftKernel);
  }
  // Returns the side of the transformed images, or 0 if they are too large.
  std::int64_t SideOfSpectra() const {
    return SpectrumSide(std::max(convolution_.x[2] + 2 * convolution_.padding[0],
                                 convolution_.x[3] + 2 * convolution_.padding[1]));
  }
  double Tiles() const {
    return static_cast<double>(TilesAlong(convolution_.y[2], convolution_.w[2]) *
                               TilesAlong(convolution_.y[3], convolution_.w[3]));
  }
  // Returns the transforms of one group for images of `tiles` tiles, and the operations of all.
  double Transforms(double tiles) const {
    return batch_ * (inputs_ + outputs_) * tiles + inputs_ * outputs_;
  }
  double FftOperations(std::int64_t side, double tiles) const {
    const auto area = static_cast<double>(side * side);
    const double products =
        8 * static_cast<double>(SpectrumNumbers(side)) * batch_ * tiles * inputs_ * outputs_;
    return groups_ * (products + Transforms(tiles) * 2.5 * area * std::log2(area));
  }

  // Returns the bytes of the spectra of X, Y and W: `side` of each spectrum, `tiles` of each image.
  double FftBytes(std::int64_t side, double tiles) const {
    return static_cast<double>(kComplexBytes * SpectrumNumbers(side)) * Transforms(tiles);
  }

  double groups() const { return groups_; }

 private:
  bool HasSquareKernel(std::int64_t least) const {
    return convolution_.w[2] == convolution_.w[3] && convolution_.w[2] >= least &&
           convolution_.w[2] <= kMostFftKernel;
  }
  double WeightNumbers() const { return Product(convolution_.w); }

  const Convolution& convolution_;
  double batch_;
  double inputs_;  // of a group
  double groups_;
  double outputs_;  // of a group
  double number_bytes_;
};

bool IsHalf(cudnnDataType_t type) { return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16; }

bool HasTensorCores(const Convolution& convolution, const Gpu& gpu) {
  if (convolution.type == CUDNN_DATA_HALF) return gpu.capability >= 70;
  if (convolution.type == CUDNN_DATA_BFLOAT16) return gpu.capability >= 80;
  return convolution.type == CUDNN_DATA_FLOAT && convolution.may_use_tensor_cores &&
         gpu.capability >= 80;
}

// Later GPUs are assumed to do as Hopper does.
bool IsHopper(const Gpu& gpu) { return gpu.capability >= 90; }

class Maker {
 public:
  Maker(const Convolution& convolution, const Gpu& gpu)
      : convolution_(convolution), gpu_(gpu), shape_(convolution) {}

  std::vector<Algorithm> All() {
    if (HasTensorCores(convolution_, gpu_)) AddTensorGemm();
    AddDirect(AlgorithmKind::kPrecomputedGemm, kGemmEfficiency, shape_.IndexBytes(), 0);
    AddDirect(AlgorithmKind::kImplicitGemm, kImplicitEfficiency, 0, 0);
    const double moved = 2 * static_cast<double>(convolution_.x[0]) * shape_.groups();
    AddDirect(AlgorithmKind::kGemm, kGemmEfficiency, shape_.ColumnBytes(),
              moved * shape_.ColumnBytes());
    if (convolution_.type != CUDNN_DATA_DOUBLE) AddTransformed();
    std::stable_sort(made_.begin(), made_.end(), [&](const Algorithm& a, const Algorithm& b) {
      return gpu_.Seconds(a.work) < gpu_.Seconds(b.work);
    });
    if (IsHopper(gpu_)) {
      std::stable_partition(made_.begin(), made_.end(), [](const Algorithm& one) {
        return one.kind == AlgorithmKind::kTensorGemm;
      });
    }
    return made_;
  }

 private:
  Numbers OwnNumbers() const {
    return convolution_.type == CUDNN_DATA_DOUBLE ? Numbers::kDouble : Numbers::kSingle;
  }

  void Add(AlgorithmKind kind, double workspace, const Work& work) {
    made_.push_back({kind, SizeOfWorkspace(workspace), work});
  }

  void AddDirect(AlgorithmKind kind, double efficiency, double workspace, double moved) {
    Add(kind, workspace,
        {OwnNumbers(), shape_.Operations(), shape_.TensorBytes() + moved, efficiency});
  }

  double TensorWorkspace() const {
    if (IsHopper(gpu_)) return HopperWorkspace(convolution_, gpu_);
    return shape_.IndexBytes() + (convolution_.is_channels_last ? 0 : shape_.TensorBytes());
  }

  // Copies of the tensors are written once and read once.
  void AddTensorGemm() {
    const double copies = convolution_.is_channels_last ? 0 : shape_.TensorBytes();
    Add(AlgorithmKind::kTensorGemm, TensorWorkspace(),
        {IsHalf(convolution_.type) ? Numbers::kHalf : Numbers::kTensorFloat, shape_.Operations(),
         shape_.TensorBytes() + 2 * copies, kGemmEfficiency});
  }

  void AddTransformed() {
    if (shape_.HasWinograd()) {
      const double workspace = shape_.WinogradBytes();
      AddTransformed(AlgorithmKind::kWinograd, shape_.Operations() / 4, workspace, 1);
    }
    if (!shape_.HasFft()) return;
    const std::int64_t side = shape_.SideOfSpectra();
    if (side != 0) AddFft(AlgorithmKind::kFft, side, 1);
    AddFft(AlgorithmKind::kFftTiling, kSpectrumTile, shape_.Tiles());
  }

  void AddFft(AlgorithmKind kind, std::int64_t side, double tiles) {
    AddTransformed(kind, shape_.FftOperations(side, tiles), shape_.FftBytes(side, tiles),
                   shape_.groups());
  }

  // The groups come one after the other, in one workspace.
  void AddTransformed(AlgorithmKind kind, double operations, double workspace, double groups) {
    Add(kind, workspace,
        {Numbers::kSingle, operations, shape_.TensorBytes() + 2 * workspace * groups,
         kTransformedEfficiency});
  }

  const Convolution& convolution_;
  const Gpu& gpu_;
  const Shape shape_;
  std::vector<Algorithm> made_;
};

}  // namespace

// Tensors of images have the stride 1 at the channels, or at the last direction.
bool IsChannelsLast(const std::vector<std::int64_t>& sizes,
                    const std::vector<std::int64_t>& strides) {
  return strides.size() > 2 && strides[1] == 1 && (sizes[1] > 1 || strides.back() != 1);
}

double OutputBytes(const Convolution& convolution) {
  const auto number_bytes = static_cast<double>(BytesOfNumber(convolution.type));
  switch (convolution.pass) {
    case Pass::kForward:
      return number_bytes * Product(convolution.y);
    case Pass::kData:
      return number_bytes * Product(convolution.x);
    case Pass::kFilter:
      return number_bytes * Product(convolution.w);
  }
  return 0;
}

std::int64_t SizeOfWorkspace(double bytes) {
  constexpr double kBlock = 512;
  constexpr double kMost = 1LL << 60;
  if (bytes <= 0) return 0;
  return static_cast<std::int64_t>(std::min(std::ceil(bytes / kBlock) * kBlock, kMost)) - 1;
}

std::vector<Algorithm> AlgorithmsOf(const Convolution& convolution, const Gpu& gpu) {
  return Maker(convolution, gpu).All();
}

std::int64_t LargestWorkspace(const Convolution& convolution, const Gpu& gpu) {
  std::int64_t largest = 0;
  for (const Algorithm& one : AlgorithmsOf(convolution, gpu)) {
    largest = std::max(largest, one.workspace_bytes);
  }
  const Shape shape(convolution);
  if (!shape.HasStridedFft() || shape.SideOfSpectra() == 0) return largest;
  return std::max(largest, SizeOfWorkspace(shape.FftBytes(shape.SideOfSpectra(), 1)));
}

}  // namespace tidepool::cudart_host

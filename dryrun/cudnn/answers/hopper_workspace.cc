// SPDX-License-Identifier: Apache-2.0
#include "dryrun/cudnn/answers/hopper_workspace.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "dryrun/cudnn/answers/sizes.h"

namespace tidepool::cudart_host {
namespace {

constexpr double kLoadBytes = 16;  // that a thread reads at once
constexpr double kSumBytes = 4;
constexpr double kDirectBytes = 400;  // of 32-bit products without copies, in most of them
constexpr double kShortFilter = 64;
constexpr double kLongFilter = 256;
constexpr double kMostDirectWork = 256;  // products for each copied number
constexpr double kLeastProducts = 12288;
constexpr double kPoorUse = 0.6;

double EdgeOfTile(double channels) { return channels <= 64 ? 64 : 128; }

class Workspace {
 public:
  Workspace(const Convolution& c, const Gpu& gpu)
      : pass_(c.pass),
        is_channels_last_(c.is_channels_last),
        number_bytes_(static_cast<double>(BytesOfNumber(c.type))),
        batch_(static_cast<double>(c.x[0])),
        inputs_(static_cast<double>(c.x[1])),
        outputs_(static_cast<double>(c.w[0])),
        is_grouped_(c.w[1] != c.x[1]),
        is_depthwise_(is_grouped_ && c.w[1] == 1),
        positions_(Product(c.w, 2)),
        image_(Product(c.y, 2)),
        x_bytes_(number_bytes_ * Product(c.x)),
        w_bytes_(number_bytes_ * Product(c.w)),
        y_bytes_(number_bytes_ * Product(c.y)),
        is_product_(!is_grouped_ && positions_ == 1 && AreAll(c.stride, 1) && AreAll(c.padding, 0)),
        multiprocessors_(static_cast<double>(std::max<std::int64_t>(1, gpu.multiprocessors))) {}

  double Bytes() const {
    if (is_depthwise_ || (is_grouped_ && IsFilterGradient())) return 0;
    if (IsNarrow()) return HasNarrowKernel() ? NarrowCopies() + NarrowSums() : 0;
    const double copied = Copies(1) + Sums();
    if (is_channels_last_ || !IsDirect()) return copied;
    if (!IsFilterGradient()) return IsHalf() ? 0 : kDirectBytes;
    return HasUnits(outputs_) ? std::min(copied, batch_ * SumsOfAll()) : copied;
  }

 private:
  bool IsFilterGradient() const { return pass_ == Pass::kFilter; }
  bool IsHalf() const { return number_bytes_ == 2; }
  double Unit() const { return kLoadBytes / number_bytes_; }
  bool HasUnits(double numbers) const { return std::fmod(numbers, Unit()) == 0; }
  double FilterLength() const { return inputs_ * positions_; }
  double SumsOfAll() const { return w_bytes_ / number_bytes_ * kSumBytes; }

  // Copies of tensors that are not channels-last, with X and W padded by a factor.
  double Copies(double padding) const {
    if (is_channels_last_) return 0;
    return x_bytes_ * padding + y_bytes_ + (positions_ > 1 ? w_bytes_ * padding : 0) + kLoadBytes;
  }

  bool IsDirect() const {
    const double work = inputs_ * outputs_ / (inputs_ + outputs_);
    return is_product_ &&
           (HasUnits(image_) || (std::fmod(image_, 4) == 0 && work <= kMostDirectWork));
  }

  // The first layer of a network of images.
  bool IsNarrow() const { return !is_grouped_ && inputs_ < Unit(); }
  bool HasNarrowKernel() const {
    const bool is_short = FilterLength() < kShortFilter;
    if (IsFilterGradient()) return IsHalf() || !is_short;
    return is_channels_last_ || (pass_ == Pass::kForward && !is_short);
  }
  double Padding() const {
    const bool is_padded = IsFilterGradient() || IsHalf() || FilterLength() >= kLongFilter;
    return is_padded ? Unit() / inputs_ : 1;
  }
  double NarrowCopies() const {
    if (!is_channels_last_) return Copies(Padding());
    if (pass_ == Pass::kData) return x_bytes_ + y_bytes_ + w_bytes_;
    if (IsFilterGradient()) {
      return (x_bytes_ + w_bytes_) * Padding() + (IsHalf() ? 0 : y_bytes_);
    }
    return IsHalf() ? 0 : x_bytes_ + w_bytes_;
  }
  double NarrowSums() const {
    if (!IsFilterGradient()) return 0;
    return std::floor(multiprocessors_ / (IsHalf() ? 2 : 1)) * SumsOfAll() * Padding();
  }

  double Tiles() const {
    return std::ceil(outputs_ / EdgeOfTile(outputs_)) * std::ceil(inputs_ / EdgeOfTile(inputs_)) *
           positions_;
  }
  double SumsOfTile() const { return EdgeOfTile(outputs_) * EdgeOfTile(inputs_) * kSumBytes; }
  double MostSplits() const {
    const double splits = std::floor(multiprocessors_ / Tiles());
    return IsHalf() ? std::min(splits, std::max(1.0, std::floor(batch_ * image_ / kLeastProducts)))
                    : splits;
  }
  double Sums() const {
    if (!IsFilterGradient() || is_grouped_) return 0;
    const double splits = MostSplits();
    if (splits >= 2) return (IsHalf() ? splits - 1 : splits) * Tiles() * SumsOfTile();
    const bool may_split = !IsHalf() || batch_ * image_ >= 2 * kLeastProducts;
    const double waves = std::ceil(Tiles() / multiprocessors_);
    if (!may_split || Tiles() >= kPoorUse * waves * multiprocessors_) return 0;
    return multiprocessors_ * SumsOfTile() / (waves == 1 ? 2 : 1);
  }

  Pass pass_;
  bool is_channels_last_;
  double number_bytes_;
  double batch_;
  double inputs_;
  double outputs_;
  bool is_grouped_;
  bool is_depthwise_;
  double positions_;  // of a filter
  double image_;      // numbers of a channel of Y
  double x_bytes_;
  double w_bytes_;
  double y_bytes_;
  bool is_product_;
  double multiprocessors_;
};

}  // namespace

double HopperWorkspace(const Convolution& convolution, const Gpu& gpu) {
  return Workspace(convolution, gpu).Bytes();
}

}  // namespace tidepool::cudart_host

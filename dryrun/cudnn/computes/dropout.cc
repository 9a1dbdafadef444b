// SPDX-License-Identifier: Apache-2.0
// Dropout (Srivastava et al., JMLR 2014). The numbers that stay follow from the seed, the calls
// before with the same states, and the element.
#include <cstddef>
#include <cstdint>

#include "dryrun/cudnn/computes/layer_call.h"

namespace tidepool::cudart_host {
namespace {

// The contents of the states in the memory of the device.
struct RandomStates {
  std::uint64_t seed;
  std::uint64_t calls;
};

// Returns a number from 0 to 1 (splitmix64, Steele et al., OOPSLA 2014).
double RandomNumber(const RandomStates& states, std::uint64_t element) {
  std::uint64_t z =
      states.seed * 0x9e3779b97f4a7c15U + states.calls * 0xd1b54a32d192ed03U + element;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  z ^= z >> 31U;
  return static_cast<double>(z >> 11U) / static_cast<double>(1ULL << 53U);
}

std::size_t CountElements(cudnnTensorDescriptor_t tensor) {
  std::size_t count = 1;
  for (int i = 0; i < tensor->dimensions; ++i) {
    count *= static_cast<std::size_t>(tensor->sizes[static_cast<std::size_t>(i)]);
  }
  return count;
}
std::size_t BytesOfMask(cudnnTensorDescriptor_t tensor) { return (CountElements(tensor) + 7) / 8; }

bool AreOfDropout(cudnnDropoutDescriptor_t dropout, cudnnTensorDescriptor_t x,
                  cudnnTensorDescriptor_t y, std::size_t mask_bytes) {
  return dropout->states != nullptr && x->sizes == y->sizes && x->type == y->type &&
         mask_bytes >= BytesOfMask(x);
}

// A bit of the mask for each element.
class Mask {
 public:
  explicit Mask(void* memory) : bytes_(static_cast<std::uint8_t*>(memory)) {}
  bool Keeps(std::size_t element) const { return (bytes_[element / 8] >> (element % 8) & 1U) != 0; }
  void Set(std::size_t element, bool keeps) const {
    const auto bit = static_cast<std::uint8_t>(1U << (element % 8));
    bytes_[element / 8] =
        static_cast<std::uint8_t>(keeps ? bytes_[element / 8] | bit : bytes_[element / 8] & ~bit);
  }

 private:
  std::uint8_t* bytes_;
};

// Scales the numbers that stay, so that sums keep their size on average.
void ApplyMask(const Mask& mask, float rate, const TensorView& from, const TensorView& to) {
  const double scale = rate < 1 ? 1 / (1 - static_cast<double>(rate)) : 0;
  std::size_t element = 0;
  ForEachPosition(to, [&](const Position& at) {
    to.Store(at, mask.Keeps(element++) ? from.Load(at) * scale : 0);
  });
}

}  // namespace
}  // namespace tidepool::cudart_host

using tidepool::cudart_host::ApplyMask;
using tidepool::cudart_host::AreOfDropout;
using tidepool::cudart_host::BytesOfMask;
using tidepool::cudart_host::CountElements;
using tidepool::cudart_host::EnterCudnn;
using tidepool::cudart_host::EnterLayer;
using tidepool::cudart_host::IsLayerTensor;
using tidepool::cudart_host::Mask;
using tidepool::cudart_host::QueueLayer;
using tidepool::cudart_host::RandomNumber;
using tidepool::cudart_host::RandomStates;
using tidepool::cudart_host::TensorView;

extern "C" {

cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t handle, size_t* bytes) {
  const cudnnStatus_t status = EnterLayer(__func__, handle, {}, {bytes});
  if (status == CUDNN_STATUS_SUCCESS) *bytes = sizeof(RandomStates);
  return status;
}

cudnnStatus_t cudnnDropoutGetReserveSpaceSize(cudnnTensorDescriptor_t x, size_t* bytes) {
  if (const cudnnStatus_t status = EnterCudnn(__func__); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (!IsLayerTensor(x) || bytes == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *bytes = BytesOfMask(x);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t dropout, cudnnHandle_t handle,
                                        float rate, void* states, size_t bytes,
                                        unsigned long long seed) {
  const cudnnStatus_t status = EnterLayer(__func__, handle, {}, {dropout});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const bool is_rate = rate >= 0 && rate <= 1;
  if (!is_rate || (states != nullptr && bytes < sizeof(RandomStates))) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  dropout->rate = rate;
  dropout->states = states;
  if (states == nullptr) return CUDNN_STATUS_SUCCESS;
  return QueueLayer(
      handle, [states, seed] { *static_cast<RandomStates*>(states) = {.seed = seed, .calls = 0}; });
}

cudnnStatus_t cudnnDropoutForward(cudnnHandle_t handle, cudnnDropoutDescriptor_t dropout,
                                  cudnnTensorDescriptor_t x, const void* x_data,
                                  cudnnTensorDescriptor_t y, void* y_data, void* mask,
                                  size_t mask_bytes) {
  const cudnnStatus_t status =
      EnterLayer(__func__, handle, {x, y}, {dropout, x_data, y_data, mask});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (!AreOfDropout(dropout, x, y, mask_bytes)) return CUDNN_STATUS_BAD_PARAM;
  return QueueLayer(
      handle,
      [mask, rate = dropout->rate, states = static_cast<RandomStates*>(dropout->states),
       count = CountElements(x), from = TensorView(*x, x_data), to = TensorView(*y, y_data)] {
        for (std::size_t i = 0; i < count; ++i) {
          Mask(mask).Set(i, RandomNumber(*states, i) >= static_cast<double>(rate));
        }
        ++states->calls;
        ApplyMask(Mask(mask), rate, from, to);
      });
}

cudnnStatus_t cudnnDropoutBackward(cudnnHandle_t handle, cudnnDropoutDescriptor_t dropout,
                                   cudnnTensorDescriptor_t dy, const void* dy_data,
                                   cudnnTensorDescriptor_t dx, void* dx_data, void* mask,
                                   size_t mask_bytes) {
  const cudnnStatus_t status =
      EnterLayer(__func__, handle, {dy, dx}, {dropout, dy_data, dx_data, mask});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (!AreOfDropout(dropout, dy, dx, mask_bytes)) return CUDNN_STATUS_BAD_PARAM;
  return QueueLayer(handle,
                    [mask, rate = dropout->rate, from = TensorView(*dy, dy_data),
                     to = TensorView(*dx, dx_data)] { ApplyMask(Mask(mask), rate, from, to); });
}

}  // extern "C"

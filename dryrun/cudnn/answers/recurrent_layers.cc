// SPDX-License-Identifier: Apache-2.0
// Recurrent layers of cuDNN. The weights have the sizes and places that cudnnGetRNNWeightParams
// describes. NVIDIA does not publish the sizes of the workspace and of the reserve. The formulas
// below are those of one LSTM on an H200 (cuDNN 9.19; 2 layers of 1500, 35 steps, batch 64, with
// dropout): its reserve to a block, its workspace of 250.4 MiB 4 % too small.
// - The reserve keeps the gates and the state of each step, the input of each layer but the first,
// and a bit for each of their elements with dropout.
// - The workspace holds the matrices once more, and the gates of each step.
#include <cstddef>
#include <cstdint>

#include "dryrun/cudnn/descriptors.h"
#include "dryrun/libraries/answers.h"
#include "dryrun/libraries/gpu.h"

namespace {

using tidepool::cudart_host::AssumedGpu;
using tidepool::cudart_host::BytesOfNumber;
using tidepool::cudart_host::Numbers;
using tidepool::cudart_host::Run;

// Values of cudnn_adv.h.
constexpr int kLstm = 2;
constexpr int kGru = 3;

struct Layers {
  int cell = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  bool has_bias = false;
  std::int64_t directions = 1;
  std::int64_t input = 0;
  std::int64_t hidden = 0;
  std::int64_t projected = 0;  // equal to `hidden` without a projection
  std::int64_t layers = 0;
  bool has_dropout = false;

  std::int64_t gates() const { return cell == kLstm ? 4 : cell == kGru ? 3 : 1; }
  bool has_projection() const { return projected != hidden; }
  std::int64_t passes() const { return layers * directions; }
  std::int64_t InputOf(std::int64_t pass) const {
    return pass < directions ? input : projected * directions;
  }
  // Elements of the matrices of a pass: of the input and of the state for each gate, and the
  // projection.
  std::int64_t Matrices(std::int64_t pass) const {
    const std::int64_t all = gates() * hidden * (InputOf(pass) + projected);
    return has_projection() ? all + hidden * projected : all;
  }
  std::int64_t Biases() const { return has_bias ? 2 * gates() * hidden : 0; }
  std::int64_t AllMatrices(std::int64_t passes_before) const {
    std::int64_t sum = 0;
    for (std::int64_t pass = 0; pass < passes_before; ++pass) sum += Matrices(pass);
    return sum;
  }
};

struct Sequences {
  std::int64_t steps = 0;
  std::int64_t batch = 0;
};

// Passes the time of a pass over all steps: a product with each matrix for each step, which reads
// the matrices again.
int RunPass(const char* name, cudnnHandle_t handle, const void* descriptor, const void* data) {
  const auto& layers = *static_cast<const Layers*>(descriptor);
  const auto& sequences = *static_cast<const Sequences*>(data);
  const auto steps = static_cast<double>(sequences.steps);
  const auto matrices = static_cast<double>(layers.AllMatrices(layers.passes()));
  const auto element = static_cast<double>(BytesOfNumber(layers.type));
  const bool is_half = layers.type == CUDNN_DATA_HALF || layers.type == CUDNN_DATA_BFLOAT16;
  const Numbers numbers = layers.type == CUDNN_DATA_DOUBLE           ? Numbers::kDouble
                          : is_half && AssumedGpu().capability >= 70 ? Numbers::kHalf
                                                                     : Numbers::kSingle;
  Run(name, handle->stream,
      {numbers, 2 * steps * static_cast<double>(sequences.batch) * matrices,
       steps * matrices * element},
      nullptr, 0);
  return 0;
}

bool HasDropout(cudnnDropoutDescriptor_t dropout) {
  return dropout != nullptr && dropout->rate > 0;
}

// Returns the elements of the outputs of all layers but the last.
std::int64_t InnerOutputs(const Layers& layers, const Sequences& data) {
  return (layers.layers - 1) * layers.directions * data.steps * data.batch * layers.projected;
}

void Describe(cudnnTensorDescriptor_t tensor, cudnnDataType_t type, std::int64_t rows,
              std::int64_t columns) {
  const auto r = static_cast<int>(rows);
  const auto c = static_cast<int>(columns);
  *tensor = {type, 3, {1, r, c}, {r * c, c, 1}};
}

template <typename Object>
int Make(void** made) {
  *made = new Object();
  return CUDNN_STATUS_SUCCESS;
}
template <typename Object>
int Delete(void* object) {
  delete static_cast<Object*>(object);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

TIDEPOOL_ANSWER int cudnnCreateRNNDataDescriptor(void** made) { return Make<Sequences>(made); }
TIDEPOOL_ANSWER int cudnnDestroyRNNDataDescriptor(void* object) {
  return Delete<Sequences>(object);
}
TIDEPOOL_ANSWER int cudnnSetRNNDataDescriptor(void* descriptor, int /*type*/, int /*layout*/,
                                              int steps, int batch, int /*width*/,
                                              const int* /*lengths*/, void* /*padding*/) {
  *static_cast<Sequences*>(descriptor) = {steps, batch};
  return 0;
}

TIDEPOOL_ANSWER int cudnnCreateRNNDescriptor(void** made) { return Make<Layers>(made); }
TIDEPOOL_ANSWER int cudnnDestroyRNNDescriptor(void* object) { return Delete<Layers>(object); }
TIDEPOOL_ANSWER int cudnnSetRNNDescriptor_v8(void* descriptor, int /*algorithm*/, int cell,
                                             int bias, int direction, int /*input_mode*/,
                                             cudnnDataType_t type, int /*precision*/, int /*math*/,
                                             std::int32_t input, std::int32_t hidden,
                                             std::int32_t projected, std::int32_t layers,
                                             cudnnDropoutDescriptor_t dropout,
                                             std::uint32_t /*flags*/) {
  *static_cast<Layers*>(descriptor) = {.cell = cell,
                                       .type = type,
                                       .has_bias = bias != 0,
                                       .directions = direction == 0 ? 1 : 2,
                                       .input = input,
                                       .hidden = hidden,
                                       .projected = projected == 0 ? hidden : projected,
                                       .layers = layers,
                                       .has_dropout = HasDropout(dropout)};
  return 0;
}

TIDEPOOL_ANSWER int cudnnGetRNNWeightSpaceSize(void* /*handle*/, void* descriptor,
                                               std::size_t* bytes) {
  const auto& layers = *static_cast<const Layers*>(descriptor);
  const std::int64_t elements =
      layers.AllMatrices(layers.passes()) + layers.passes() * layers.Biases();
  *bytes = static_cast<std::size_t>(elements * BytesOfNumber(layers.type));
  return 0;
}

// The matrices of all passes come first, then their biases. Those of the input lie before those of
// the state, gate by gate; the projection is the last.
TIDEPOOL_ANSWER int cudnnGetRNNWeightParams(void* /*handle*/, void* descriptor, std::int32_t pass,
                                            std::size_t /*bytes*/, char* weights, std::int32_t gate,
                                            cudnnTensorDescriptor_t matrix, void** matrix_address,
                                            cudnnTensorDescriptor_t bias, void** bias_address) {
  const auto& layers = *static_cast<const Layers*>(descriptor);
  const std::int64_t gates = layers.gates();
  if (pass >= layers.passes() || gate > 2 * gates) return CUDNN_STATUS_BAD_PARAM;
  const std::int64_t input = layers.hidden * layers.InputOf(pass);
  const std::int64_t state = layers.hidden * layers.projected;
  const auto element = BytesOfNumber(layers.type);
  if (matrix != nullptr) {
    const std::int64_t before =
        gate < gates ? gate * input : gates * input + (gate - gates) * state;
    if (gate == 2 * gates) {
      Describe(matrix, layers.type, layers.projected, layers.hidden);
    } else {
      Describe(matrix, layers.type, layers.hidden,
               gate < gates ? layers.InputOf(pass) : layers.projected);
    }
    *matrix_address = weights + (layers.AllMatrices(pass) + before) * element;
  }
  if (bias != nullptr) {
    if (!layers.has_bias || gate == 2 * gates) {
      *bias_address = nullptr;
      return 0;
    }
    Describe(bias, layers.type, layers.hidden, 1);
    *bias_address = weights + (layers.AllMatrices(layers.passes()) + pass * layers.Biases() +
                               gate * layers.hidden) *
                                  element;
  }
  return 0;
}

TIDEPOOL_ANSWER int cudnnGetRNNTempSpaceSizes(void* /*handle*/, void* descriptor, int /*mode*/,
                                              void* sequences, std::size_t* work,
                                              std::size_t* reserve) {
  const auto& layers = *static_cast<const Layers*>(descriptor);
  const auto& data = *static_cast<const Sequences*>(sequences);
  const auto element = BytesOfNumber(layers.type);
  const std::int64_t states = data.steps * data.batch * layers.hidden * layers.passes();
  const std::int64_t inner = InnerOutputs(layers, data);
  const std::int64_t mask = layers.has_dropout ? inner / 8 : 0;  // bytes
  if (work != nullptr) {
    *work = static_cast<std::size_t>(
        (layers.AllMatrices(layers.passes()) + states * layers.gates()) * element);
  }
  if (reserve != nullptr) {
    *reserve = static_cast<std::size_t>((states * (layers.gates() + 1) + inner) * element + mask);
  }
  return 0;
}

// The two halves of the backward pass take as long as the forward pass each.
TIDEPOOL_ANSWER int cudnnRNNForward(cudnnHandle_t handle, void* layers, int /*mode*/,
                                    const std::int32_t* /*lengths*/, void* x, void* /*x_data*/,
                                    void* /*y*/, void* /*y_data*/, void* /*h*/, void* /*hx*/,
                                    void* /*hy*/, void* /*c*/, void* /*cx*/, void* /*cy*/,
                                    std::size_t /*weight_bytes*/, void* /*weights*/,
                                    std::size_t /*bytes*/, void* /*workspace*/,
                                    std::size_t /*reserve_bytes*/, void* /*reserve*/) {
  return RunPass(__func__, handle, layers, x);
}
TIDEPOOL_ANSWER int cudnnRNNBackwardData_v8(
    cudnnHandle_t handle, void* layers, const std::int32_t* /*lengths*/, void* y, void* /*y_data*/,
    void* /*dy*/, void* /*x*/, void* /*dx*/, void* /*h*/, void* /*hx*/, void* /*dhy*/,
    void* /*dhx*/, void* /*c*/, void* /*cx*/, void* /*dcy*/, void* /*dcx*/,
    std::size_t /*weight_bytes*/, void* /*weights*/, std::size_t /*bytes*/, void* /*workspace*/,
    std::size_t /*reserve_bytes*/, void* /*reserve*/) {
  return RunPass(__func__, handle, layers, y);
}
TIDEPOOL_ANSWER int cudnnRNNBackwardWeights_v8(cudnnHandle_t handle, void* layers, int /*adds*/,
                                               const std::int32_t* /*lengths*/, void* x,
                                               void* /*x_data*/, void* /*h*/, void* /*hx*/,
                                               void* /*y*/, void* /*y_data*/,
                                               std::size_t /*weight_bytes*/, void* /*dweights*/,
                                               std::size_t /*bytes*/, void* /*workspace*/,
                                               std::size_t /*reserve_bytes*/, void* /*reserve*/) {
  return RunPass(__func__, handle, layers, x);
}

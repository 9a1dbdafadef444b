// SPDX-License-Identifier: Apache-2.0
// Builds the task graph of a training iteration from the layers of a network.
//
// Layers are added in the order of the forward pass; Finish() adds the backward pass. Each layer
// becomes a forward task, one or two backward tasks that read exactly the data that their gradients
// need and, where it learns, an update. The backward task of a tensor's last reader writes the
// tensor's gradient; those of earlier readers update (accumulate) it.
//
// Of two backward tasks, that of weights comes first: the layer's input can leave the memory before
// the gradient of the input takes some.
//
// Data is named after its layer: `conv1.output`, `conv1.weight`, `conv1.output.gradient`; tasks are
// `conv1.forward`, `conv1.backward-weights`, `conv1.backward-data`, `conv1.update`, and
// `relu1.backward` where one task computes all gradients.
#ifndef TIDEPOOL_LIB_TRAINING_MODELS_NETWORK_BUILDER_H_
#define TIDEPOOL_LIB_TRAINING_MODELS_NETWORK_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "lib/training/models/cost_model.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool::models {

// The shape of one sample. A sequence has its features as channels and its tokens as height.
struct Shape {
  std::int64_t channels = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;

  std::int64_t elements() const { return channels * height * width; }
};

// Data together with a shape: reshaping makes no new data.
struct Tensor {
  std::size_t data = 0;
  Shape shape;
};

inline Tensor Flattened(const Tensor& tensor) {
  return {tensor.data, {.channels = tensor.shape.elements()}};
}

struct Convolution {
  std::int64_t outputs = 0;  // channels
  std::int64_t kernel_height = 1;
  std::int64_t kernel_width = 1;
  std::int64_t stride = 1;
  std::int64_t padding_height = 0;
  std::int64_t padding_width = 0;
  std::int64_t groups = 1;
  bool bias = true;
};

// A square kernel with the padding that keeps the size at stride 1.
inline Convolution Square(std::int64_t outputs, std::int64_t kernel, std::int64_t stride = 1) {
  return {.outputs = outputs,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .stride = stride,
          .padding_height = kernel / 2,
          .padding_width = kernel / 2};
}

// A transposed convolution with a square kernel.
struct Upsampling {
  std::int64_t outputs = 0;  // channels
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
  bool bias = false;
};

struct Pooling {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
  std::int64_t padding = 0;
  bool round_up = false;  // windows may exceed the edge
};

// Heads of attention. Grouped queries share the heads of keys and values.
struct AttentionHeads {
  std::int64_t queries = 0;
  std::int64_t keys = 0;   // and as many of values
  bool is_causal = false;  // a token meets no later one
};

// Learned tables, of a row of features each; 0: no such table.
struct EmbeddingTables {
  std::int64_t vocabulary = 0;
  std::int64_t positions = 0;
  std::int64_t types = 0;  // of sentences
  std::int64_t features = 0;
};

// A learned tensor that several layers share.
struct SharedWeight {
  std::size_t number = 0;  // the builder's number
};

struct Network {
  TaskGraph graph;
  std::int64_t parameters = 0;  // learned words
};

class NetworkBuilder {
 public:
  NetworkBuilder(std::string name, const ModelOptions& options, const GpuRates& gpu);

  // Adds input data of `shape` per sample.
  Tensor Input(const Shape& shape);
  Tensor Tokens(std::int64_t count);

  Tensor Conv(const std::string& name, const Tensor& input, const Convolution& convolution);
  // Enlarges the size by the stride, and by up to stride - 1 more, to that of `size`.
  Tensor TransposedConv(const std::string& name, const Tensor& input, const Upsampling& upsampling,
                        const Shape& size);
  // Applies to each position; Flattened() makes one position of an image.
  Tensor Linear(const std::string& name, const Tensor& input, std::int64_t outputs,
                bool bias = true);
  // Uses an existing weight, [outputs x channels], without bias.
  Tensor LinearWith(const std::string& name, const Tensor& input, const SharedWeight& weight,
                    std::int64_t outputs);
  Tensor Relu(const std::string& name, const Tensor& input);  // in place
  Tensor Gelu(const std::string& name, const Tensor& input);
  Tensor MaxPool(const std::string& name, const Tensor& input, const Pooling& pooling);
  Tensor AveragePool(const std::string& name, const Tensor& input, const Pooling& pooling);
  Tensor GlobalAveragePool(const std::string& name, const Tensor& input);
  // Learns scale and shift, and keeps running statistics, which are weights but not learned. The
  // fused form works in place: then no other layer may read `input`.
  Tensor BatchNorm(const std::string& name, const Tensor& input);
  Tensor LayerNorm(const std::string& name, const Tensor& input);
  // Adds in place into `sum`, the output of a batch normalisation. Where that is fused and needs
  // its output, the sum is a new tensor.
  Tensor AddTo(const std::string& name, const Tensor& sum, const Tensor& other);
  Tensor Add(const std::string& name, const Tensor& a, const Tensor& b);
  // Crops the later inputs to the size of the first.
  Tensor Concat(const std::string& name, const std::vector<Tensor>& inputs);
  Tensor Dropout(const std::string& name,
                 const Tensor& input);  // in place, keeps a byte per element
  // Writes a new tensor: needed where the layer that wrote `input` keeps it.
  Tensor DropoutCopy(const std::string& name, const Tensor& input);
  // Local response normalisation across channels; cuDNN keeps its input and its output.
  Tensor LocalResponseNorm(const std::string& name, const Tensor& input);
  Tensor Softmax(const std::string& name, const Tensor& input);
  Tensor Tanh(const std::string& name, const Tensor& input);  // in place
  // Attention on queries, keys and values, which are three tensors or adjacent in one. Fused, it is
  // one layer that keeps a float32 for each query and head. Otherwise it is three: `name`.scores,
  // `name`.softmax and `name`.context.
  Tensor Attention(const std::string& name, const std::vector<Tensor>& inputs,
                   const AttentionHeads& heads);
  // Embeds tokens, their positions and their types. `table` gets the vocabulary's, unless it is
  // null.
  Tensor Embedding(const std::string& name, const Tensor& tokens, const EmbeddingTables& tables,
                   SharedWeight* table = nullptr);
  // Learns a scale (Zhang and Sennrich, arXiv:1910.07467).
  Tensor RmsNorm(const std::string& name, const Tensor& input);
  // Rotary positions (Su et al., arXiv:2104.09864), in place.
  Tensor Rotary(const std::string& name, const Tensor& input);
  // Hochreiter and Schmidhuber 1997, with a forget gate. Takes an input for each step, and returns
  // the hidden states. Steps are layers of their own, `name`.step1, ...; the first has the weights.
  std::vector<Tensor> Lstm(const std::string& name, const std::vector<Tensor>& inputs,
                           std::int64_t hidden);
  // silu(gate) x up (Shazeer, arXiv:2002.05202).
  Tensor SwiGlu(const std::string& name, const Tensor& gate, const Tensor& up);
  // Turns an image's positions into a sequence after a learned first token, with learned positions
  // added.
  Tensor PatchEmbedding(const std::string& name, const Tensor& patches);
  Tensor FirstToken(const std::string& name, const Tensor& sequence);
  // Adds the gradient of the loss, in the shape of `output`: the backward pass begins here. There
  // is a label for each position of `output`.
  void Loss(const std::string& name, const Tensor& output);
  // Adds softmax and loss as one layer, with a label for each position of `logits`.
  void CrossEntropy(const std::string& name, const Tensor& logits);

  // Reports an image size that a network does not support.
  void Refuse(const std::string& what);

  absl::StatusOr<Network> Finish() &&;

 private:
  struct Weight {
    std::size_t data = 0;
    std::int64_t elements = 0;
    std::size_t first_layer = 0;
    std::optional<std::size_t> gradient;
  };

  enum class InPlace : std::uint8_t {
    kNothing,
    kTransforms,  // and its gradient is transformed in place
    kAdds,        // and its gradient stays as it is
  };

  struct BackwardTask {
    TaskGradients gradients = TaskGradients::kAll;
    std::vector<std::size_t> kept = {};  // data that it reads besides that of the layer's
    std::vector<TaskAlgorithm> algorithms = {};
  };

  // The data that a layer's gradients of weights need, and the data that those of data need.
  struct KeptData {
    std::vector<std::size_t> of_weights = {};
    std::vector<std::size_t> of_data = {};
  };

  struct Layer {
    std::string name;
    std::string operation;
    std::vector<std::size_t> inputs = {};
    std::vector<std::size_t> outputs = {};    // new data; empty for the loss of the last layer
    std::optional<std::size_t> updated = {};  // in place
    InPlace in_place = InPlace::kNothing;
    std::vector<std::size_t> weights = {};  // indices in weights_ of the layer's learned weights
    std::vector<std::size_t> read_weights = {};  // data, of the forward task
    std::vector<std::size_t> statistics = {};    // data that the forward task updates
    std::vector<std::size_t> saved = {};         // data for the backward task
    std::vector<std::size_t> kept = {};  // data that all backward tasks read besides gradients
    bool first_input_may_share_gradient = false;
    LayerParameters parameters = {};
    bool is_product = false;  // computed by matrix units
    bool is_random = false;   // the forward task draws random numbers
    std::vector<TaskAlgorithm> forward = {};
    std::vector<BackwardTask> backward = {};
  };

  // A sample of `shape` for each of the batch, of numbers of this type.
  std::size_t AddData(const std::string& name, const Shape& shape, DataKind kind, DataType type);
  // Data without a batch.
  std::size_t AddFixedData(const std::string& name, std::int64_t elements, DataKind kind,
                           DataType type);
  std::size_t AddBytes(const std::string& name, std::int64_t bytes, DataKind kind, DataType type);
  GraphTask NewTask(const Layer& layer, const char* suffix, TaskPhase phase) const;
  Tensor Output(const std::string& name, const Shape& shape);
  std::int64_t Bytes(const Shape& shape) const;
  double BytesRead(const Shape& shape) const { return static_cast<double>(Bytes(shape)); }
  // Adds a new learned weight to the layer under construction.
  std::size_t Learn(const std::string& name, std::int64_t elements, Layer& layer);
  void Costs(Layer& layer, const Work& forward, const Work& backward) const;
  // Adds the backward tasks of a layer that learns and has one input. `algorithms` returns those of
  // a task that computes one gradient or two.
  void AddGradients(Layer& layer, const KeptData& kept,
                    absl::FunctionRef<std::vector<TaskAlgorithm>(int)> algorithms);
  // Adds the mask of dropout, and the costs.
  void AddMask(Layer& layer, const Shape& shape);
  ElementwiseParameters Elementwise(const Shape& shape, std::int64_t inputs = 1) const;
  NormalizationParameters Normalization(const Shape& shape) const;
  Tensor AddLayer(Layer layer, const Tensor& output);
  bool HasGradient(std::size_t data) const { return has_gradient_[data]; }
  // Returns the number of windows along one side of an image, and records an error when the side is
  // too small.
  std::int64_t Windows(const std::string& name, std::int64_t side, std::int64_t kernel,
                       std::int64_t stride, std::int64_t padding, bool round_up);
  Tensor Pool(const std::string& name, const Tensor& input, const Pooling& pooling, bool is_max);
  struct AttentionShape {
    AttentionHeads heads;
    std::int64_t tokens = 0;
    std::int64_t head_features = 0;
    std::int64_t row = 0;  // numbers of all inputs for a token
    std::vector<std::size_t> inputs = {};

    std::int64_t features() const { return heads.queries * head_features; }
  };
  struct ProductSizes {
    std::int64_t inner = 0;
    std::int64_t columns = 0;
  };
  AttentionShape ShapeOf(const std::vector<Tensor>& inputs, const AttentionHeads& heads) const;
  double OperationsOf(const AttentionShape& shape) const;
  Tensor FusedAttention(const std::string& name, const AttentionShape& shape);
  Tensor UnfusedAttention(const std::string& name, const AttentionShape& shape);
  Tensor AttentionProduct(const std::string& name, const std::vector<std::size_t>& inputs,
                          const Shape& result, const ProductSizes& sizes,
                          const AttentionShape& shape);
  Tensor AttentionSoftmax(const std::string& name, const Tensor& scores);
  // The weights of a recurrent layer, and its state before a step.
  struct LstmStep {
    std::vector<std::size_t> weights = {};  // indices in weights_
    std::optional<std::size_t> hidden = {};
    std::optional<std::size_t> cell = {};
    bool is_last = false;
  };
  Tensor AddLstmStep(const std::string& name, const Tensor& input, const Shape& state,
                     LstmStep& step);
  void AddLstmWeights(std::int64_t inputs, std::int64_t hidden, LstmStep& step, Layer& layer);
  void AddLstmCell(const Shape& state, LstmStep& step, Layer& layer);
  void AddLabels(const Shape& predictions, Layer& layer);
  // Adds a linear layer after its weights were added.
  Tensor AddLinear(Layer layer, const Tensor& input, std::int64_t outputs);

  void AddForward(const Layer& layer);
  void AddBackward(const Layer& layer);
  void AddBackwardReads(const Layer& layer, GraphTask& task) const;
  void AddInputGradients(const Layer& layer, GraphTask& task);
  void AddWeightGradients(const Layer& layer, GraphTask& task);
  void AddUpdate(std::size_t index);
  void UpdateWeight(const Weight& weight, GraphTask& task, Work& work);
  std::size_t AddState(const Weight& weight, const char* name);
  // Marks the tasks that may run again.
  void MarkReruns();
  bool SharesGradient(const Layer& layer) const;
  std::size_t NewGradient(std::size_t data);

  ModelOptions options_;
  GpuRates gpu_;   // with the rate of the precision
  DataType type_;  // of the precision
  TaskGraph graph_;
  std::vector<Layer> layers_;
  std::vector<Weight> weights_;
  std::vector<int> readers_;  // by datum, in the forward pass
  std::vector<bool> has_gradient_;
  std::vector<std::optional<std::size_t>> gradients_;
  std::int64_t parameters_ = 0;
  absl::Status status_;
};

}  // namespace tidepool::models

#endif  // TIDEPOOL_LIB_TRAINING_MODELS_NETWORK_BUILDER_H_

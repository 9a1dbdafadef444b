// SPDX-License-Identifier: Apache-2.0
// A convolution in cuDNN's graph interface, as programs build it: an operation graph, a
// configuration from heuristics, and a plan. Works with descriptors of cuDNN and of tidepool.
#ifndef TIDEPOOL_TESTS_SUPPORT_CUDNN_GRAPH_H_
#define TIDEPOOL_TESTS_SUPPORT_CUDNN_GRAPH_H_

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/support/cudnn_layer.h"

namespace tidepool::test {

// The parts of a graph besides its layer.
struct GraphOptions {
  int pass = 0;  // forward, data, filter
  double alpha = 1;
  double beta = 0;
  int engine = 1;                 // the index that the program chooses
  int filter_gap = 0;             // elements between the filters of two outputs
  std::int64_t alignment = 16;    // of the data, in bytes
  bool chooses_by_index = false;  // without heuristics
  bool has_handle = true;         // in the graph
  // Adds z_scale * z, a bias of each channel, and a ReLU, all with virtual tensors between them.
  void* z = nullptr;  // like the output; null: none of this
  void* bias = nullptr;
  double z_scale = 1;
  cudnnPointwiseMode_t last = CUDNN_POINTWISE_RELU_FWD;
  bool keeps_output = false;  // the convolution's own output has memory, that of z
};

template <typename Descriptor, typename Handle>
class GraphLayer {
 public:
  using Name = cudnnBackendAttributeName_t;

  // Builds all but the plan. Any call may fail.
  GraphLayer(Handle handle, const Layer& layer, const GraphOptions& options)
      : handle_(handle), layer_(layer), options_(options) {
    const LayerShape& its = layer.shape();
    const std::array<Sizes, 3> sizes = {Sizes{its.n, its.k, layer.out_h, layer.out_w},
                                        Sizes{its.n, its.c, its.h, its.w},
                                        Sizes{its.k, its.c / its.groups, its.r, its.s}};
    const Descriptor x = OfConvolution('x', sizes[1], 0);
    const Descriptor w = OfConvolution('w', sizes[2], options.filter_gap);
    const Descriptor y = OfConvolution('y', sizes[0], 0);
    const Descriptor convolution = Make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const std::array<std::int64_t, 2> pads = {its.pad, its.pad};
    const std::array<std::int64_t, 2> strides = {its.stride, its.stride};
    const std::array<std::int64_t, 2> dilations = {its.dilation, its.dilation};
    const std::int64_t spatial = 2;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    Set(convolution, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &its.compute_type, 1);
    Set(convolution, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, &mode, 1);
    Set(convolution, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, &spatial, 1);
    Set(convolution, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, pads.data(), 2);
    Set(convolution, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, pads.data(), 2);
    Set(convolution, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, strides.data(), 2);
    Set(convolution, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, dilations.data(), 2);
    Finalize(convolution);
    std::vector<Descriptor> operations = {Operation(x, w, y, convolution)};
    if (options.z != nullptr) {
      AddPointwise(options.pass == 0   ? y
                   : options.pass == 1 ? x
                                       : w,
                   sizes[static_cast<std::size_t>(options.pass)], operations);
    }
    graph_ = Make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    Set(graph_, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations.data(),
        static_cast<std::int64_t>(operations.size()));
    if (options.has_handle) {
      Set(graph_, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, &handle_, 1);
    }
    Finalize(graph_);
    configuration_ = options.chooses_by_index ? ByIndex() : BySuggestion();
    plan_ = Make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    Set(plan_, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        &configuration_, 1);
    Finalize(plan_);
    if (status_ == CUDNN_STATUS_SUCCESS) {
      Keep(cudnnBackendGetAttribute(plan_, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                    CUDNN_TYPE_INT64, 1, nullptr, &workspace_bytes_));
    }
  }
  GraphLayer(const GraphLayer&) = delete;
  GraphLayer& operator=(const GraphLayer&) = delete;
  ~GraphLayer() {
    for (const Descriptor& descriptor : made_) cudnnBackendDestroyDescriptor(descriptor);
  }

  // Destroys all descriptors but the plan, as programs do that keep plans.
  void KeepPlanAlone() {
    for (const Descriptor& descriptor : made_) {
      if (descriptor != plan_) cudnnBackendDestroyDescriptor(descriptor);
    }
    made_ = {plan_};
  }

  cudnnStatus_t status() const { return status_; }
  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  Descriptor configuration() const { return configuration_; }
  Descriptor plan() const { return plan_; }

  // Queues the convolution, with a variant pack of its own.
  cudnnStatus_t Execute(Handle handle, void* x, void* w, void* y, void* workspace) {
    status_ = CUDNN_STATUS_SUCCESS;
    const Descriptor pack = Pack(x, w, y, workspace);
    if (status_ == CUDNN_STATUS_SUCCESS) Keep(cudnnBackendExecute(handle, plan_, pack));
    if (made_.back() == pack) {
      cudnnBackendDestroyDescriptor(pack);
      made_.pop_back();
    }
    return status_;
  }
  Descriptor Pack(void* x, void* w, void* y, void* workspace) {
    const std::array<std::int64_t, 6> ids = {'y', 'w', 'x', 'z', 'b', 'C'};
    const std::array<void*, 6> pointers = {y, w, x, options_.z, options_.bias, options_.z};
    const std::int64_t count = options_.z == nullptr ? 3 : options_.keeps_output ? 6 : 5;
    const Descriptor pack = Make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    Set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids.data(), count);
    Set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers.data(), count);
    Set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, &workspace, 1);
    Finalize(pack);
    return pack;
  }

 private:
  static constexpr std::int64_t kMostResults = 16;
  using Sizes = std::array<std::int64_t, 4>;

  void Keep(cudnnStatus_t status) {
    if (status_ == CUDNN_STATUS_SUCCESS) status_ = status;
  }
  Descriptor Make(cudnnBackendDescriptorType_t type) {
    Descriptor made = nullptr;
    if (status_ != CUDNN_STATUS_SUCCESS) return made;
    Keep(cudnnBackendCreateDescriptor(type, &made));
    if (status_ == CUDNN_STATUS_SUCCESS) made_.push_back(made);
    return made;
  }
  void Set(const Descriptor& descriptor, Name name, cudnnBackendAttributeType_t type,
           const void* elements, std::int64_t count) {
    if (status_ != CUDNN_STATUS_SUCCESS) return;
    Keep(cudnnBackendSetAttribute(descriptor, name, type, count, elements));
  }
  void Finalize(const Descriptor& descriptor) {
    if (status_ == CUDNN_STATUS_SUCCESS) Keep(cudnnBackendFinalize(descriptor));
  }

  // Makes x, w or y. The output of a convolution with more operations is C.
  Descriptor OfConvolution(std::int64_t id, Sizes sizes, std::int64_t gap) {
    if (options_.z == nullptr || id != "yxw"[options_.pass]) return Tensor(id, sizes, gap);
    return Tensor('C', sizes, gap, !options_.keeps_output);
  }

  Descriptor Tensor(std::int64_t id, Sizes sizes, std::int64_t gap, bool is_virtual = false) {
    const bool is_nhwc = layer_.shape().format == CUDNN_TENSOR_NHWC;
    const auto [n, c, h, w] = sizes;
    const std::array<std::int64_t, 4> strides =
        is_nhwc ? std::array<std::int64_t, 4>{c * h * w + gap, 1, w * c, c}
                : std::array<std::int64_t, 4>{c * h * w + gap, h * w, w, 1};
    const Descriptor tensor = Make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    Set(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, &layer_.shape().type, 1);
    Set(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, sizes.data(), 4);
    Set(tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides.data(), 4);
    Set(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, &id, 1);
    Set(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, &options_.alignment, 1);
    if (is_virtual) Set(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, &is_virtual, 1);
    Finalize(tensor);
    return tensor;
  }

  // Adds the operations that PyTorch adds to a convolution: A = output + z_scale * z, B = A + bias,
  // and the last operation.
  void AddPointwise(const Descriptor& output, Sizes sizes, std::vector<Descriptor>& operations) {
    const Descriptor a = Tensor('A', sizes, 0, true);
    const Descriptor b = Tensor('B', sizes, 0, true);
    const Descriptor last = Tensor("yxw"[options_.pass], sizes, 0);
    const Descriptor z = Tensor('z', sizes, 0);
    const Descriptor bias = Tensor('b', {1, sizes[1], 1, 1}, 0);
    operations.push_back(Pointwise(CUDNN_POINTWISE_ADD, output, &z, a, options_.z_scale));
    operations.push_back(Pointwise(CUDNN_POINTWISE_ADD, a, &bias, b, 1));
    const bool has_two = options_.last == CUDNN_POINTWISE_MUL;
    operations.push_back(Pointwise(options_.last, b, has_two ? &bias : nullptr, last, 1));
  }

  Descriptor Pointwise(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor* b,
                       const Descriptor& y, double scale) {
    const Descriptor settings = Make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    Set(settings, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &mode, 1);
    Set(settings, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
        &layer_.shape().compute_type, 1);
    Finalize(settings);
    const Descriptor operation = Make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    const auto alpha = static_cast<float>(scale);
    Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        &settings, 1);
    Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, &x, 1);
    Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, &y, 1);
    if (b != nullptr) {
      Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, b, 1);
      Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, &alpha, 1);
    }
    Finalize(operation);
    return operation;
  }

  Descriptor Operation(const Descriptor& x, const Descriptor& w, const Descriptor& y,
                       const Descriptor& convolution) {
    static constexpr cudnnBackendDescriptorType_t kTypes[] = {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR};
    // alpha, beta, convolution, x, w, y
    static constexpr Name kNames[3][6] = {
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY}};
    const Name* const names = kNames[options_.pass];
    const Descriptor operation = Make(kTypes[options_.pass]);
    const auto alpha = static_cast<float>(options_.alpha);
    const auto beta = static_cast<float>(options_.beta);
    if (layer_.shape().type == CUDNN_DATA_DOUBLE) {
      Set(operation, names[0], CUDNN_TYPE_DOUBLE, &options_.alpha, 1);
      Set(operation, names[1], CUDNN_TYPE_DOUBLE, &options_.beta, 1);
    } else {
      Set(operation, names[0], CUDNN_TYPE_FLOAT, &alpha, 1);
      Set(operation, names[1], CUDNN_TYPE_FLOAT, &beta, 1);
    }
    const Descriptor* const children[] = {&convolution, &x, &w, &y};
    for (int i = 0; i < 4; ++i) {
      Set(operation, names[2 + i], CUDNN_TYPE_BACKEND_DESCRIPTOR, children[i], 1);
    }
    Finalize(operation);
    return operation;
  }

  Descriptor ByIndex() {
    const Descriptor engine = Make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    const std::int64_t index = options_.engine;
    Set(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, &graph_, 1);
    Set(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, &index, 1);
    Finalize(engine);
    const Descriptor configuration = Make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    Set(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, &engine, 1);
    Finalize(configuration);
    return configuration;
  }

  // Returns the suggestion with the wanted engine.
  Descriptor BySuggestion() {
    const Descriptor heuristic = Make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_INSTANT;
    Set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, &graph_,
        1);
    Set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &mode, 1);
    Finalize(heuristic);
    std::vector<Descriptor> results;
    for (int i = 0; i < kMostResults; ++i)
      results.push_back(Make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    std::int64_t count = 0;
    if (status_ == CUDNN_STATUS_SUCCESS) {
      Keep(cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, kMostResults, &count,
                                    results.data()));
    }
    count = std::min(count, kMostResults);  // cuDNN may have more
    for (std::int64_t i = 0; status_ == CUDNN_STATUS_SUCCESS && i < count; ++i) {
      const Descriptor& result = results[static_cast<std::size_t>(i)];
      Descriptor engine = Make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      std::int64_t index = -1;
      if (status_ != CUDNN_STATUS_SUCCESS) break;
      Keep(cudnnBackendGetAttribute(result, CUDNN_ATTR_ENGINECFG_ENGINE,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, nullptr, &engine));
      if (status_ != CUDNN_STATUS_SUCCESS) break;
      Keep(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                                    nullptr, &index));
      if (index == options_.engine) return result;
    }
    Keep(CUDNN_STATUS_NOT_SUPPORTED);
    return nullptr;
  }

  Handle handle_;
  const Layer& layer_;
  GraphOptions options_;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
  std::vector<Descriptor> made_;
  Descriptor graph_ = nullptr;
  Descriptor configuration_ = nullptr;
  Descriptor plan_ = nullptr;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace tidepool::test

#endif  // TIDEPOOL_TESTS_SUPPORT_CUDNN_GRAPH_H_

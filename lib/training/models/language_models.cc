// SPDX-License-Identifier: Apache-2.0
// An LSTM, BERT and Llama 3.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/training/models/networks.h"

namespace tidepool::models {
namespace {

Tensor AddBertBlock(NetworkBuilder& net, const std::string& name, const Tensor& input,
                    const TransformerShape& shape) {
  Tensor x = net.Linear(name + ".attention.qkv", input, 3 * shape.features);
  x = net.Attention(name + ".attention", {x}, {.queries = shape.heads, .keys = shape.heads});
  x = net.Linear(name + ".attention.projection", x, shape.features);
  const Tensor middle = net.LayerNorm(name + ".ln1", net.Add(name + ".add1", x, input));
  x = net.Linear(name + ".mlp.fc", middle, 4 * shape.features);
  x = net.Gelu(name + ".mlp.gelu", x);
  x = net.Linear(name + ".mlp.projection", x, shape.features);
  return net.LayerNorm(name + ".ln2", net.Add(name + ".add2", x, middle));
}

Tensor AddUnbiased(NetworkBuilder& net, const std::string& name, const Tensor& input,
                   std::int64_t outputs) {
  return net.Linear(name, input, outputs, /*bias=*/false);
}

Tensor AddGroupedAttention(NetworkBuilder& net, const std::string& name, const Tensor& input,
                           const LlamaShape& shape) {
  const std::int64_t keys = shape.features / shape.heads * shape.key_heads;
  const Tensor q = AddUnbiased(net, name + ".q", input, shape.features);
  const Tensor k = AddUnbiased(net, name + ".k", input, keys);
  const Tensor v = AddUnbiased(net, name + ".v", input, keys);
  const Tensor context =
      net.Attention(name, {net.Rotary(name + ".q.rotary", q), net.Rotary(name + ".k.rotary", k), v},
                    {.queries = shape.heads, .keys = shape.key_heads, .is_causal = true});
  return AddUnbiased(net, name + ".projection", context, shape.features);
}

Tensor AddGatedUnit(NetworkBuilder& net, const std::string& name, const Tensor& input,
                    const LlamaShape& shape) {
  const Tensor gate = AddUnbiased(net, name + ".gate", input, shape.hidden);
  const Tensor up = AddUnbiased(net, name + ".up", input, shape.hidden);
  const Tensor product = net.SwiGlu(name + ".swiglu", gate, up);
  return AddUnbiased(net, name + ".down", product, shape.features);
}

Tensor AddLlamaBlock(NetworkBuilder& net, const std::string& name, const Tensor& input,
                     const LlamaShape& shape) {
  Tensor x = net.RmsNorm(name + ".norm1", input);
  x = AddGroupedAttention(net, name + ".attention", x, shape);
  const Tensor middle = net.Add(name + ".add1", x, input);
  x = net.RmsNorm(name + ".norm2", middle);
  x = AddGatedUnit(net, name + ".mlp", x, shape);
  return net.Add(name + ".add2", x, middle);
}

}  // namespace

void AddBert(NetworkBuilder& net, std::int64_t tokens, const TransformerShape& shape) {
  constexpr std::int64_t kVocabulary = 30522;
  constexpr std::int64_t kPositions = 512;
  Tensor x = net.Embedding("embedding", net.Tokens(tokens),
                           {.vocabulary = kVocabulary,
                            .positions = std::max(tokens, kPositions),
                            .types = 2,
                            .features = shape.features});
  x = net.LayerNorm("embedding.ln", x);
  for (int i = 0; i < shape.blocks; ++i) {
    x = AddBertBlock(net, absl::StrCat("block", i), x, shape);
  }
  x = net.Linear("pooler", net.FirstToken("class", x), shape.features);
  net.Loss("loss", net.Tanh("tanh", x));
}

void AddLstmLanguageModel(NetworkBuilder& net, std::int64_t tokens, std::int64_t hidden) {
  constexpr std::int64_t kVocabulary = 10000;
  const Tensor words = net.Embedding("embedding", net.Tokens(tokens),
                                     {.vocabulary = kVocabulary, .features = hidden});
  std::vector<Tensor> steps(static_cast<std::size_t>(tokens), {words.data, {.channels = hidden}});
  for (int layer = 1; layer <= 2; ++layer) {
    steps = net.Lstm(absl::StrCat("lstm", layer), steps, hidden);
  }
  const Tensor sequence = {net.Concat("sequence", steps).data, {hidden, tokens}};
  net.CrossEntropy("loss", net.Linear("head", sequence, kVocabulary));
}

void AddLlama(NetworkBuilder& net, std::int64_t tokens, const LlamaShape& shape) {
  constexpr std::int64_t kVocabulary = 128256;
  SharedWeight table;
  Tensor x = net.Embedding("embedding", net.Tokens(tokens),
                           {.vocabulary = kVocabulary, .features = shape.features}, &table);
  for (int i = 0; i < shape.blocks; ++i) {
    x = AddLlamaBlock(net, absl::StrCat("block", i), x, shape);
  }
  x = net.RmsNorm("norm", x);
  x = shape.shares_embedding ? net.LinearWith("head", x, table, kVocabulary)
                             : AddUnbiased(net, "head", x, kVocabulary);
  net.CrossEntropy("loss", x);
}

}  // namespace tidepool::models

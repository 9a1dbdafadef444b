// SPDX-License-Identifier: Apache-2.0
// GPT-2 and the vision transformers: the same blocks after different beginnings.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/training/models/networks.h"

namespace tidepool::models {
namespace {

Tensor AddTransformerBlock(NetworkBuilder& net, const std::string& name, const Tensor& input,
                           const TransformerShape& shape, bool is_causal) {
  Tensor x = net.LayerNorm(name + ".ln1", input);
  x = net.Linear(name + ".attention.qkv", x, 3 * shape.features);
  x = net.Attention(name + ".attention", {x},
                    {.queries = shape.heads, .keys = shape.heads, .is_causal = is_causal});
  x = net.Linear(name + ".attention.projection", x, shape.features);
  const Tensor middle = net.Add(name + ".add1", x, input);
  x = net.LayerNorm(name + ".ln2", middle);
  x = net.Linear(name + ".mlp.fc", x, 4 * shape.features);
  x = net.Gelu(name + ".mlp.gelu", x);
  x = net.Linear(name + ".mlp.projection", x, shape.features);
  return net.Add(name + ".add2", x, middle);
}

Tensor AddBlocks(NetworkBuilder& net, const Tensor& input, const TransformerShape& shape,
                 bool is_causal) {
  Tensor x = input;
  for (int i = 0; i < shape.blocks; ++i) {
    x = AddTransformerBlock(net, absl::StrCat("block", i), x, shape, is_causal);
  }
  return net.LayerNorm("ln", x);
}

}  // namespace

void AddGpt2(NetworkBuilder& net, std::int64_t tokens, const TransformerShape& shape) {
  constexpr std::int64_t kVocabulary = 50257;
  constexpr std::int64_t kPositions = 1024;
  const Tensor input = net.Tokens(tokens);
  SharedWeight table;
  Tensor x = net.Embedding("embedding", input,
                           {.vocabulary = kVocabulary,
                            .positions = std::max(tokens, kPositions),
                            .features = shape.features},
                           &table);
  x = AddBlocks(net, x, shape, /*is_causal=*/true);
  net.CrossEntropy("loss", net.LinearWith("head", x, table, kVocabulary));
}

void AddVisionTransformer(NetworkBuilder& net, std::int64_t image, const TransformerShape& shape) {
  constexpr std::int64_t kPatch = 16;
  if (image % kPatch != 0) {
    net.Refuse(absl::StrCat("image ", image, ", expected a multiple of the patches' ", kPatch));
  }
  Tensor x = net.Input({kColours, image, image});
  x = net.Conv("patches", x,
               {.outputs = shape.features,
                .kernel_height = kPatch,
                .kernel_width = kPatch,
                .stride = kPatch});
  x = AddBlocks(net, net.PatchEmbedding("embedding", x), shape, /*is_causal=*/false);
  AddClassifierEnd(net, net.Linear("head", net.FirstToken("class", x), kClasses));
}

}  // namespace tidepool::models

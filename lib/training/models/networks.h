// SPDX-License-Identifier: Apache-2.0
// The networks. Each adds its layers, from the image (or the tokens) to the loss.
#ifndef TIDEPOOL_LIB_TRAINING_MODELS_NETWORKS_H_
#define TIDEPOOL_LIB_TRAINING_MODELS_NETWORKS_H_

#include <array>
#include <cstdint>

#include "lib/training/models/network_builder.h"

namespace tidepool::models {

inline constexpr std::int64_t kClasses = 1000;  // of ImageNet

// Krizhevsky et al. 2012, in vDNN++'s variant: one tower with channels 96-256-384-384-256, no local
// response normalisation, no dropout.
void AddAlexNet(NetworkBuilder& net, std::int64_t image);

// Krizhevsky et al. 2012 as Caffe has it: conv2, conv4 and conv5 in two groups, local response
// normalisation before the first two pools, dropout. It is micro-cuDNN's AlexNet.
void AddGroupedAlexNet(NetworkBuilder& net, std::int64_t image);
// Krizhevsky, arXiv:1404.5997 ("one weird trick"), as in torchvision. The first linear layer takes
// the remaining image of any size.
void AddAlexNetV2(NetworkBuilder& net, std::int64_t image);

// Simonyan and Zisserman, arXiv:1409.1556: convolutions in each of the five groups. No dropout; the
// first fully connected layer takes the remaining image of any size.
using VggGroups = std::array<int, 5>;
void AddVgg(NetworkBuilder& net, std::int64_t image, const VggGroups& convolutions);
// The convolutions of VGG-16 with their pools, which FCN uses.
struct VggFeatures {
  std::array<Tensor, 5> pools;
};
VggFeatures AddVggFeatures(NetworkBuilder& net, std::int64_t image, const VggGroups& convolutions);

// vDNN++'s Table III: quick 1x1 between slow 5x5 convolutions, and a pool over all of the image.
void AddFastBetweenSlow(NetworkBuilder& net, std::int64_t image);

// He et al., arXiv:1512.03385. The stride of a stage with bottlenecks is in the first 1x1
// convolution in the paper, and in the 3x3 convolution in torchvision.
struct ResNetShape {
  std::array<int, 4> blocks;
  bool has_bottlenecks;
  bool has_stride_first = false;
};
void AddResNet(NetworkBuilder& net, std::int64_t image, const ResNetShape& shape);

// Huang et al., arXiv:1608.06993, as in torchvision: every layer makes a new concatenation.
struct DenseNetShape {
  std::array<int, 4> layers;
  std::int64_t growth;
  std::int64_t first_channels;
};
void AddDenseNet(NetworkBuilder& net, std::int64_t image, const DenseNetShape& shape);
// DenseNet-40 of the paper, for images of CIFAR-10: three blocks of twelve 3x3 convolutions,
// without bottlenecks and compression. No dropout.
void AddDenseNet40(NetworkBuilder& net, std::int64_t image, std::int64_t growth);

// Szegedy et al., arXiv:1409.4842, as in torchvision: with batch normalisation, 3x3 convolutions
// instead of the paper's 5x5, without the two auxiliary classifiers.
void AddGoogLeNet(NetworkBuilder& net, std::int64_t image);
// Szegedy et al., arXiv:1512.00567, as in torchvision, without the auxiliary classifier.
void AddInceptionV3(NetworkBuilder& net, std::int64_t image);

// Long et al., arXiv:1411.4038: FCN-8s on VGG-16, 21 classes. Padding keeps sizes, instead of 100
// pixels around the image that are cropped at the end; the number of weights is the same.
void AddFcn8s(NetworkBuilder& net, std::int64_t image);

// Ronneberger et al., arXiv:1505.04597, without padding: 572 pixels give 388. Two classes, one
// colour. No dropout.
void AddUnet(NetworkBuilder& net, std::int64_t image);

struct TransformerShape {
  std::int64_t features;
  std::int64_t heads;
  int blocks;
};
// Radford et al. 2019 (GPT-2): normalisation first, learned positions, the output layer's weights
// are those of the embedding. No dropout. More than 1,024 tokens get as many positions.
void AddGpt2(NetworkBuilder& net, std::int64_t tokens, const TransformerShape& shape);
// Devlin et al., arXiv:1810.04805 (BERT), as HuggingFace's BertModel: normalisation after the sums,
// learned positions of 512 tokens or more, and the pooler. The loss is on the pooled token. No
// dropout.
void AddBert(NetworkBuilder& net, std::int64_t tokens, const TransformerShape& shape);

// Zaremba et al., arXiv:1409.2329: two LSTM layers on words of the Penn Treebank. The medium
// network has 650 hidden features, the large one 1,500. No dropout.
void AddLstmLanguageModel(NetworkBuilder& net, std::int64_t tokens, std::int64_t hidden);

struct LlamaShape {
  std::int64_t features;
  std::int64_t heads;
  std::int64_t key_heads;
  std::int64_t hidden;  // of the gated units
  int blocks;
  bool shares_embedding;  // with the output layer
};
// Grattafiori et al., arXiv:2407.21783 (Llama 3): normalisation first, rotary positions, grouped
// queries, gated units, no bias.
void AddLlama(NetworkBuilder& net, std::int64_t tokens, const LlamaShape& shape);
// Dosovitskiy et al., arXiv:2010.11929, patches of 16x16. No dropout.
void AddVisionTransformer(NetworkBuilder& net, std::int64_t image, const TransformerShape& shape);

// The end of a classifier: softmax and loss.
inline void AddClassifierEnd(NetworkBuilder& net, const Tensor& output) {
  net.Loss("loss", net.Softmax("softmax", output));
}

inline constexpr std::int64_t kColours = 3;

}  // namespace tidepool::models

#endif  // TIDEPOOL_LIB_TRAINING_MODELS_NETWORKS_H_

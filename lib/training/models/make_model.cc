// SPDX-License-Identifier: Apache-2.0
// The table of networks, and the search by name.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/text/quote.h"
#include "lib/training/models/networks.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool::models {
namespace {

constexpr std::int64_t kMostBatch = std::int64_t{1} << 20;
constexpr std::int64_t kMostImage = std::int64_t{1} << 16;

struct KnownNetwork {
  std::string_view name;
  std::string_view alias;  // another name; "" without one
  std::int64_t image;      // the usual size
  void (*add)(NetworkBuilder& net, std::int64_t image);
};

// Each of vDNN++'s long VGGs adds the same number of convolutions to all five groups.
template <int kMore>
void AddLongVgg(NetworkBuilder& net, std::int64_t image) {
  AddVgg(net, image, {2 + kMore, 2 + kMore, 3 + kMore, 3 + kMore, 3 + kMore});
}

template <int kOne, int kTwo, int kThree, int kFour, bool kHasBottlenecks>
void AddResNetOf(NetworkBuilder& net, std::int64_t image) {
  AddResNet(net, image, {{kOne, kTwo, kThree, kFour}, kHasBottlenecks});
}

// The ResNets of the paper, where torchvision's differ.
template <int kTwo, int kThree>
void AddFirstResNetOf(NetworkBuilder& net, std::int64_t image) {
  AddResNet(net, image, {{3, kTwo, kThree, 3}, true, /*has_stride_first=*/true});
}

template <int kThird, int kFourth, int kGrowth, int kFirstChannels>
void AddDenseNetOf(NetworkBuilder& net, std::int64_t image) {
  AddDenseNet(net, image, {{6, 12, kThird, kFourth}, kGrowth, kFirstChannels});
}

template <int kGrowth>
void AddDenseNet40Of(NetworkBuilder& net, std::int64_t image) {
  AddDenseNet40(net, image, kGrowth);
}

template <int kHidden>
void AddLstmOf(NetworkBuilder& net, std::int64_t tokens) {
  AddLstmLanguageModel(net, tokens, kHidden);
}

template <int kFeatures, int kHeads, int kBlocks>
void AddGptOf(NetworkBuilder& net, std::int64_t tokens) {
  AddGpt2(net, tokens, {kFeatures, kHeads, kBlocks});
}

template <int kFeatures, int kHeads, int kBlocks>
void AddBertOf(NetworkBuilder& net, std::int64_t tokens) {
  AddBert(net, tokens, {kFeatures, kHeads, kBlocks});
}

void AddLlama8b(NetworkBuilder& net, std::int64_t tokens) {
  AddLlama(net, tokens,
           {.features = 4096,
            .heads = 32,
            .key_heads = 8,
            .hidden = 14336,
            .blocks = 32,
            .shares_embedding = false});
}

// Llama 3.2.
void AddLlama1b(NetworkBuilder& net, std::int64_t tokens) {
  AddLlama(net, tokens,
           {.features = 2048,
            .heads = 32,
            .key_heads = 8,
            .hidden = 8192,
            .blocks = 16,
            .shares_embedding = true});
}

template <int kFeatures, int kHeads, int kBlocks>
void AddVitOf(NetworkBuilder& net, std::int64_t image) {
  AddVisionTransformer(net, image, {kFeatures, kHeads, kBlocks});
}

constexpr auto kNetworks = std::to_array<KnownNetwork>({
    {"alexnet", "", 227, AddAlexNet},
    {"alexnet-grouped", "", 227, AddGroupedAlexNet},
    {"alexnet-v2", "", 224, AddAlexNetV2},
    {"vgg-16", "", 224, AddLongVgg<0>},
    {"vgg-19", "", 224,
     [](NetworkBuilder& net, std::int64_t image) {
       AddVgg(net, image, {2, 2, 4, 4, 4});
     }},
    {"vgg-101", "", 224,
     [](NetworkBuilder& net, std::int64_t image) {
       AddVgg(net, image, {2, 2, 4 + 82, 4, 4});
     }},
    {"vgg-116", "", 224, AddLongVgg<20>},
    {"vgg-191", "", 224, AddLongVgg<35>},
    {"vdnnpp-table-3", "", 224, AddFastBetweenSlow},
    {"resnet-18", "", 224, AddResNetOf<2, 2, 2, 2, false>},
    {"resnet-34", "", 224, AddResNetOf<3, 4, 6, 3, false>},
    {"resnet-50", "", 224, AddResNetOf<3, 4, 6, 3, true>},
    {"resnet-101", "", 224, AddResNetOf<3, 4, 23, 3, true>},
    {"resnet-152", "", 224, AddResNetOf<3, 8, 36, 3, true>},
    {"resnet-50-v1", "", 224, AddFirstResNetOf<4, 6>},
    {"resnet-101-v1", "", 224, AddFirstResNetOf<4, 23>},
    {"resnet-152-v1", "", 224, AddFirstResNetOf<8, 36>},
    {"densenet-40", "densenet-40-k12", 32, AddDenseNet40Of<12>},
    {"densenet-40-k40", "", 32, AddDenseNet40Of<40>},
    {"densenet-121", "", 224, AddDenseNetOf<24, 16, 32, 64>},
    {"densenet-161", "", 224, AddDenseNetOf<36, 24, 48, 96>},
    {"densenet-169", "", 224, AddDenseNetOf<32, 32, 32, 64>},
    {"densenet-201", "", 224, AddDenseNetOf<48, 32, 32, 64>},
    {"googlenet", "", 224, AddGoogLeNet},
    {"inception-v3", "", 299, AddInceptionV3},
    {"fcn-8s", "fcn", 500, AddFcn8s},
    {"u-net", "", 572, AddUnet},
    {"lstm-medium", "lstm", 35, AddLstmOf<650>},
    {"lstm-large", "", 35, AddLstmOf<1500>},
    {"gpt2-small", "gpt2", 1024, AddGptOf<768, 12, 12>},
    {"gpt2-medium", "", 1024, AddGptOf<1024, 16, 24>},
    {"gpt2-large", "", 1024, AddGptOf<1280, 20, 36>},
    {"gpt2-xl", "", 1024, AddGptOf<1600, 25, 48>},
    {"bert-base", "bert", 512, AddBertOf<768, 12, 12>},
    {"bert-large", "", 512, AddBertOf<1024, 16, 24>},
    {"llama-3-8b", "llama", 8192, AddLlama8b},
    {"llama-3-1b", "llama-3.2-1b", 8192, AddLlama1b},
    {"vit-b-16", "vit", 224, AddVitOf<768, 12, 12>},
    {"vit-l-16", "", 224, AddVitOf<1024, 16, 24>},
});

// Returns the canonical name: "ResNet50" and "resnet_50" become "resnet-50".
std::string Plain(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == '-' || c == '_' || c == '/') continue;
    plain += absl::ascii_tolower(static_cast<unsigned char>(c));
  }
  return plain;
}

absl::StatusOr<KnownNetwork> FindNetwork(std::string_view name) {
  const std::string plain = Plain(name);
  for (const KnownNetwork& network : kNetworks) {
    const bool is_alias = !network.alias.empty() && plain == Plain(network.alias);
    if (plain == Plain(network.name) || is_alias) return network;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown model ", text::Quoted(name),
                                                 ", expected one of ",
                                                 absl::StrJoin(KnownModels(), ", ")));
}

absl::StatusOr<GpuRates> FindGpu(std::string_view name) {
  const std::string plain = Plain(name);
  std::string known;
  for (const GpuRates& gpu : KnownGpus()) {
    if (plain == Plain(gpu.name)) return gpu;
    absl::StrAppend(&known, known.empty() ? "" : ", ", gpu.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown GPU ", text::Quoted(name), ", expected one of ", known));
}

absl::StatusOr<GpuRates> CheckRates(const GpuRates& rates) {
  const auto is_rate = [](double rate) { return std::isfinite(rate) && rate > 0; };
  const auto is_finite = [](double number) { return std::isfinite(number) && number >= 0; };
  if (is_rate(rates.flops_per_second) && is_rate(rates.bytes_per_second) &&
      is_finite(rates.launch_seconds) && is_finite(rates.link_bytes_per_second) &&
      is_finite(rates.float16_flops_per_second) && is_finite(rates.bfloat16_flops_per_second)) {
    return rates;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("GPU ", text::Quoted(rates.name), ": ", rates.flops_per_second, " FLOP/s, ",
                   rates.bytes_per_second, " bytes/s, ", rates.launch_seconds,
                   " s a launch, a link of ", rates.link_bytes_per_second,
                   " bytes/s, expected finite rates above 0, and a launch and a "
                   "link of at least 0"));
}

absl::Status CheckRange(const char* what, std::int64_t value, std::int64_t most) {
  if (value >= 1 && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " ", value, ", expected 1 to ", most));
}

absl::Status CheckChoices(const ModelOptions& options) {
  if (options.input_gradient && options.backward == BackwardTasks::kFused) {
    return absl::InvalidArgumentError(
        "a gradient of the input in fused backward tasks, expected split ones");
  }
  if (options.inputs != DataHome::kNowhere && options.weights != DataHome::kNowhere) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "inputs or weights that are nowhere before an iteration, expected the device or the host");
}

absl::StatusOr<Network> BuildNetwork(std::string_view name, const ModelOptions& options) {
  const absl::StatusOr<KnownNetwork> network = FindNetwork(name);
  if (!network.ok()) return network.status();
  const absl::StatusOr<GpuRates> gpu =
      options.rates.has_value() ? CheckRates(*options.rates) : FindGpu(options.gpu);
  if (!gpu.ok()) return gpu.status();
  const std::int64_t image = options.image == 0 ? network->image : options.image;
  absl::Status status = CheckRange("batch", options.batch, kMostBatch);
  if (status.ok()) status = CheckRange("image", image, kMostImage);
  if (status.ok()) status = CheckChoices(options);
  if (!status.ok()) return status;
  NetworkBuilder builder(std::string(network->name), options, *gpu);
  network->add(builder, image);
  absl::StatusOr<Network> made = std::move(builder).Finish();
  if (made.ok()) {
    made->graph.gpu = gpu->name;
    made->graph.link_bytes_per_second = gpu->link_bytes_per_second;
    return made;
  }
  return absl::Status(made.status().code(),
                      absl::StrCat(std::string(network->name), ": ", made.status().message()));
}

}  // namespace
}  // namespace tidepool::models

namespace tidepool {

std::vector<std::string> KnownModels() {
  std::vector<std::string> names;
  names.reserve(models::kNetworks.size());
  for (const models::KnownNetwork& network : models::kNetworks) names.emplace_back(network.name);
  return names;
}

absl::StatusOr<TaskGraph> MakeModel(std::string_view name, const ModelOptions& options) {
  absl::StatusOr<models::Network> network = models::BuildNetwork(name, options);
  if (!network.ok()) return network.status();
  return std::move(network->graph);
}

absl::StatusOr<std::int64_t> ModelParameters(std::string_view name, std::int64_t image) {
  const absl::StatusOr<models::Network> network =
      models::BuildNetwork(name, {.batch = 1, .image = image});
  if (!network.ok()) return network.status();
  return network->parameters;
}

absl::StatusOr<std::int64_t> ModelImage(std::string_view name) {
  const absl::StatusOr<models::KnownNetwork> network = models::FindNetwork(name);
  if (!network.ok()) return network.status();
  return network->image;
}

}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// Claim: the decisions of micro-cuDNN (Oyama et al., "Accelerating Deep Learning Frameworks with
// Micro-batches", CLUSTER 2018) come out of the zoo's cost model, beside the paper's figures: the
// convolutions of AlexNet and ResNet-50 by limit (figures 9 to 12), networks in TensorFlow (table
// V), and a batch over unlike GPUs (figure 13). Times are the cost model's, workspaces the public
// formulas'. The paper's text has the figures that it names; bars alone are not read.
#include <algorithm>
#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "tidepool/training/micro_batches.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/workspace_policy.h"

namespace tidepool::bench {
namespace {

using Front = std::vector<KernelConfiguration>;

constexpr std::int64_t kMib = std::int64_t{1} << 20;
constexpr const char* kPolicies[] = {"undivided", "powerOfTwo", "all"};

GraphFamily FamilyOf(const char* network, const char* gpu, std::int64_t batch) {
  ModelOptions options;
  options.gpu = gpu;
  options.input_gradient = true;  // the paper counts three kernels for each convolution
  return MakeModelFamily(network, options, {batch}).value();
}

// The kernels of a network, and the time of all other tasks.
struct Network {
  std::vector<std::string> names;
  std::vector<Front> fronts;  // by kernel
  double other_seconds = 0;
};

Front FrontOf(const GraphTask& task) {
  Front front;
  for (const TaskAlgorithm& its : task.algorithms) {
    KernelConfiguration point = {its.seconds, its.workspace_bytes};
    if (its.micro_batches.empty()) point.parts.push_back({});
    for (const MicroBatch& part : its.micro_batches) point.parts.push_back({0, part.samples});
    front.push_back(point);
  }
  return front;
}

Network KernelsOf(const char* network, const char* gpu, std::int64_t batch, const char* policy) {
  const TaskGraph graph = GraphInMicroBatches(FamilyOf(network, gpu, batch), batch, policy).value();
  Network kernels;
  for (const GraphTask& task : graph.tasks) {
    const bool is_kernel = std::holds_alternative<ConvolutionParameters>(task.parameters) &&
                           task.phase != TaskPhase::kUpdate;
    if (is_kernel) {
      kernels.names.push_back(task.name);
      kernels.fronts.push_back(FrontOf(task));
    } else {
      kernels.other_seconds += task.algorithms.back().seconds;
    }
  }
  return kernels;
}

// Workspace reuse: each kernel takes its fastest configuration within the limit.
std::vector<KernelConfiguration> Reuse(const Network& network, std::int64_t limit_bytes) {
  std::vector<KernelConfiguration> chosen;
  for (const Front& front : network.fronts) {
    KernelConfiguration best = front.front();
    for (const KernelConfiguration& point : front) {
      if (point.workspace_bytes <= limit_bytes) best = point;
    }
    chosen.push_back(best);
  }
  return chosen;
}

double SecondsOf(const std::vector<KernelConfiguration>& kernels) {
  double seconds = 0;
  for (const KernelConfiguration& kernel : kernels) seconds += kernel.seconds;
  return seconds;
}

std::int64_t BytesOf(const std::vector<KernelConfiguration>& kernels) {
  std::int64_t bytes = 0;
  for (const KernelConfiguration& kernel : kernels) bytes += kernel.workspace_bytes;
  return bytes;
}

double Mib(std::int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(kMib); }

// Figure 9: convolutions of AlexNet, batch 256, by the limit of each kernel.
void PrintReuse() {
  std::printf(
      "figure 9, AlexNet, batch 256: ms of convolutions by limit, and times faster than "
      "undivided\n%-6s %6s  %9s  %17s  %17s   paper\n",
      "GPU", "MiB", "undivided", "powerOfTwo", "all");
  struct Row {
    const char* gpu;
    std::int64_t mib;
    const char* paper;
  };
  for (const Row& row : {Row{"k80", 64, "all 2.10"},
                         {"p100", 8, "about 1"},
                         {"p100", 64, "all 1.63"},
                         {"p100", 512, "about 1"},
                         {"v100", 64, "all 1.60"}}) {
    std::printf("%-6s %6lld", row.gpu, static_cast<long long>(row.mib));
    double undivided = 0;
    for (const char* const policy : kPolicies) {
      const double seconds =
          SecondsOf(Reuse(KernelsOf("alexnet-grouped", row.gpu, 256, policy), row.mib * kMib));
      if (undivided == 0) {
        undivided = seconds;
        std::printf("  %9.2f", seconds * 1e3);
      } else {
        std::printf("  %8.2f  (%4.2fx)", seconds * 1e3, undivided / seconds);
      }
    }
    std::printf("   %s\n", row.paper);
  }
  const double all =
      Mib(BytesOf(Reuse(KernelsOf("alexnet-grouped", "p100", 256, "all"), 64 * kMib)));
  const double whole =
      Mib(BytesOf(Reuse(KernelsOf("alexnet-grouped", "p100", 256, "undivided"), 512 * kMib)));
  std::printf(
      "workspaces together: undivided at 512 MiB %.2f GiB (paper 2.87), all at 64 MiB %.2f "
      "GiB (paper 0.70)\n\n",
      whole / 1024, all / 1024);
}

// Figure 10: the forward pass of conv2.
void PrintConv2() {
  std::printf("figure 10, conv2 forward at 64 MiB on P100\n");
  double undivided = 0;
  for (const char* const policy : kPolicies) {
    const Network network = KernelsOf("alexnet-grouped", "p100", 256, policy);
    const auto at = std::find(network.names.begin(), network.names.end(), "conv2.forward");
    if (at == network.names.end()) return;
    const Front& front = network.fronts[static_cast<std::size_t>(at - network.names.begin())];
    const KernelConfiguration chosen = Reuse({{*at}, {front}}, 64 * kMib).front();
    if (undivided == 0) undivided = chosen.seconds;
    std::printf(
        "  %-10s %6.3f ms (%4.2fx) in %3zu micro-batches, %7.3f MiB; the fastest of all "
        "needs %.1f MiB\n",
        policy, chosen.seconds * 1e3, undivided / chosen.seconds, chosen.parts.size(),
        Mib(chosen.workspace_bytes), Mib(front.back().workspace_bytes));
  }
  std::printf(
      "  paper: GEMM with 4.3 KiB; FFT needs 213 MiB, in 8 micro-batches of 32 48.9 MiB; "
      "all 2.33x\n\n");
}

// Figure 11: the limit of each kernel, and a total of the same size that is divided.
void PrintDivision(const char* network, std::int64_t batch,
                   const std::vector<std::int64_t>& limits) {
  const Network undivided = KernelsOf(network, "p100", batch, "undivided");
  for (const std::int64_t mib : limits) {
    const auto kernels = static_cast<std::int64_t>(undivided.fronts.size());
    const std::int64_t total = mib * kernels;
    const double base = SecondsOf(Reuse(undivided, mib * kMib));
    std::printf("%-16s %3lld kernels %4lld MiB each, %5lld in all: undivided %7.2f ms", network,
                static_cast<long long>(kernels), static_cast<long long>(mib),
                static_cast<long long>(total), base * 1e3);
    for (const char* const policy : {"powerOfTwo", "all"}) {
      const Network divided = KernelsOf(network, "p100", batch, policy);
      const double reuse = SecondsOf(Reuse(divided, mib * kMib));
      const WorkspaceAnswer answer = DivideWorkspace(divided.fronts, total * kMib).value();
      std::printf("; %s reuse %.2fx, division %.2fx%s", policy, base / reuse, base / answer.seconds,
                  answer.proved ? "" : " (not proved)");
    }
    std::printf("\n");
  }
}

// Figure 12: the parts of 120 MiB.
void PrintParts() {
  const Network network = KernelsOf("alexnet-grouped", "p100", 256, "all");
  const WorkspaceAnswer answer = DivideWorkspace(network.fronts, 120 * kMib).value();
  std::int64_t middle = 0;
  for (std::size_t i = 0; i < network.names.size(); ++i) {
    const bool is_middle =
        network.names[i].starts_with("conv2") || network.names[i].starts_with("conv3");
    if (is_middle) middle += answer.kernels[i].workspace_bytes;
  }
  std::printf(
      "figure 12, 120 MiB divided: conv2 and conv3 have %.1f %% of %.1f MiB (paper 93.7 "
      "%%)\n\n",
      100 * static_cast<double>(middle) / static_cast<double>(answer.workspace_bytes),
      Mib(answer.workspace_bytes));
}

// Table V: whole iterations with 64 MiB for each kernel.
void PrintNetworks() {
  std::printf(
      "table V, iterations at 64 MiB on P100, ms (times faster), ours / the paper's in "
      "TensorFlow\n");
  struct Row {
    const char* network;
    std::int64_t batch;
    double paper[3];
  };
  for (const Row& row : {Row{"alexnet-v2", 256, {229, 186, 185}},
                         {"resnet-50", 64, {318, 302, 302}},
                         {"densenet-40-k40", 256, {639, 579, 574}}}) {
    std::printf("  %-16s", row.network);
    double undivided = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const Network network = KernelsOf(row.network, "p100", row.batch, kPolicies[i]);
      const double seconds = SecondsOf(Reuse(network, 64 * kMib)) + network.other_seconds;
      if (i == 0) undivided = seconds;
      std::printf("  %s %.1f (%.2f) / %.0f (%.2f)", kPolicies[i], seconds * 1e3,
                  undivided / seconds, row.paper[i], row.paper[0] / row.paper[i]);
    }
    std::printf("\n");
  }
  std::printf("\n");
}

double StepSeconds(const char* gpu, std::int64_t batch) {
  const Network network = KernelsOf("resnet-18", gpu, batch, "powerOfTwo");
  return SecondsOf(Reuse(network, 64 * kMib)) + network.other_seconds;
}

// Figure 13: ResNet-18 over unlike GPUs, 32 samples in multiples of 4.
void PrintDevices() {
  std::printf(
      "figure 13, ResNet-18, 32 samples over unlike GPUs: samples of each, and times faster "
      "than one GK210\n");
  const double alone = StepSeconds("k80", 32);
  struct Row {
    std::vector<const char*> gpus;
    const char* paper;
  };
  for (const Row& row : {Row{{"k20xm", "k80", "k80"}, "8, 12, 12: 2.12x"},
                         Row{{"gtx-750-ti", "k20xm"}, "1.37x faster than 16, 16"},
                         Row{{"gtx-750-ti", "k20xm", "k80", "k80"}, "2.20x"}}) {
    WorkspaceCase question;
    question.kind = WorkspaceKind::kDevices;
    question.batch = 32;
    question.multiple_of = 4;
    for (const char* const gpu : row.gpus) {
      std::vector<DeviceRow>& rows = question.devices.emplace_back();
      for (std::int64_t batch = 4; batch <= 32; batch += 4) {
        rows.push_back({batch, StepSeconds(gpu, batch)});
      }
    }
    const DeviceSplit split = SplitBatch(question).value();
    std::string text;
    for (std::size_t i = 0; i < split.devices.size(); ++i) {
      text += std::string(i == 0 ? "" : ", ") + row.gpus[i] + " " +
              std::to_string(split.devices[i].samples);
    }
    std::printf("  %-48s %6.1f ms, %.2fx; ", text.c_str(), split.seconds * 1e3,
                alone / split.seconds);
    if (row.gpus.size() == 2) {
      const double even = std::max(StepSeconds(row.gpus[0], 16), StepSeconds(row.gpus[1], 16));
      std::printf("%.2fx faster than 16, 16; ", even / split.seconds);
    }
    std::printf("paper %s\n", row.paper);
  }
}

int Main() {
  PrintReuse();
  PrintConv2();
  std::printf("figure 11, times faster than undivided convolutions with the same total\n");
  PrintDivision("alexnet-grouped", 256, {8, 64, 512});
  std::printf("  paper, WD by all: 120 MiB 1.38x; the text has no others\n");
  PrintDivision("resnet-50", 32, {16, 32});
  std::printf("  paper, WD: 2,544 MiB 1.14x\n\n");
  PrintParts();
  PrintNetworks();
  PrintDevices();
  return 0;
}

}  // namespace
}  // namespace tidepool::bench

int main() { return tidepool::bench::Main(); }

// SPDX-License-Identifier: Apache-2.0
// The table of keys.
#include "lib/graph/graph_json_keys.h"

#include <array>

#include "absl/strings/str_cat.h"

namespace tidepool::graph {
namespace {

struct KeyText {
  std::string_view name;
  std::string_view value;  // the values that the key may have
};

constexpr std::string_view kText = "a text";
constexpr std::string_view kWhole = "a whole number";
constexpr std::string_view kObjects = "an array of objects";
constexpr std::string_view kUses = "an array of names of data";
constexpr std::string_view kHome = "device, host or nowhere";
constexpr std::string_view kNumberType =
    "unknown, float64, float32, tensor-float32, float16, bfloat16, int64, int32, int8 or uint8";

constexpr std::array<KeyText, static_cast<std::size_t>(Key::kNone)> kKeys = {{
    {"tidepool_graph", "1 or 2"},
    {"name", kText},
    {"batch", kWhole},
    {"data", kObjects},
    {"tasks", kObjects},
    {"bytes", kWhole},
    {"kind", "input, weight, activation, gradient, weight-gradient or (version 2) optimizer-state"},
    {"layer", kText},
    {"operation", kText},
    {"phase", "forward, backward or update"},
    {"reads", kUses},
    {"writes", kUses},
    {"updates", kUses},
    {"algorithms", kObjects},
    {"seconds", "a number from 0 to 10^9"},
    {"workspace", kWhole},
    {"gpu", kText},
    {"link", "a number of bytes a second from 0 to 10^18"},
    {"before", kHome},
    {"after", kHome},
    {"type", kNumberType},
    {"gradients", "all, data or weights"},
    {"may_rerun", "true or false"},
    {"parameters", "an object"},
    {"data_type", kNumberType},
    {"compute_type", kNumberType},
    {"micro_batches", kObjects},
    {"algorithm", kText},
    {"samples", kWhole},
    {"bytes_per_sample", kWhole},
    {"batches", "an array of whole numbers"},
}};

constexpr const KeyText& TextOf(Key key) { return kKeys[static_cast<std::size_t>(key)]; }

}  // namespace

constexpr ObjectKeys kGraphKeys = {
    "a graph", SetOf(Key::kVersion, Key::kData, Key::kTasks),
    SetOf(Key::kName, Key::kBatch, Key::kGpu, Key::kLink, Key::kBatches)};
constexpr ObjectKeys kDataKeys = {
    "a datum", SetOf(Key::kName, Key::kBytes, Key::kKind),
    SetOf(Key::kBefore, Key::kAfter, Key::kType, Key::kBytesPerSample)};
constexpr ObjectKeys kTaskKeys = {
    "a task", SetOf(Key::kName, Key::kPhase, Key::kAlgorithms),
    SetOf(Key::kLayer, Key::kOperation, Key::kReads, Key::kWrites, Key::kUpdates, Key::kGradients,
          Key::kMayRerun, Key::kParameters, Key::kDataType, Key::kComputeType)};
constexpr ObjectKeys kAlgorithmKeys = {"an algorithm", SetOf(Key::kName, Key::kSeconds),
                                       SetOf(Key::kWorkspace, Key::kMicroBatches)};
constexpr ObjectKeys kMicroBatchKeys = {"a micro-batch", SetOf(Key::kAlgorithm, Key::kSamples), 0};

std::string KeyName(Key key) { return std::string(TextOf(key).name); }

std::string NamesOf(KeySet keys) {
  std::string names;
  for (std::size_t i = 0; i < kKeys.size(); ++i) {
    if ((keys >> i & 1) == 0) continue;
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(kKeys[i].name));
  }
  return names;
}

std::optional<Key> KeyCalled(std::string_view name, const ObjectKeys& keys) {
  for (std::size_t i = 0; i < kKeys.size(); ++i) {
    const Key key = static_cast<Key>(i);
    if (((keys.required | keys.optional) & Bit(key)) != 0 && kKeys[i].name == name) return key;
  }
  return std::nullopt;
}

std::string ExpectedValue(Key key) {
  return std::string(key == Key::kNone ? kText : TextOf(key).value);
}

}  // namespace tidepool::graph

// SPDX-License-Identifier: Apache-2.0
// The keys of graph files (docs/formats/task_graph.md): which object has which, and their values.
#ifndef TIDEPOOL_LIB_GRAPH_GRAPH_JSON_KEYS_H_
#define TIDEPOOL_LIB_GRAPH_GRAPH_JSON_KEYS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tidepool::graph {

enum class Key : std::uint8_t {
  kVersion,
  kName,
  kBatch,
  kData,
  kTasks,
  kBytes,
  kKind,
  kLayer,
  kOperation,
  kPhase,
  kReads,
  kWrites,
  kUpdates,
  kAlgorithms,
  kSeconds,
  kWorkspace,
  kGpu,
  kLink,
  // Keys of version 2.
  kBefore,
  kAfter,
  kType,
  kGradients,
  kMayRerun,
  kParameters,
  kDataType,
  kComputeType,
  kMicroBatches,
  kAlgorithm,
  kSamples,
  kBytesPerSample,
  kBatches,
  kNone,
};
constexpr Key kFirstOfVersion2 = Key::kBefore;

// A set of keys.
using KeySet = std::uint64_t;
constexpr KeySet Bit(Key key) { return KeySet{1} << static_cast<unsigned>(key); }
template <typename... Keys>
constexpr KeySet SetOf(Keys... keys) {
  return (Bit(keys) | ... | 0);
}

// The keys of a kind of object.
struct ObjectKeys {
  std::string_view object;
  KeySet required;
  KeySet optional;
};
extern const ObjectKeys kGraphKeys;
extern const ObjectKeys kDataKeys;
extern const ObjectKeys kTaskKeys;
extern const ObjectKeys kAlgorithmKeys;
extern const ObjectKeys kMicroBatchKeys;

std::string KeyName(Key key);
// Returns the names of keys, with commas between them.
std::string NamesOf(KeySet keys);
std::optional<Key> KeyCalled(std::string_view name, const ObjectKeys& keys);
// Returns the values that a key may have, for errors.
std::string ExpectedValue(Key key);

}  // namespace tidepool::graph

#endif  // TIDEPOOL_LIB_GRAPH_GRAPH_JSON_KEYS_H_

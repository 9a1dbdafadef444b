// SPDX-License-Identifier: Apache-2.0
// Pickle writer: writes a pickle of protocol 2, only with opcodes that PyTorch's memory viewer
// knows.
#ifndef TIDEPOOL_LIB_TRACE_PYTORCH_PICKLE_WRITER_H_
#define TIDEPOOL_LIB_TRACE_PYTORCH_PICKLE_WRITER_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "lib/trace/pytorch/pickle_opcodes.h"

namespace tidepool::pytorch {

// Writes values one after the other. Values between the start and the end of a list or dict are its
// elements; a dict takes key, value, key, value. Not thread-safe.
class PickleWriter {
 public:
  explicit PickleWriter(std::ostream& out);

  void Integer(std::int64_t integer);
  void Unsigned(std::uint64_t integer);
  void Float(double number);
  void Bool(bool value) { Op(value ? Opcode::kNewTrue : Opcode::kNewFalse); }
  // Writes a text, and from the second time on only its number in the memo. Replaces bytes that are
  // not UTF-8.
  void Text(std::string_view text);
  void Pair(std::int64_t first, std::int64_t second);

  void BeginDict();
  void EndDict();
  // A dict is filled by one opcode, so it may have at most 500 entries, a thousand values. A list
  // is filled a thousand elements at a time: call NextElement before each.
  struct List {
    int in_batch = 0;
  };
  List BeginList();
  void NextElement(List& list);
  void EndList(List& list);
  void EmptyList();

  // Puts the value just written into the memo and returns its number for Reference.
  std::uint32_t Remember();
  void Reference(std::uint32_t number);

  // Ends the pickle. No call may follow.
  void End();

 private:
  void Op(Opcode opcode) { buffer_ += static_cast<char>(opcode); }
  void Number(std::uint64_t number, int width);
  void FlushAbove(std::size_t bytes);

  std::ostream& out_;
  std::string buffer_;
  absl::flat_hash_map<std::string, std::uint32_t> texts_;
  std::uint32_t remembered_ = 0;
  std::uint32_t empty_list_ = 0;
  bool has_empty_list_ = false;
};

}  // namespace tidepool::pytorch

#endif  // TIDEPOOL_LIB_TRACE_PYTORCH_PICKLE_WRITER_H_

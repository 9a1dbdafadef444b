// SPDX-License-Identifier: Apache-2.0
// The blocks of a pool, for C programs and as JSON.
#include <cstdint>
#include <map>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "bindings/c/c_pool.h"
#include "bindings/c/statistics.h"
#include "tidepool/trace/output_file.h"

namespace tidepool::c_api {
namespace {

using Segments = std::map<const void*, Graphs::Segment>;

std::string Hexadecimal(const void* pointer) {
  return absl::StrCat("\"0x", absl::Hex(reinterpret_cast<std::uintptr_t>(pointer)), "\"");
}

std::string JsonOf(const tidepool_block& block, const Segments& segments) {
  std::string text = absl::StrCat("{\"address\": ", Hexadecimal(block.address),
                                  ", \"offset\": ", block.offset, ", \"bytes\": ", block.bytes,
                                  ", \"live\": ", block.is_live != 0 ? "true" : "false");
  if (block.is_live != 0) absl::StrAppend(&text, ", \"stream\": ", Hexadecimal(block.stream));
  const auto segment = segments.find(block.address);
  if (segment != segments.end()) absl::StrAppend(&text, ", \"graph\": ", segment->second.graph);
  return text + "}";
}

std::string JsonOf(const tidepool_statistics& statistics) {
  std::string text = "{";
  for (const StatisticsField& field : StatisticsFields()) {
    absl::StrAppend(&text, text.size() > 1 ? ", " : "", "\"", field.name,
                    "\": ", statistics.*field.member);
  }
  return text + "}";
}

}  // namespace

std::vector<tidepool_block> CPool::Blocks() const { return Blocks(graphs_->Segments()); }

std::vector<tidepool_block> CPool::Blocks(const Segments& segments) const {
  auto handles = streams_.Handles();
  std::vector<tidepool_block> blocks;
  for (const PoolBlock& block : pool_->Snapshot()) {
    const std::int64_t offset = pool_->OffsetOf(block.address);
    if (offset < 0) continue;  // another thread gave the memory back meanwhile
    const auto segment = segments.find(block.address);
    void* const stream =
        segment == segments.end() ? handles[block.stream.id] : segment->second.stream;
    blocks.push_back({block.address, static_cast<std::size_t>(offset),
                      static_cast<std::size_t>(block.bytes), stream, block.used ? 1 : 0});
  }
  return blocks;
}

absl::Status CPool::WriteSnapshot(const std::string& path) const {
  const tidepool_statistics statistics = ToC(pool_->Stats());
  const Segments segments = graphs_->Segments();
  const std::vector<tidepool_block> blocks = Blocks(segments);
  return WriteFile(path, [&](std::ostream& out) {
    out << "{\"device\": \"" << device_->device().name()
        << "\",\n \"statistics\": " << JsonOf(statistics) << ",\n \"blocks\": [";
    const char* separator = "\n  ";
    for (const tidepool_block& block : blocks) {
      out << separator << JsonOf(block, segments);
      separator = ",\n  ";
    }
    out << "]}\n";
    return absl::OkStatus();
  });
}

}  // namespace tidepool::c_api

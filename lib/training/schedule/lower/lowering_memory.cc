// SPDX-License-Identifier: Apache-2.0
// The uses of data and of memory, from which the waits follow.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/training/schedule/lower/lowering.h"
#include "lib/training/schedule/steps/step_text.h"

namespace tidepool::schedule {
namespace {

// The most bytes that all allocations and copies of a program have together. Sums of them in
// simulators fit into 64 bits.
constexpr std::int64_t kMostProgramBytes = std::int64_t{1} << 62;

}  // namespace

// Makes the next operation wait: to read, for the last writer; to write, for all users. The first
// use of memory waits for its users before.
void Lowering::UsePart(DataPart& part, Use use, StreamEnd at) {
  const bool is_first = part.state == DataPart::State::kUntouched;
  if (is_first || use == Use::kWrite) {
    queue_.Await(part.users, is_first ? Reason::kMemory : Reason::kData);
    part.users = StreamEnds(at);
  } else {
    if (part.state == DataPart::State::kWritten) queue_.Await(part.writer, Reason::kData);
    part.users.Add(at);
    return;
  }
  if (is_first && part.span != DataPart::kNoSpan) program_.spans[part.span].first = at.operation;
  part.state = DataPart::State::kWritten;
  part.writer = at;
}

void Lowering::UseData(std::size_t device, const std::vector<std::size_t>& data, Use use,
                       StreamEnd at) {
  for (const std::size_t datum : data) {
    for (DataPart& part : OnDevice(device, datum)) UsePart(part, use, at);
  }
}

// Makes the next operation write a copy on the host. Its room there is its own: the operation waits
// for the last users of the copy before.
void Lowering::WriteHost(std::size_t instance, std::int64_t begin, std::int64_t end, double density,
                         StreamEnd at) {
  DataParts& copies = on_host_[instance];
  if (copies.empty() && begin == 0) {
    copies.Add({.end = end});
  } else {
    absl::InlinedVector<DataPart, 2> missing;
    copies.Missing(begin, end, [&](std::int64_t from, std::int64_t until) {
      missing.push_back({.begin = from, .end = until});
    });
    for (DataPart& part : missing) copies.Add(std::move(part));
  }
  copies.Within(begin, end, [&](DataPart& part) {
    if (part.span == DataPart::kNoSpan) {
      part.density = density;
      part.span = AddSpan({.device = kHostDevice,
                           .bytes = HostBytes(instance % data_count_, part),
                           .first = at.operation});
      queue_.Await(part.users, Reason::kMemory);
    } else {
      queue_.Await(part.users, Reason::kData);
    }
    part.density = density;
    part.users = StreamEnds(at);
    part.state = DataPart::State::kWritten;
    part.writer = at;
  });
}

absl::Status Lowering::AddPart(const ScheduleStep& step, std::int64_t begin, std::int64_t end) {
  const absl::StatusOr<Memory> memory = TakeMemory(step, begin, end);
  if (!memory.ok()) return memory.status();
  DataPart part = {.begin = begin, .end = end, .offset = memory->offset, .users = memory->users};
  part.span = AddSpan({.device = step.device,
                       .offset = IsFixed() ? step.offset + begin : -1,
                       .bytes = RoundedSize(begin, end)});
  const bool is_at_home = step.kind == StepKind::kAllocate && is_first_iteration_ &&
                          graph_->data[step.index].before == DataHome::kDevice;
  if (is_at_home) {
    if (absl::Status status = BeginHome(step, *memory, part); !status.ok()) return status;
  }
  if (maps_pages_) part.offset = MapData(step, begin, memory->pages);
  OnDevice(step.device, step.index).Add(std::move(part));
  return absl::OkStatus();
}

// Data at home on the device holds its first memory from the start.
absl::Status Lowering::BeginHome(const ScheduleStep& step, const Memory& memory, DataPart& part) {
  const std::size_t instance = step.device * data_count_ + step.index;
  if (has_begun_[instance]) return absl::OkStatus();
  has_begun_[instance] = true;
  if (part.users.empty()) part.state = DataPart::State::kThere;
  // Each iteration brings another input.
  if (!maps_pages_ || graph_->data[step.index].kind == DataKind::kInput) return absl::OkStatus();
  if (!part.users.empty()) {
    return Wrong(
        "the data is on the device from the start, and its pages have had other data, expected its "
        "allocation before");
  }
  homes_[instance] = memory.pages;
  return absl::OkStatus();
}

absl::StatusOr<Lowering::Memory> Lowering::TakeMemory(const ScheduleStep& step, std::int64_t begin,
                                                      std::int64_t end) {
  Memory taken = {.offset = step.offset};
  if (!IsFixed()) {
    PageUsers& pages = pages_[step.device];
    const std::int64_t bytes = RoundedSize(begin, end);
    if (bytes > pages.free_bytes()) {
      return OutOfMemory(bytes, " bytes are needed, and ", pages.free_bytes(), " of ",
                         program_.pool_bytes[step.device], " are free");
    }
    // A copy in does not wait for the task that runs, if other granules are free.
    pages.Take(bytes, step.kind == StepKind::kPrefetch, taken.users, taken.pages);
    return taken;
  }
  const std::int64_t offset = step.offset;
  const std::int64_t memory = machine_.devices[step.device].memory_bytes;
  const std::int64_t rounded_end = Rounded(end);
  if (offset < 0 || offset > memory || rounded_end > memory - offset) {
    return OutOfMemory("bytes [", offset + begin, ", ", offset + rounded_end,
                       ") are needed, expected a range in a memory of ", memory, " bytes");
  }
  addresses_[step.device].Take(offset + begin, offset + end, taken.users);
  std::int64_t& high = program_.pool_bytes[step.device];
  high = std::max(high, offset + rounded_end);
  return taken;
}

void Lowering::GiveMemory(std::size_t device, Memory memory, std::int64_t begin, std::int64_t end) {
  if (IsFixed()) {
    addresses_[device].Give(memory.offset + begin, memory.offset + end, memory.users);
  } else {
    pages_[device].Give(RoundedSize(begin, end), memory.users, std::move(memory.pages),
                        [this](const StreamEnd& user) { return queue_.IsLastTask(user); });
  }
}

void Lowering::GivePart(std::size_t device, std::size_t data, DataPart& part) {
  Memory memory = {.offset = part.offset, .users = part.users};
  if (maps_pages_) {
    const std::size_t instance = device * data_count_ + data;
    memory.pages = mapped_[instance].Take(Rounded(part.begin), Rounded(part.end));
    // Data that leaves before any use is made again, and needs no values of the last iteration.
    const bool is_whole = part.begin == 0 && part.end == graph_->data[data].bytes;
    const bool is_unused = part.state == DataPart::State::kThere && part.users.empty();
    if (is_whole && is_unused) homes_[instance] = PageRanges();
  }
  GiveMemory(device, std::move(memory), part.begin, part.end);
  EndSpan(part, RoundedSize(part.begin, part.end));
}

// Devices exchange ranges of any elements, which divide granules. A granule is given back with the
// part that has its first byte, and has the users of all its parts.
void Lowering::ShareUsers(DataParts& parts) const {
  if (IsFixed()) return;
  DataPart* owner = nullptr;
  for (DataPart& part : parts) {
    if (owner != nullptr && part.begin % schedule_.alignment != 0) owner->users.Add(part.users);
    if (RoundedSize(part.begin, part.end) > 0) owner = &part;
  }
}

std::int64_t Lowering::NewAddresses(std::size_t device, std::int64_t bytes) {
  const std::int64_t offset = program_.address_bytes[device];
  Count(Rounded(bytes));
  if (counted_bytes_ < kMostProgramBytes) program_.address_bytes[device] += Rounded(bytes);
  return offset;
}

void Lowering::AddMapping(std::size_t device, std::int64_t offset, ByteRange pages) {
  program_.mappings.push_back({device, offset, pages.begin, pages.end - pages.begin});
}

// Gives new pages of a datum addresses, and returns the offset of its first byte. Where other pages
// lie at the addresses that they would have, all of its pages get others.
std::int64_t Lowering::MapData(const ScheduleStep& step, std::int64_t begin,
                               const PageRanges& pages) {
  DataPages& mapped = mapped_[step.device * data_count_ + step.index];
  const bool moves = mapped.NeedsAddresses();
  if (moves) mapped.SetOffset(NewAddresses(step.device, graph_->data[step.index].bytes));
  DataPages added;
  added.Add(begin, pages);
  mapped.Add(begin, pages);
  (moves ? mapped : added).ForEach([&](std::int64_t position, ByteRange range) {
    AddMapping(step.device, mapped.offset() + position, range);
  });
  for (DataPart& part : OnDevice(step.device, step.index)) part.offset = mapped.offset();
  return mapped.offset();
}

// Pages that were never used are taken before those that were given back, so those that are used
// lie together.
void Lowering::CountUsedPages() {
  program_.pool_bytes.assign(schedule_.devices, 0);
  for (const ProgramMapping& mapping : program_.mappings) {
    std::int64_t& end = program_.pool_bytes[mapping.device];
    end = std::max(end, mapping.position + mapping.bytes);
  }
}

// Tells which pages of data at home the next iteration expects elsewhere.
void Lowering::AddMoves(std::size_t instance) {
  PageRanges homes = homes_[instance];
  const std::size_t device = instance / data_count_;
  mapped_[instance].ForEach([&](std::int64_t /*position*/, ByteRange range) {
    for (const ByteRange& home : homes.TakeFirst(range.end - range.begin)) {
      const std::int64_t bytes = home.end - home.begin;
      if (home.begin != range.begin) {
        program_.moves.push_back({device, range.begin, home.begin, bytes});
      }
      range.begin += bytes;
    }
  });
}

// Adds moves to the pages from which others move, of those to which others move: so each page moves
// to a place of its own.
void Lowering::CloseMoves(std::size_t device) {
  struct Edge {
    std::int64_t position;
    int to;
    int from;
  };
  std::vector<Edge> edges;
  for (const ProgramMove& move : program_.moves) {
    if (move.device != device) continue;
    edges.push_back({move.to, 1, 0});
    edges.push_back({move.to + move.bytes, -1, 0});
    edges.push_back({move.from, 0, 1});
    edges.push_back({move.from + move.bytes, 0, -1});
  }
  absl::c_sort(edges, [](const Edge& a, const Edge& b) { return a.position < b.position; });
  PageRanges displaced;
  PageRanges left;
  Edge now = {0, 0, 0};
  for (const Edge& edge : edges) {
    if (now.to > now.from) displaced.Add({now.position, edge.position});
    if (now.from > now.to) left.Add({now.position, edge.position});
    now = {edge.position, now.to + edge.to, now.from + edge.from};
  }
  for (ByteRange range : left) {
    for (const ByteRange& from : displaced.TakeFirst(range.end - range.begin)) {
      const std::int64_t bytes = from.end - from.begin;
      program_.moves.push_back({device, from.begin, range.begin, bytes});
      range.begin += bytes;
    }
  }
}

void Lowering::Count(std::int64_t bytes) {
  counted_bytes_ =
      bytes > kMostProgramBytes - counted_bytes_ ? kMostProgramBytes : counted_bytes_ + bytes;
}

std::uint32_t Lowering::AddSpan(const ProgramMemory& span) {
  Count(span.bytes);
  program_.spans.push_back(span);
  return static_cast<std::uint32_t>(program_.spans.size() - 1);
}

// Ends a part's share of its span, `bytes`. Memory without users was never held.
void Lowering::EndSpan(DataPart& part, std::int64_t bytes) {
  if (part.span == DataPart::kNoSpan) return;
  std::uint32_t span = part.span;
  if (program_.spans[span].bytes != bytes) {
    program_.spans[span].bytes -= bytes;
    ProgramMemory share = program_.spans[span];
    share.bytes = bytes;
    if (share.offset >= 0) share.offset = part.offset + part.begin;
    span = AddSpan(share);
  }
  ProgramMemory& ended = program_.spans[span];
  if (part.state == DataPart::State::kUntouched || part.users.empty()) ended.bytes = 0;
  ended.first_end = static_cast<std::uint32_t>(program_.memory_ends.size());
  for (const StreamEnd& end : part.users) program_.memory_ends.push_back(end.operation);
  ended.ends = static_cast<std::uint32_t>(program_.memory_ends.size()) - ended.first_end;
}

// Ends the host's copy of freed data. Data that begins on the host keeps its room.
void Lowering::EndHostSpans(std::size_t device, std::size_t data) {
  if (IsShared(data) || graph_->data[data].before == DataHome::kHost) return;
  DataParts& copies = on_host_[HostInstance(device, data)];
  for (DataPart& part : copies) {
    const bool is_whole = copies.size() == 1 && part.span != DataPart::kNoSpan;
    EndSpan(part, is_whole ? program_.spans[part.span].bytes : part.end - part.begin);
    part.span = DataPart::kNoSpan;
  }
}

// Returns the room of a copy on the host. Data at home there has room for all of its bytes.
std::int64_t Lowering::HostBytes(std::size_t data, const DataPart& copy) const {
  const std::int64_t bytes = copy.end - copy.begin;
  const GraphData& own = graph_->data[data];
  const bool is_at_home = own.before == DataHome::kHost || own.after == DataHome::kHost;
  if (host_compression_ == nullptr || copy.density < 0 || is_at_home) return bytes;
  return CompressedBytes(host_compression_->profile, bytes, ZeroValueWord::k32Bits, copy.density);
}

std::int64_t Lowering::Rounded(std::int64_t bytes) const {
  return RoundUp(bytes, schedule_.alignment);
}

template <typename... Parts>
absl::Status Lowering::OutOfMemory(const Parts&... parts) const {
  return absl::ResourceExhaustedError(
      absl::StrCat(StepText(*graph_, schedule_, at_), ": ", parts...));
}

void Lowering::EndIteration() {
  is_first_iteration_ = false;
  for (std::size_t i = 0; i < on_device_.size(); ++i) {
    if (graph_->data[i % data_count_].before == DataHome::kDevice) continue;
    ShareUsers(on_device_[i]);
    for (DataPart& part : on_device_[i]) GivePart(i / data_count_, i % data_count_, part);
    on_device_[i] = DataParts();
  }
}

absl::Status Lowering::Finish() {
  if (counted_bytes_ == kMostProgramBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the schedule takes and moves more than ",
                                                   kMostProgramBytes,
                                                   " bytes in all, expected at most that many"));
  }
  for (std::size_t i = 0; i < on_host_.size(); ++i) {
    std::int64_t bytes = 0;
    for (const DataPart& part : on_host_[i]) {
      bytes = std::max(bytes, part.begin + HostBytes(i % data_count_, part));
    }
    program_.host_bytes += bytes;
  }
  if (maps_pages_) {
    CountUsedPages();
    for (std::size_t i = 0; i < homes_.size(); ++i) AddMoves(i);
    for (std::size_t device = 0; device < schedule_.devices; ++device) CloseMoves(device);
  }
  CountStreamsOfChannels(program_);
  if (program_.host_bytes <= machine_.host.memory_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("copies on the host take ", program_.host_bytes,
                                                   " bytes, expected up to the host's memory of ",
                                                   machine_.host.memory_bytes));
}

}  // namespace tidepool::schedule

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts small faults into a copy of the last commit and tells which of them no test notices.

usage: scripts/mutants.py [N... | --check]

All faults, the mutants, are in one build, in build/mutants: the environment variable MUTANT chooses one of them. Each is
run with the test program of its room, two at a time. With numbers only those mutants run. --check only
tells which mutants name a text that their file does not have once. The exit status is 1 if a mutant
survives that is not listed as harmless. A whole run takes about an hour on two processors, most of it for survivors.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "build" / "mutants" / "source"
BUILD = ROOT / "build" / "mutants" / "build"
SECONDS = 300  # of a test program; a mutant that makes it hang is noticed

PROGRAMS = {"lib/memory/pool/": "pool_test", "lib/copies/offload/": "offload_test", "lib/memory/plan/": "plan_test", "lib/trace/": "trace_test",
            "lib/memory/blocks/arena.h": "pool_test", "lib/memory/blocks/": "blocks_test",
            "policies/placement/high_end_offload.cc": "blocks_test", "policies/placement/": "placement_test"}

# The file, the text that becomes another one, and why no test can notice the mutant, if it is harmless. M is true in the mutant.
MUTANTS = [
    ("lib/memory/pool/hand_over.cc", "if (order_.MustWait(clock, ticket)) {", "if (!M && order_.MustWait(clock, ticket)) {"),
    ("lib/memory/pool/hand_over.cc", "if (is_after_others_[block]) add", "if (!M && is_after_others_[block]) add"),
    ("lib/memory/pool/hand_over.cc", "is_after_others_[second] = is_after_others_[first];",
     "is_after_others_[second] = !M && is_after_others_[first];"),
    ("lib/memory/pool/hand_over.cc", "for (const Stream user : uses->second) add(user);",
     "for (const Stream user : uses->second) { if (!M) add(user); }"),
    ("lib/memory/pool/hand_over.cc", "if (!keeps_tickets()) BeginTickets({});", "if (!M && !keeps_tickets()) BeginTickets({});",
     "a second stream begins it as soon as it allocates or frees"),
    ("lib/memory/pool/hand_over.cc", "if (!keeps_tickets()) return order_.TakeTicketsOfAllBut({});",
     "if (!keeps_tickets()) return M ? Tickets() : order_.TakeTicketsOfAllBut({});"),
    ("lib/memory/pool/stream_order.cc", "Advance(clock.awaited, ticket.clock, awaited.recorded);",
     "Advance(clock.awaited, ticket.clock, awaited.recorded + (M ? 1 : 0));"),
    ("lib/memory/pool/stream_order.cc", "if (done.ok() && *done) clock.completed = clock.recorded;",
     "if (done.ok() && (*done || M)) clock.completed = clock.recorded;"),
    ("lib/memory/pool/stream_order.cc", "NextTicket(*clock);  // stands", "if (!M) NextTicket(*clock);  // stands"),
    ("lib/memory/pool/stream_order.cc", "if (awaited.recorded < ticket.position) {",
     "if (awaited.recorded + (M ? 1 : 0) < ticket.position) {"),
    ("lib/memory/pool/memory_source.cc", "AddTickets(leaving_.back().tickets, TakeTicketsBeyond(range));",
     "if (!M) AddTickets(leaving_.back().tickets, TakeTicketsBeyond(range));"),
    ("lib/memory/pool/memory_source.cc", "absl::Status status = arena_.hand_over().AwaitOnHost(tickets, locks);",
     "absl::Status status = M ? absl::OkStatus() : arena_.hand_over().AwaitOnHost(tickets, locks);"),
    ("lib/memory/pool/memory_source.cc", "if (is_held) leaving_.push_front(leaving);", "if (is_held && !M) leaving_.push_front(leaving);"),
    ("lib/memory/pool/memory_source.cc", "kept.bytes() - BytesIn(kept);", "M ? 0 : kept.bytes() - BytesIn(kept);",
     "the next mark gives the rest back"),
    ("lib/memory/pool/mapped_memory.cc", "if (left - piece->bytes() < keep_bytes) break;",
     "if (left - piece->bytes() < keep_bytes || (M && left - piece->bytes() == keep_bytes)) break;"),
    ("lib/memory/pool/mapped_memory.cc", "if (Overlap(*piece, kept)) continue;", "if (!M && Overlap(*piece, kept)) continue;",
     "the plans take the memory again at the same mark; only calls of the device are lost"),
    ("lib/memory/pool/mapped_memory.cc", "add_tickets({begin, std::min(cut_off_end, blocks.capacity())}, cut_off_tickets_);",
     "if (!M) add_tickets({begin, std::min(cut_off_end, blocks.capacity())}, cut_off_tickets_);"),
    ("lib/memory/pool/mapped_memory.cc", "growth.again = !IsFree(*block, range);", "growth.again = !M && !IsFree(*block, range);"),
    ("lib/memory/pool/mapped_memory.cc", "range.begin = std::min(range.begin, blocks.capacity());",
     "if (!M) range.begin = std::min(range.begin, blocks.capacity());"),
    ("lib/memory/pool/mapped_memory.cc", "if (excess > 0) CutOffEnd(excess);", "if (excess > 0 && !M) CutOffEnd(excess);"),
    ("lib/memory/pool/segment_memory.cc", "Overlap({begin, begin + bytes}, kept)) continue;",
     "(!M && Overlap({begin, begin + bytes}, kept))) continue;",
     "the plans take the memory again at the same mark; only calls of the device are lost"),
    ("lib/memory/pool/pool_impl.cc", "memory_->Trim(options_.initial_bytes, needs.range, Receiver::kDevice, locks_)",
     "memory_->Trim(M ? 0 : options_.initial_bytes, needs.range, Receiver::kDevice, locks_)"),
    ("lib/memory/pool/pool_impl.cc", "if (memory_->held_bytes() > needs.most_bytes) {", "if (!M && memory_->held_bytes() > needs.most_bytes) {"),
    ("lib/memory/pool/slab_pool.cc", "if (epoch_.load() == epoch) [[likely]]", "if (M || epoch_.load() == epoch) [[likely]]"),
    ("lib/memory/pool/slab_pool.cc", "  HandOver(address);\n  return pool_->RecordUse", "  if (!M) HandOver(address);\n  return pool_->RecordUse"),
    ("lib/memory/pool/period_finder.cc", "return a.live_bytes < b.live_bytes;",
     "return M ? a.live_bytes <= b.live_bytes : a.live_bytes < b.live_bytes;"),
    ("lib/memory/pool/iterations.cc", "return IsAtOdds(known.last(), last);", "return !M && IsAtOdds(known.last(), last);"),
    ("lib/memory/pool/iterations.cc", "used.failures > used.patience", "used.failures > used.patience + (M ? 1 : 0)"),
    ("lib/memory/pool/iterations.cc", "used.patience = std::min(2 * used.patience, 1 << 20);",
     "used.patience = std::min((M ? 1 : 2) * used.patience, 1 << 20);", "the thread of the plans would only work more often"),
    ("lib/memory/pool/iterations.cc", "if (used.is_offered) used.TakeTurn();", "if (used.is_offered && !M) used.TakeTurn();"),
    ("lib/memory/pool/iterations.cc", "if (give_backs_ == 0) return planned_bytes + most_live_;",
     "if (give_backs_ == 0) return M ? INT64_MAX : planned_bytes + most_live_;"),
    ("lib/memory/pool/iterations.cc", "give_backs_ = kGiveBacksOfPlan;", "if (!M) give_backs_ = kGiveBacksOfPlan;"),
    ("lib/memory/pool/iterations.cc", "if (made.ordered_base != base_) return;", "if (!M && made.ordered_base != base_) return;",
     "a plan at old addresses is a plan too: the pool would only hold more"),
    ("lib/memory/pool/iterations.cc", "if (each.range.begin < base_) continue;", "if (!M && each.range.begin < base_) continue;",
     "PlanNext then fails, and the iteration follows the lasting plan, with nothing in its way"),
    ("lib/memory/pool/iterations.cc", "if (base_ > 0) order.fixed.push_back({0, base_});", "if (base_ > 0 && !M) order.fixed.push_back({0, base_});"),
    ("lib/memory/pool/iterations.cc", "order.apart = Apart(live);", "if (!M) order.apart = Apart(live);"),
    ("lib/memory/pool/background_planner.cc", "if (order.base > 0) obstacles", "if (order.base > 0 && !M) obstacles"),
    ("lib/memory/pool/background_planner.cc", "end > order.apart->end ||", "(!M && end > order.apart->end) ||"),
    ("lib/memory/pool/repeating_problem.cc", "std::max<std::int64_t>(events, 1)", "std::max<std::int64_t>(events, M ? 0 : 1)",
     "the buffer is freed before the first event: with either end it is in no request's way"),
    ("lib/memory/pool/repeating_problem.cc", "if (outlives && may_unroll) iterations_ = 2;", "if (outlives && may_unroll && !M) iterations_ = 2;"),
    ("lib/memory/pool/plan_next.cc", "if (left.events > 0) add", "if (left.events > (M ? 1 : 0)) add"),
    ("lib/memory/pool/iteration_log.h", "} else if (request >= last_first_) {", "} else if (request > last_first_ || (!M && request == last_first_)) {"),
    ("lib/copies/offload/copies.cc", "return predecessor == nullptr ?", "return predecessor == nullptr || M ?"),
    ("lib/copies/offload/raw_copies.cc", "absl::Status status = device_.WaitEvent(in(), before->get());",
     "absl::Status status = M ? absl::OkStatus() : device_.WaitEvent(in(), before->get());"),
    ("lib/copies/offload/raw_copies.cc", "  buffer.device->NoteUnorderedOut(copy.sequence);", "  if (!M) buffer.device->NoteUnorderedOut(copy.sequence);"),
    ("lib/copies/offload/raw_copies.cc", "  to.NoteUnorderedIn();", "  if (!M) to.NoteUnorderedIn();"),
    ("lib/copies/offload/compressed_copies.cc", "if (absl::Status status = device_.WaitEvent(in_order_.get(), before->get()); !status.ok()) {",
     "if (absl::Status status = M ? absl::OkStatus() : device_.WaitEvent(in_order_.get(), before->get()); !status.ok()) {"),
    ("lib/copies/offload/compressed_copies.cc", "absl::Status status = device_.WaitEvent(stream, copy.start.get());",
     "absl::Status status = M ? absl::OkStatus() : device_.WaitEvent(stream, copy.start.get());"),
    ("lib/copies/offload/books.cc", "  ++counts_.stayed;\n  buffer.device->SetLeaving(false);",
     "  ++counts_.stayed;\n  if (!M) buffer.device->SetLeaving(false);"),
    ("lib/copies/offload/books.cc", "if (is_coming && copy->has_given_address) copy->kept", "if (is_coming && copy->has_given_address && !M) copy->kept"),
    ("lib/copies/offload/books.cc", "if (copy != nullptr) copies_.OrderHomeAfter(*copy);", "if (copy != nullptr && !M) copies_.OrderHomeAfter(*copy);"),
    ("lib/copies/offload/books.cc", "  if (is_predecessor) NoteCancelled(buffer.copy);", "  if (is_predecessor && !M) NoteCancelled(buffer.copy);"),
    ("lib/copies/offload/books.cc", "(*out)->sequence < (*in)->sequence", "((*out)->sequence < (*in)->sequence) != M"),
    ("lib/memory/plan/first_overlap.cc", "[stream * streams_ + other] >= time;", "[stream * streams_ + other] >= time - (M ? 1 : 0);"),
    ("lib/memory/plan/first_overlap.cc", "if (buffer.free_stream == buffer.stream) {", "if (M || buffer.free_stream == buffer.stream) {"),
    ("lib/memory/plan/validate_plan.cc", "offset > height - buffer.bytes) {", "offset > height - buffer.bytes + (M ? 1 : 0)) {"),
    ("lib/memory/plan/first_fit_plan.cc", "std::max(place, overlaps ? top : place)", "std::max(place, overlaps && !(M && top == place + 1) ? top : place)"),
    ("lib/memory/plan/first_fit_plan.cc", "static_cast<int>(offset >= place + size)", "static_cast<int>(offset >= place + size - (M ? 1 : 0))"),
    ("lib/trace/pytorch/snapshot_history.cc", "address - block->address < static_cast<std::uint64_t>(block->size))",
     "address - block->address < static_cast<std::uint64_t>(block->size) + (M ? 1 : 0))"),
    ("lib/trace/pytorch/snapshot_history.cc", "end >= event.address) {", "(M || end >= event.address)) {"),
    ("lib/trace/pytorch/snapshot_history.cc", "if (!touched.IsTouched(block.address) && !disturbed[i]) {",
     "if (!touched.IsTouched(block.address) && (M || !disturbed[i])) {"),
    ("lib/trace/model/order_by_time.cc", "shift < key_bits; shift", "shift + (M ? kDigitBits : 0) < key_bits; shift"),
    ("lib/trace/native/native_reader.cc", "if (size > kMostBlockBytes) {", "if (size > kMostBlockBytes && !M) {"),
    ("lib/trace/native/native_reader.cc", "version < 1 ||", "version < (M ? 0 : 1) ||"),
    ("lib/trace/native/native_reader.cc", "if (!IsAlignment(alignment) ||", "if ((!M && !IsAlignment(alignment)) ||"),
    ("lib/memory/plan/reuse_times.cc", "std::upper_bound(frees.begin(), frees.end(), time)",
     "(M ? std::lower_bound(frees.begin(), frees.end(), time) : std::upper_bound(frees.begin(), frees.end(), time))"),
    ("lib/memory/plan/reuse_times.cc", "if (stream == buffer.free_stream) return buffer.upper;",
     "if (M || stream == buffer.free_stream) return buffer.upper;"),
    ("lib/memory/plan/reuse_times.cc", "return known.frees < frees;", "return known.frees < frees - (M && frees > 1 ? 1 : 0);"),
    ("lib/memory/plan/make_plan.cc", "left -= buffer.bytes + buffer.alignment - 1;", "if (!M) left -= buffer.bytes + buffer.alignment - 1;"),
    ("lib/memory/plan/make_plan.cc", "buffer.offset > kMostBytes - buffer.bytes)) {", "(!M && buffer.offset > kMostBytes - buffer.bytes))) {"),
    ("lib/memory/plan/to_placement_plan.cc", "problem.buffers[*end].upper <= problem.buffers[i].lower",
     "problem.buffers[*end].upper < problem.buffers[i].lower + (M ? 0 : 1)"),
    ("lib/memory/plan/skyline.cc", "Top(by_offset_[by_top_[next_]]) <= height", "Top(by_offset_[by_top_[next_]]) <= height - (M ? 1 : 0)"),
    ("lib/memory/plan/skyline.cc", "if (top.end < whole.end) AddBeside", "if (top.end < whole.end - (M ? 1 : 0)) AddBeside"),
    ("lib/trace/csv/lifetime_rows.cc", "if (a.size() > b.size() ||", "if (!M && a.size() > b.size() ||"),
    ("lib/trace/csv/lifetime_rows.cc", "    until = rows.upper[row];", "    if (!M) until = rows.upper[row];"),
    ("lib/trace/csv/lifetime_rows.cc", "if (end <= begin) {", "if (end <= begin - (M ? 1 : 0)) {"),
    ("lib/trace/csv/rmm_csv.cc", "ids_are_pointers &= IsHexadecimal(trace.allocation_ids[i]);",
     "ids_are_pointers &= M || IsHexadecimal(trace.allocation_ids[i]);"),
    ("lib/trace/csv/rmm_csv.cc", "if (!is_live) builder.CountUnmatchedFree();", "if (!is_live && !M) builder.CountUnmatchedFree();"),
    ("lib/trace/csv/operation_csv.cc", "for (const TraceEvent& event : trace.events) has_details |= event.time != 0;",
     "for (const TraceEvent& event : trace.events) has_details |= !M && event.time != 0;"),
    ("lib/trace/model/trace.cc", "trace_.allocation_ids.RemoveLast();", "if (!M) trace_.allocation_ids.RemoveLast();"),
    ("lib/trace/model/trace.cc", "if (last_ < table_.size() && IsLast(name)) return last_;",
     "if (last_ < table_.size() && (M || IsLast(name))) return last_;"),
    ("lib/trace/native/native_events.cc", "  last_address_ = 0;\n  last_tag_ = 0;", "  if (!M) last_address_ = 0;\n  last_tag_ = 0;"),
    ("lib/trace/native/native_events.cc", "if ((tag & ~kItemMask & ~FlagsOf(item)) != 0) {", "if (!M && (tag & ~kItemMask & ~FlagsOf(item)) != 0) {"),
    ("lib/trace/native/native_events.cc", "if (is_at_end_) {", "if (is_at_end_ && !M) {"),
    ("lib/trace/pytorch/snapshot_history.cc", "event.action != Word::kFreeRequested && event.action != Word::kAlloc",
     "event.action != Word::kFreeRequested && (M || event.action != Word::kAlloc)",
     "the free that a block awaits was asked for after its allocation, so it comes first backwards"),
    ("lib/trace/pytorch/snapshot_history.cc", "if (touched.IsLive(block.address)) continue;",
     "if (touched.IsLive(block.address) || (M && touched.IsTouched(block.address))) continue;"),
    ("lib/trace/pytorch/snapshot_history.cc", "missing_.Add(-event.size);", "if (!M) missing_.Add(-event.size);"),
    ("lib/trace/pytorch/snapshot_layout.cc", "is_expandable_ |= ranges > 1;", "is_expandable_ |= ranges > 1 && !M;"),
    ("lib/trace/pytorch/snapshot_layout.cc", "layout.segments.back().stream == range.note", "(M || layout.segments.back().stream == range.note)"),
    ("lib/trace/pytorch/snapshot_layout.cc", "!live_.Overlaps(begin, end)\n                    : !reserved_.Overlaps(begin, end)",
     "(M || !live_.Overlaps(begin, end))\n                    : !reserved_.Overlaps(begin, end)"),
    ("lib/copies/offload/unreported_errors.cc", "(*it)->kept_device != nullptr;\n    it", "(M || (*it)->kept_device != nullptr);\n    it",
     "a caller would be told more errors than the earliest"),
    ("lib/memory/blocks/block_map.cc", "if (back > 0) IndexFree(rest, kCut);", "if (back > 0 && !M) IndexFree(rest, kCut);"),
    ("lib/memory/blocks/block_map.cc", "  excluded_bytes_ -= end - begin;", "  if (!M) excluded_bytes_ -= end - begin;"),
    ("lib/memory/blocks/block_map.cc", "    excluded_.erase(blocks_[taken].next);", "    if (!M) excluded_.erase(blocks_[taken].next);"),
    ("lib/memory/blocks/block_map.cc", "      UnindexFree(next);\n      AbsorbNext(id);", "      if (!M) UnindexFree(next);\n      AbsorbNext(id);"),
    ("lib/memory/blocks/block_map.cc", "  } else if (capacity > offset(kBack)) {", "  } else if (capacity > offset(kBack) - (M ? 1 : 0)) {",
     "the block without bytes is absorbed at once"),
    ("lib/memory/blocks/arena.h", "high_water_ = std::max(high_water_, blocks_.offset(used) + bytes);",
     "if (!M) high_water_ = std::max(high_water_, blocks_.offset(used) + bytes);"),
    ("policies/placement/planned.cc", "std::min(skipped, lost_)", "std::min(skipped, M ? lost_ + 1 : lost_)"),
    ("policies/placement/planned.cc", "if (lost_ > 0 && HasSize(at - 1, last_bytes_)) return {known_, at};",
     "if (!M && lost_ > 0 && HasSize(at - 1, last_bytes_)) return {known_, at};"),
    ("policies/placement/planned.cc", "if (strayed_ > 0) return false;", "if (!M && strayed_ > 0) return false;"),
    ("policies/placement/high_end_offload.cc", "blocks.HighestFit(request.bytes)",
     "M ? blocks.SmallestFit(request.bytes) : blocks.HighestFit(request.bytes)"),
]

HEADER = """#ifndef MUTANT_H
#define MUTANT_H
#include <cstdlib>
inline bool Mutant(int number) {
  static const int chosen = std::getenv("MUTANT") != nullptr ? std::atoi(std::getenv("MUTANT")) : 0;
  return chosen == number;
}
#endif
"""


def program_of(file):
    return next(program for folder, program in PROGRAMS.items() if file.startswith(folder))


def write_copy():
    """Writes the last commit with all mutants into COPY; files that did not change keep their times."""
    COPY.mkdir(parents=True, exist_ok=True)
    names = subprocess.run(["git", "-C", ROOT, "ls-tree", "-r", "--name-only", "HEAD"], check=True, capture_output=True, text=True).stdout
    for name in names.splitlines():
        text = subprocess.run(["git", "-C", ROOT, "show", f"HEAD:{name}"], check=True, capture_output=True).stdout
        for number, (file, before, after, *_) in enumerate(MUTANTS, 1):
            if file != name:
                continue
            if text.count(before.encode()) != 1:
                sys.exit(f"mutant {number}: {file} has {text.count(before.encode())} times '{before}', expected once")
            text = text.replace(before.encode(), re.sub(r"\bM\b", f"Mutant({number})", after).encode())
        if any(file == name for file, *_ in MUTANTS):
            at = text.index(b"#include")
            text = text[:at] + b'#include "lib/mutant.h"\n' + text[at:]
        write(COPY / name, text)
    write(COPY / "lib" / "mutant.h", HEADER.encode())
    for script in (COPY / "scripts").glob("*"):
        script.chmod(0o755)


def write(path, text):
    if path.exists() and path.read_bytes() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)


def build(programs):
    if not (BUILD / "build.ninja").exists():
        subprocess.run(["cmake", "--preset", "release", "-S", COPY, "-B", BUILD], cwd=COPY, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", BUILD, *programs], check=True)


def survives(number):
    """Runs a mutant; 0 is the program without any."""
    program = program_of(MUTANTS[number - 1][0])
    command = [BUILD / "tests" / program, "--gtest_brief=1", "--gtest_fail_fast"]
    try:
        ran = subprocess.run(command, env={**os.environ, "MUTANT": str(number), "TIDEPOOL_ALL_ROUNDS": "1"}, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return ran.returncode == 0


def check():
    """Prints the mutants of which the text does not stand once in its file, and returns whether there are any."""
    stale = [(number, file, before) for number, (file, before, *_) in enumerate(MUTANTS, 1) if (ROOT / file).read_text().count(before) != 1]
    for number, file, before in stale:
        print(f"mutant {number}: {file} does not have once: {before}")
    print(f"{len(MUTANTS)} mutants, {len(stale)} without their text, expected 0")
    return bool(stale)


def main(arguments):
    if arguments == ["--check"]:
        return check()
    numbers = [int(each) for each in arguments] or list(range(1, len(MUTANTS) + 1))
    write_copy()
    build(sorted({program_of(MUTANTS[number - 1][0]) for number in numbers}))
    unexplained = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for number, survived in zip(numbers, pool.map(survives, numbers)):
            file, before, _, *reason = MUTANTS[number - 1]
            line = " ".join(before.split())
            if survived:
                unexplained += not reason
                print(f"{number:3} SURVIVES {file}: {line}" + (f" ({reason[0]})" if reason else ""), flush=True)
            else:
                print(f"{number:3} noticed  {file}: {line}", flush=True)
    print(f"{len(numbers)} mutants, {unexplained} survive without a reason, expected 0")
    return unexplained > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

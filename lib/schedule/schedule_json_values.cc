// SPDX-License-Identifier: Apache-2.0
// Values of a file, by their keys.
#include <charconv>
#include <limits>
#include <string>

#include "absl/strings/numbers.h"
#include "lib/io/json_number.h"
#include "lib/schedule/schedule_json_handler.h"

namespace tidepool::schedule {

bool ScheduleHandler::TakeText(const Value& value, std::string* text) {
  if (value.type != Value::Type::kText) return FailValue(Shown(value), "a text");
  text->assign(value.text);
  return true;
}

bool ScheduleHandler::TakeWhole(const Value& value, std::int64_t* number) {
  const bool is_whole = value.type == Value::Type::kNumber &&
                        io::ParseWholeNumber(value.text, number) && *number >= 0;
  return is_whole || FailValue(Shown(value), "a whole number from 0 to 2^63 - 1");
}

bool ScheduleHandler::TakeCount(const Value& value, std::size_t* count) {
  std::int64_t number = 0;
  if (!TakeWhole(value, &number)) return false;
  *count = static_cast<std::size_t>(number);
  return true;
}

bool ScheduleHandler::TakeNumber(const Value& value, double* number) {
  if (value.type == Value::Type::kText && value.text == "infinite") {
    *number = std::numeric_limits<double>::infinity();
    return true;
  }
  const bool is_number = value.type == Value::Type::kNumber &&
                         absl::SimpleAtod({value.text.data(), value.text.size()}, number);
  return is_number || FailValue(Shown(value), "a number, or 'infinite'");
}

bool ScheduleHandler::TakeBool(const Value& value, bool* is) {
  if (value.type != Value::Type::kBool) return FailValue(Shown(value), "true or false");
  *is = value.text == "true";
  return true;
}

bool ScheduleHandler::TakeFingerprint(const Value& value) {
  const char* const end = value.text.data() + value.text.size();
  const auto [stop, error] =
      std::from_chars(value.text.data(), end, file_.schedule.fingerprint, 16);
  const bool is_hexadecimal = value.type == Value::Type::kText && value.text.size() == 16 &&
                              error == std::errc() && stop == end;
  return is_hexadecimal || FailValue(Shown(value), "a text of 16 hexadecimal digits");
}

bool ScheduleHandler::TakeMemory(const Value& value) {
  for (const ScheduleMemory memory :
       {ScheduleMemory::kPool, ScheduleMemory::kFixed, ScheduleMemory::kPaged}) {
    if (value.type != Value::Type::kText || value.text != ScheduleMemoryName(memory)) continue;
    file_.schedule.memory = memory;
    return true;
  }
  return FailValue(Shown(value), "'pool', 'fixed' or 'paged'");
}

bool ScheduleHandler::TakeSharing(const Value& value, LinkSharing* link) {
  for (const LinkSharing sharing : {LinkSharing::kEqualParts, LinkSharing::kFirstComeFirstServed}) {
    if (value.type != Value::Type::kText || value.text != LinkSharingName(sharing)) continue;
    *link = sharing;
    return true;
  }
  return FailValue(Shown(value), "'equal-parts' or 'first-come-first-served'");
}

bool ScheduleHandler::TakeNormalization(const Value& value) {
  for (const BatchNormalization normalization :
       {BatchNormalization::kBatch, BatchNormalization::kGhost}) {
    if (value.type != Value::Type::kText || value.text != BatchNormalizationName(normalization)) {
      continue;
    }
    file_.batch_normalization = normalization;
    return true;
  }
  return FailValue(Shown(value), "'batch' or 'ghost'");
}

bool ScheduleHandler::TakeOfSchedule(const Value& value) {
  Schedule& schedule = file_.schedule;
  if (key_ == "tidepool_schedule") {
    const bool is_known = value.type == Value::Type::kNumber && value.text == "1";
    return is_known || FailValue(Shown(value), "1");
  }
  if (key_ == "policy") return TakeText(value, &schedule.policy);
  if (key_ == "graph") return TakeText(value, &file_.graph);
  if (key_ == "fingerprint") return TakeFingerprint(value);
  if (key_ == "memory") return TakeMemory(value);
  if (key_ == "alignment") return TakeWhole(value, &schedule.alignment);
  if (key_ == "devices") return TakeCount(value, &schedule.devices);
  if (key_ == "batch_normalization") return TakeNormalization(value);
  return FailPlace(Shown(value));
}

bool ScheduleHandler::TakeOfDevice(const Value& value) {
  MachineDevice& device = file_.machine->devices.back();
  if (key_ == "memory") return TakeWhole(value, &device.memory_bytes);
  if (key_ == "compressor") return TakeNumber(value, &device.compressor.out_bytes_per_second);
  if (key_ == "decompressor") return TakeNumber(value, &device.compressor.in_bytes_per_second);
  return TakeCount(value, key_ == "link" ? &device.link : &device.compute_streams);
}

bool ScheduleHandler::TakeOfLink(const Value& value) {
  MachineLink& link = file_.machine->links.back();
  if (key_ == "out") return TakeNumber(value, &link.out_bytes_per_second);
  if (key_ == "in") return TakeNumber(value, &link.in_bytes_per_second);
  if (key_ == "latency") return TakeNumber(value, &link.latency_seconds);
  if (key_ == "full_duplex") return TakeBool(value, &link.full_duplex);
  return TakeSharing(value, &link.sharing);
}

bool ScheduleHandler::TakeOfHost(const Value& value) {
  MachineHost& host = file_.machine->host;
  if (key_ == "memory") return TakeWhole(value, &host.memory_bytes);
  if (key_ == "cores") return TakeCount(value, &host.cores);
  return TakeNumber(value, key_ == "update" ? &host.update_bytes_per_second
                                            : &host.accumulation_bytes_per_second);
}

bool ScheduleHandler::TakeOfPeers(const Value& value) {
  PeerLinks& peers = file_.machine->peers;
  if (key_ == "rate") return TakeNumber(value, &peers.bytes_per_second);
  if (key_ == "latency") return TakeNumber(value, &peers.latency_seconds);
  if (key_ == "bus") return TakeBool(value, &peers.is_bus);
  if (key_ == "sharing") return TakeSharing(value, &peers.sharing);
  return TakeNumber(value, &peers.addition_bytes_per_second);
}

bool ScheduleHandler::TakeOfRound(const Value& value) {
  ScheduleRound& round = file_.schedule.rounds.back();
  if (key_ == "steps") return TakeCount(value, &round.steps);
  return TakeWhole(value, key_ == "times" ? &round.times : &round.batch);
}

}  // namespace tidepool::schedule

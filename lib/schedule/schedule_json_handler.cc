// SPDX-License-Identifier: Apache-2.0
#include "lib/schedule/schedule_json_handler.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "lib/io/quote.h"

namespace tidepool::schedule {
namespace {

struct KnownKey {
  std::string_view name;
  bool is_required = false;
};
constexpr std::array<KnownKey, 11> kScheduleKeys = {{{"tidepool_schedule", true},
                                                     {"policy"},
                                                     {"graph"},
                                                     {"fingerprint", true},
                                                     {"memory", true},
                                                     {"alignment"},
                                                     {"devices"},
                                                     {"batch_normalization"},
                                                     {"machine"},
                                                     {"rounds"},
                                                     {"steps", true}}};
constexpr std::array<KnownKey, 4> kMachineKeys = {
    {{"devices", true}, {"links", true}, {"host"}, {"peers"}}};
constexpr std::array<KnownKey, 5> kDeviceKeys = {
    {{"memory", true}, {"link"}, {"compute_streams"}, {"compressor"}, {"decompressor"}}};
constexpr std::array<KnownKey, 5> kLinkKeys = {
    {{"out", true}, {"in", true}, {"latency"}, {"full_duplex"}, {"sharing"}}};
constexpr std::array<KnownKey, 4> kHostKeys = {
    {{"memory"}, {"cores"}, {"accumulation"}, {"update"}}};
constexpr std::array<KnownKey, 5> kPeersKeys = {
    {{"rate", true}, {"latency"}, {"bus"}, {"sharing"}, {"addition"}}};
constexpr std::array<KnownKey, 3> kRoundKeys = {{{"steps", true}, {"times"}, {"batch"}}};

}  // namespace

struct ScheduleHandler::Object {
  const char* name;
  absl::Span<const KnownKey> keys;

  std::string Names(unsigned without) const {
    std::string names;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if ((without >> i & 1) != 0) continue;
      absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(keys[i].name));
    }
    return names;
  }
  unsigned Missing(unsigned seen) const {
    unsigned missing = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (keys[i].is_required && (seen >> i & 1) == 0) missing |= 1U << i;
    }
    return missing;
  }
};

const ScheduleHandler::Object& ScheduleHandler::object() const {
  static const Object schedule = {"a schedule", kScheduleKeys};
  static const Object machine = {"a machine", kMachineKeys};
  static const Object device = {"a device", kDeviceKeys};
  static const Object link = {"a link", kLinkKeys};
  static const Object host = {"the host", kHostKeys};
  static const Object peers = {"the links of peers", kPeersKeys};
  static const Object round = {"a round", kRoundKeys};
  switch (place_) {
    case Place::kMachine:
      return machine;
    case Place::kDevice:
      return device;
    case Place::kLink:
      return link;
    case Place::kHost:
      return host;
    case Place::kPeers:
      return peers;
    case Place::kRound:
      return round;
    default:
      return schedule;
  }
}

bool ScheduleHandler::Fail(const std::string& fault) {
  line_ = input_.line();
  status_ = absl::InvalidArgumentError(fault);
  return false;
}

std::string ScheduleHandler::Shown(const Value& value) const {
  if (value.type == Value::Type::kText) return io::Quoted(value.text);
  return std::string(value.text.substr(0, 40));
}

bool ScheduleHandler::FailValue(const std::string& shown, const std::string& expected) {
  return Fail(absl::StrCat(std::string(key_), " of ", object().name, " is ", shown, ", expected ",
                           expected));
}

bool ScheduleHandler::FailPlace(const std::string& shown) {
  switch (place_) {
    case Place::kStart:
      return Fail(absl::StrCat(shown, ", expected a schedule: an object"));
    case Place::kStepList:
      return Fail(absl::StrCat(shown, " in the list of steps, expected an array for each step"));
    case Place::kStep:
      return Fail(absl::StrCat(shown, " in a step, expected texts and numbers"));
    case Place::kDeviceList:
    case Place::kLinkList:
    case Place::kRoundList:
      return Fail(absl::StrCat(shown, " in an array of objects, expected an object"));
    default:
      break;
  }
  const bool is_list = key_ == "devices" || key_ == "links" || key_ == "rounds" || key_ == "steps";
  return FailValue(shown, is_list && place_ != Place::kRound ? "an array"
                          : key_ == "machine" || key_ == "host" || key_ == "peers"
                              ? "an object"
                              : "a text or a number");
}

bool ScheduleHandler::Take(const Value& value) {
  input_.SawToken();
  switch (place_) {
    case Place::kStep:
      return TakeOfStep(value);
    case Place::kSchedule:
      return TakeOfSchedule(value);
    case Place::kDevice:
      return TakeOfDevice(value);
    case Place::kLink:
      return TakeOfLink(value);
    case Place::kHost:
      return TakeOfHost(value);
    case Place::kPeers:
      return TakeOfPeers(value);
    case Place::kRound:
      return TakeOfRound(value);
    default:
      return FailPlace(Shown(value));
  }
}

bool ScheduleHandler::Key(const char* text, rapidjson::SizeType size, bool /*copy*/) {
  input_.SawToken();
  const std::string_view name(text, size);
  const absl::Span<const KnownKey> keys = object().keys;
  std::size_t at = 0;
  while (at < keys.size() && keys[at].name != name) ++at;
  if (at == keys.size()) {
    return Fail(absl::StrCat("the unknown key ", io::Quoted(name), " in ", object().name,
                             ", expected ", object().Names(0)));
  }
  unsigned& seen = seen_[static_cast<std::size_t>(place_)];
  if ((seen >> at & 1) != 0) {
    return Fail(absl::StrCat("the key ", io::Quoted(name), " is in ", object().name,
                             " twice, expected it once"));
  }
  seen |= 1U << at;
  key_ = keys[at].name;
  return true;
}

bool ScheduleHandler::StartObject() {
  input_.SawToken();
  if (place_ == Place::kStart) {
    place_ = Place::kSchedule;
  } else if (place_ == Place::kSchedule && key_ == "machine") {
    place_ = Place::kMachine;
    file_.machine = {.devices = {}, .links = {}};
  } else if (place_ == Place::kMachine && key_ == "host") {
    place_ = Place::kHost;
  } else if (place_ == Place::kMachine && key_ == "peers") {
    place_ = Place::kPeers;
  } else if (place_ == Place::kDeviceList) {
    place_ = Place::kDevice;
    file_.machine->devices.emplace_back();
  } else if (place_ == Place::kLinkList) {
    place_ = Place::kLink;
    file_.machine->links.emplace_back();
  } else if (place_ == Place::kRoundList) {
    place_ = Place::kRound;
    file_.schedule.rounds.emplace_back();
  } else {
    return FailPlace("an object");
  }
  seen_[static_cast<std::size_t>(place_)] = 0;
  return true;
}

bool ScheduleHandler::EndObject(rapidjson::SizeType /*members*/) {
  input_.SawToken();
  const unsigned missing = object().Missing(seen_[static_cast<std::size_t>(place_)]);
  if (missing != 0) {
    return Fail(absl::StrCat(object().name, " without ", object().Names(~missing),
                             ", expected every required key"));
  }
  place_ = place_ == Place::kDevice    ? Place::kDeviceList
           : place_ == Place::kLink    ? Place::kLinkList
           : place_ == Place::kRound   ? Place::kRoundList
           : place_ == Place::kHost    ? Place::kMachine
           : place_ == Place::kPeers   ? Place::kMachine
           : place_ == Place::kMachine ? Place::kSchedule
                                       : Place::kStart;
  return true;
}

bool ScheduleHandler::StartArray() {
  input_.SawToken();
  if (place_ == Place::kStepList) {
    place_ = Place::kStep;
    column_ = 0;
    file_.schedule.steps.emplace_back();
    file_.step_lines.push_back(input_.line());
  } else if (place_ == Place::kSchedule && key_ == "steps") {
    place_ = Place::kStepList;
  } else if (place_ == Place::kSchedule && key_ == "rounds") {
    place_ = Place::kRoundList;
  } else if (place_ == Place::kMachine && key_ == "devices") {
    place_ = Place::kDeviceList;
  } else if (place_ == Place::kMachine && key_ == "links") {
    place_ = Place::kLinkList;
  } else {
    return FailPlace("an array");
  }
  return true;
}

bool ScheduleHandler::EndArray(rapidjson::SizeType /*elements*/) {
  input_.SawToken();
  if (place_ == Place::kStep) return EndStep();
  const bool is_of_machine = place_ == Place::kDeviceList || place_ == Place::kLinkList;
  place_ = is_of_machine ? Place::kMachine : Place::kSchedule;
  return true;
}

}  // namespace tidepool::schedule

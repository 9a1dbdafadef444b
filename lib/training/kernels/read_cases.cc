// SPDX-License-Identifier: Apache-2.0
// Reads the JSON of questions: a list of cases, each with numbers, texts, and lists of rows. Checks
// rows while it knows their lines, and cases.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/io/byte_source.h"
#include "lib/base/io/json_object.h"
#include "lib/base/io/json_tree.h"
#include "lib/base/text/quote.h"
#include "tidepool/training/kernel_table.h"

namespace tidepool::kernels {
namespace {

using io::JsonField;
using io::JsonKind;
using io::JsonValue;
using io::kToMember;
using enum io::JsonNeed;

constexpr std::string_view kText = "a text";
constexpr std::string_view kWhole = "a whole number";
constexpr std::string_view kTable = "a table: a list of rows";
constexpr std::string_view kTables = "a list of tables: lists of rows";
constexpr std::string_view kGroups = "a list of lists of kernels";
constexpr std::string_view kKernelRow =
    "micro-batch, algorithm, seconds, workspace and, if known, TRUE_HALF, PSEUDO_HALF or FLOAT";

absl::Status Fault(const std::string& what) { return absl::InvalidArgumentError(what); }

// Written so that NaN is a fault.
bool IsTime(double seconds) { return seconds >= 0 && seconds <= kMostKernelSeconds; }

// Return OK for numbers in their ranges, and otherwise InvalidArgument.
absl::Status CheckRow(const KernelRow& row) {
  if (row.micro_batch < 1 || row.micro_batch > kMostKernelBatch) {
    return Fault(absl::StrCat("a micro-batch of ", row.micro_batch, " samples, expected 1 to ",
                              kMostKernelBatch));
  }
  if (row.algorithm < 0) {
    return Fault(absl::StrCat("the algorithm ", row.algorithm, ", expected 0 or more"));
  }
  if (!IsTime(row.seconds)) {
    return Fault(absl::StrCat("a time of ", row.seconds, " seconds, expected 0 to 1e9"));
  }
  if (row.workspace_bytes < 0 || row.workspace_bytes > kMostWorkspaceBytes) {
    return Fault(
        absl::StrCat("a workspace of ", row.workspace_bytes, " bytes, expected 0 to 2^62"));
  }
  return absl::OkStatus();
}

absl::Status CheckRow(const DeviceRow& row) {
  return CheckRow(KernelRow{.micro_batch = row.samples, .seconds = row.seconds});
}

template <typename Row>
absl::Status CheckTables(const std::vector<std::vector<Row>>& tables, const char* noun) {
  if (tables.empty()) return Fault(absl::StrCat("no ", noun, ", expected one or more"));
  for (std::size_t i = 0; i < tables.size(); ++i) {
    if (tables[i].empty()) {
      return Fault(absl::StrCat(noun, " ", i, " has no rows, expected one or more"));
    }
    for (std::size_t k = 0; k < tables[i].size(); ++k) {
      const absl::Status status = CheckRow(tables[i][k]);
      if (status.ok()) continue;
      return Fault(absl::StrCat(noun, " ", i, ", row ", k, ": ", std::string(status.message())));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGroups(const WorkspaceCase& question) {
  if (question.groups.empty()) return absl::OkStatus();
  if (question.kind != WorkspaceKind::kShared) {
    return Fault("groups of kernels that share no memory, expected the kind shared");
  }
  std::vector<int> seen(question.kernels.size());
  for (const std::vector<std::size_t>& group : question.groups) {
    for (const std::size_t kernel : group) {
      if (kernel >= seen.size() || seen[kernel]++ > 0) {
        return Fault(absl::StrCat("groups with the kernel ", kernel, ", expected each of 0 to ",
                                  seen.size() - 1, " once"));
      }
    }
  }
  const auto missing = std::find(seen.begin(), seen.end(), 0);
  if (missing == seen.end()) return absl::OkStatus();
  return Fault(absl::StrCat("groups without the kernel ", missing - seen.begin(),
                            ", expected each kernel in one"));
}

bool ToKind(const JsonValue& value, WorkspaceKind* kind) {
  constexpr std::pair<std::string_view, WorkspaceKind> kKinds[] = {
      {"wr", WorkspaceKind::kReuse},
      {"wd", WorkspaceKind::kDivision},
      {"shared", WorkspaceKind::kShared},
      {"hetero", WorkspaceKind::kDevices}};
  for (const auto& [name, known] : kKinds) {
    if (value.kind() != JsonKind::kText || value.text() != name) continue;
    *kind = known;
    return true;
  }
  return false;
}

bool ToPrecision(const JsonValue& value, KernelPrecision* precision) {
  for (const KernelPrecision known :
       {KernelPrecision::kTrueHalf, KernelPrecision::kPseudoHalf, KernelPrecision::kFloat}) {
    if (value.kind() != JsonKind::kText || value.text() != KernelPrecisionName(known)) continue;
    *precision = known;
    return true;
  }
  return false;
}

// The lists below a member of a case. Faults name the member.
class Lists {
 public:
  // `expected` is the value of the member.
  Lists(const JsonValue& member, std::string_view expected)
      : name_(member.name()), expected_(expected) {}

  // Calls visit(list) for each element of `lists`, which must be lists.
  template <typename Visit>
  absl::StatusOr<bool> TakeEach(const JsonValue& lists, Visit visit) const {
    return io::TakeArray(lists, [&](const JsonValue& list) -> absl::Status {
      if (list.kind() == JsonKind::kArray) return visit(list);
      return list.Error(
          absl::StrCat(name_, " has ", list.Shown(), ", expected ", std::string(expected_)));
    });
  }
  absl::Status ReadKernel(const JsonValue& row, KernelTable& table) const;
  absl::Status ReadDevice(const JsonValue& row, std::vector<DeviceRow>& rows) const;
  absl::Status ReadGroup(const JsonValue& row, std::vector<std::size_t>& group) const;

 private:
  absl::Status WrongRow(const JsonValue& row, std::string_view expected) const;
  absl::Status Checked(const JsonValue& row, const absl::Status& status) const {
    if (status.ok()) return status;
    return row.Error(absl::StrCat(name_, " has ", std::string(status.message())));
  }

  std::string name_;
  std::string_view expected_;
};

absl::StatusOr<std::vector<JsonValue>> CellsOf(const JsonValue& row) {
  std::vector<JsonValue> cells;
  absl::Status status = row.ForEach([&](const JsonValue& cell) {
    cells.push_back(cell);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return cells;
}

absl::Status Lists::WrongRow(const JsonValue& row, std::string_view expected) const {
  constexpr std::size_t kLongest = 80;
  std::string shown;
  row.ForEach([&](const JsonValue& cell) {
       if (shown.size() >= kLongest) return absl::OkStatus();
       const std::string text(cell.text().substr(0, kLongest));
       absl::StrAppend(&shown, shown.empty() ? "" : ", ", text.empty() ? cell.Shown() : text);
       return absl::OkStatus();
     })
      .IgnoreError();
  return row.Error(absl::StrCat(name_, " has the row [", text::Escaped(shown.substr(0, kLongest)),
                                "], expected ", std::string(expected)));
}

absl::Status Lists::ReadKernel(const JsonValue& row, KernelTable& table) const {
  const absl::StatusOr<std::vector<JsonValue>> cells = CellsOf(row);
  if (!cells.ok()) return cells.status();
  KernelRow& its = table.emplace_back();
  const bool is_row = (cells->size() == 4 || cells->size() == 5) &&
                      cells->at(0).To(&its.micro_batch) && cells->at(1).To(&its.algorithm) &&
                      cells->at(2).To(&its.seconds) && cells->at(3).To(&its.workspace_bytes) &&
                      (cells->size() == 4 || ToPrecision(cells->at(4), &its.precision));
  return is_row ? Checked(row, CheckRow(its)) : WrongRow(row, kKernelRow);
}

absl::Status Lists::ReadDevice(const JsonValue& row, std::vector<DeviceRow>& rows) const {
  const absl::StatusOr<std::vector<JsonValue>> cells = CellsOf(row);
  if (!cells.ok()) return cells.status();
  DeviceRow& its = rows.emplace_back();
  const bool is_row =
      cells->size() == 2 && cells->at(0).To(&its.samples) && cells->at(1).To(&its.seconds);
  return is_row ? Checked(row, CheckRow(its)) : WrongRow(row, "samples and seconds");
}

absl::Status Lists::ReadGroup(const JsonValue& row, std::vector<std::size_t>& group) const {
  return row.ForEach([&](const JsonValue& cell) {
    std::int64_t kernel = 0;
    if (!cell.To(&kernel) || kernel < 0) return WrongRow(row, "the numbers of kernels");
    group.push_back(static_cast<std::size_t>(kernel));
    return absl::OkStatus();
  });
}

absl::StatusOr<bool> TakeTable(const Lists& lists, const JsonValue& value,
                               WorkspaceCase& question) {
  KernelTable& table = question.kernels.emplace_back();
  return lists.TakeEach(value, [&](const JsonValue& row) { return lists.ReadKernel(row, table); });
}

absl::StatusOr<bool> TakeTables(const JsonValue& value, WorkspaceCase& question) {
  const Lists lists(value, kTables);
  return lists.TakeEach(
      value, [&](const JsonValue& table) { return TakeTable(lists, table, question).status(); });
}

absl::StatusOr<bool> TakeGroups(const JsonValue& value, WorkspaceCase& question) {
  const Lists lists(value, kGroups);
  return lists.TakeEach(value, [&](const JsonValue& group) {
    return lists.ReadGroup(group, question.groups.emplace_back());
  });
}

absl::StatusOr<bool> TakeDevices(const JsonValue& value, WorkspaceCase& question) {
  const Lists lists(value, kTables);
  return lists.TakeEach(value, [&](const JsonValue& device) {
    std::vector<DeviceRow>& rows = question.devices.emplace_back();
    const auto read = [&](const JsonValue& row) { return lists.ReadDevice(row, rows); };
    return lists.TakeEach(device, read).status();
  });
}

constexpr JsonField<WorkspaceCase> kCaseFields[] = {
    {"name", kOptional, kText, kToMember<&WorkspaceCase::name>},
    {"kind", kOptional, "wr, wd, shared or hetero",
     [](const JsonValue& value, WorkspaceCase& its) { return ToKind(value, &its.kind); }},
    {"policy", kOptional, kText, kToMember<&WorkspaceCase::policy>},
    {"precision", kOptional, "TRUE_HALF, PSEUDO_HALF or FLOAT",
     [](const JsonValue& value, WorkspaceCase& its) { return ToPrecision(value, &its.precision); }},
    {"B", kOptional, kWhole, kToMember<&WorkspaceCase::batch>},
    {"M", kOptional, kWhole, kToMember<&WorkspaceCase::limit_bytes>},
    {"M_total", kOptional, kWhole, kToMember<&WorkspaceCase::limit_bytes>},
    {"multiple", kOptional, kWhole, kToMember<&WorkspaceCase::multiple_of>},
    {"table", kOptional, kTable,
     [](const JsonValue& value, WorkspaceCase& its) {
       return TakeTable(Lists(value, kTable), value, its);
     }},
    {"tables", kOptional, kTables,
     [](const JsonValue& value, WorkspaceCase& its) { return TakeTables(value, its); }},
    {"groups", kOptional, kGroups,
     [](const JsonValue& value, WorkspaceCase& its) { return TakeGroups(value, its); }},
    {"gpus", kOptional, kTables,
     [](const JsonValue& value, WorkspaceCase& its) { return TakeDevices(value, its); }},
    {"expect", kOptional, "",
     [](const JsonValue& /*value*/, WorkspaceCase& /*its*/) { return true; }}};
constexpr io::JsonObject<WorkspaceCase> kCase = {"a case", kCaseFields};

// Checks that a case has the keys of its kind alone.
absl::Status CheckKeys(const JsonValue& value, WorkspaceKind kind) {
  const auto has = [&](std::string_view key) { return value.Find(key).has_value(); };
  const bool is_devices = kind == WorkspaceKind::kDevices;
  const bool is_reuse = kind == WorkspaceKind::kReuse;
  const std::pair<std::string_view, bool> needed[] = {
      {"kind", true},
      {"B", true},
      {is_devices ? "gpus"
       : is_reuse ? "M"
                  : "M_total",
       true},
      {"tables", !is_devices && !is_reuse},
      {"table", is_reuse && !has("tables")},
  };
  for (const auto& [key, is_needed] : needed) {
    if (!is_needed || has(key)) continue;
    return value.Error(absl::StrCat("a case without ", std::string(key), ", expected it"));
  }
  const std::pair<std::string_view, bool> refused[] = {
      {"table", !is_reuse || has("tables")},
      {"tables", is_devices},
      {"M", !is_reuse},
      {"M_total", is_reuse || is_devices},
      {"policy", is_devices},
      {"precision", is_devices},
      {"groups", is_devices},
      {"gpus", !is_devices},
      {"multiple", !is_devices},
  };
  for (const auto& [key, is_refused] : refused) {
    if (!is_refused || !has(key)) continue;
    return value.Error(absl::StrCat("a case with ", std::string(key),
                                    ", which its kind does not have: remove it"));
  }
  return absl::OkStatus();
}

absl::Status ReadCase(const JsonValue& value, std::vector<WorkspaceCase>& cases) {
  WorkspaceCase& its = cases.emplace_back();
  absl::Status status = io::ReadObject(value, kCase, its, ", expected a list of cases: objects");
  if (status.ok()) status = CheckKeys(value, its.kind);
  if (!status.ok()) return status;
  status = ValidateWorkspaceCase(its);
  return status.ok() ? status : value.Error(std::string(status.message()));
}

absl::StatusOr<std::vector<WorkspaceCase>> ReadRoot(const JsonValue& root) {
  std::vector<WorkspaceCase> cases;
  const auto read = [&](const JsonValue& value) { return ReadCase(value, cases); };
  absl::Status status = root.kind() == JsonKind::kArray ? root.ForEach(read) : read(root);
  if (!status.ok()) return status;
  return cases;
}

absl::StatusOr<std::vector<WorkspaceCase>> ReadFrom(std::unique_ptr<io::ByteSource> source,
                                                    const std::string& name) {
  absl::StatusOr<std::vector<WorkspaceCase>> cases =
      io::ReadJson(std::move(source), name, {"a list of cases"}, ReadRoot);
  if (!cases.ok() || !cases->empty()) return cases;
  return text::AboutFile(name, absl::InvalidArgumentError("no cases, expected one or more"));
}

}  // namespace
}  // namespace tidepool::kernels

namespace tidepool {

using kernels::CheckGroups;
using kernels::CheckTables;
using kernels::Fault;

std::string_view KernelPrecisionName(KernelPrecision precision) {
  constexpr std::string_view kNames[] = {"TRUE_HALF", "PSEUDO_HALF", "FLOAT"};
  return kNames[static_cast<std::size_t>(precision)];
}

absl::Status ValidateWorkspaceCase(const WorkspaceCase& question) {
  if (question.batch < 1 || question.batch > kMostKernelBatch) {
    return Fault(absl::StrCat("a batch of ", question.batch, ", expected 1 to ", kMostKernelBatch));
  }
  if (question.kind == WorkspaceKind::kDevices) {
    if (question.multiple_of < 1) {
      return Fault(absl::StrCat("multiples of ", question.multiple_of, ", expected 1 or more"));
    }
    return CheckTables(question.devices, "device");
  }
  if (question.limit_bytes < 0 || question.limit_bytes > kMostWorkspaceBytes) {
    return Fault(absl::StrCat("a limit of ", question.limit_bytes, " bytes, expected 0 to 2^62"));
  }
  if (absl::Status status = CheckTables(question.kernels, "kernel"); !status.ok()) return status;
  return CheckGroups(question);
}

absl::StatusOr<std::vector<WorkspaceCase>> ReadWorkspaceCases(const std::filesystem::path& path) {
  absl::StatusOr<std::unique_ptr<io::ByteSource>> file =
      io::OpenFile(path.string(), "a list of cases");
  if (!file.ok()) return text::AboutFile(path.string(), file.status());
  return kernels::ReadFrom(*std::move(file), path.string());
}

absl::StatusOr<std::vector<WorkspaceCase>> ParseWorkspaceCases(std::string_view json,
                                                               std::string_view name) {
  return kernels::ReadFrom(io::FromMemory(json), std::string(name));
}

}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// Reads the JSON of questions: a list of cases, each with numbers, texts, and lists of rows.
#include <rapidjson/reader.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/io/byte_source.h"
#include "lib/io/json_events.h"
#include "lib/io/json_input.h"
#include "lib/io/json_number.h"
#include "lib/io/quote.h"
#include "lib/kernels/check_case.h"
#include "tidepool/schedule/kernel_table.h"

namespace tidepool::kernels {
namespace {

enum class CaseKey : std::uint8_t {
  kName,
  kKind,
  kPolicy,
  kPrecision,
  kBatch,
  kLimit,
  kTotalLimit,
  kMultiple,
  kTable,
  kTables,
  kGroups,
  kDevices,
  kExpect,
};
constexpr std::size_t kCaseKeys = 13;
constexpr std::array<std::string_view, kCaseKeys> kNames = {
    "name",     "kind",  "policy", "precision", "B",    "M",     "M_total",
    "multiple", "table", "tables", "groups",    "gpus", "expect"};
// Levels of lists below a key. A row is the innermost list.
constexpr std::array<int, kCaseKeys> kLevels = {0, 0, 0, 0, 0, 0, 0, 0, 2, 3, 2, 3, 0};

std::string NameOf(CaseKey key) { return std::string(kNames[static_cast<std::size_t>(key)]); }

constexpr std::pair<std::string_view, WorkspaceKind> kKinds[] = {
    {"wr", WorkspaceKind::kReuse},
    {"wd", WorkspaceKind::kDivision},
    {"shared", WorkspaceKind::kShared},
    {"hetero", WorkspaceKind::kDevices}};

std::optional<KernelPrecision> FindPrecision(std::string_view name) {
  for (const KernelPrecision precision :
       {KernelPrecision::kTrueHalf, KernelPrecision::kPseudoHalf, KernelPrecision::kFloat}) {
    if (KernelPrecisionName(precision) == name) return precision;
  }
  return std::nullopt;
}

// The handler of RapidJSON's events. A false result ends the reading; then status() gives the
// reason and line() the line.
class CaseHandler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, CaseHandler> {
 public:
  explicit CaseHandler(io::JsonInput& input) : input_(input) {}

  bool Null() { return Scalar("null"); }
  bool Bool(bool value) { return Scalar(value ? "true" : "false"); }
  bool String(const char* text, rapidjson::SizeType size, bool copy);
  bool RawNumber(const char* text, rapidjson::SizeType size, bool copy);
  bool Key(const char* text, rapidjson::SizeType size, bool copy);
  bool StartObject();
  bool EndObject(rapidjson::SizeType members);
  bool StartArray();
  bool EndArray(rapidjson::SizeType elements);

  const absl::Status& status() const { return status_; }
  std::int64_t line() const { return line_; }
  std::vector<WorkspaceCase>&& Take() { return std::move(cases_); }

 private:
  static constexpr std::size_t kMostCells = 5;

  bool IsSkipped() const { return in_case_ && key_ == CaseKey::kExpect; }
  bool IsRow() const { return level_ > 0 && level_ == Levels(); }
  int Levels() const { return kLevels[static_cast<std::size_t>(key_)]; }
  bool Has(CaseKey key) const { return seen_[static_cast<std::size_t>(key)]; }
  std::string Name() const { return NameOf(key_); }
  bool Fail(std::int64_t line, const std::string& what);
  bool Wrong(const std::string& shown);
  bool Scalar(const std::string& shown);
  bool TakeText(std::string_view text);
  bool TakeWhole(std::string_view text);
  bool TakeCell(std::string_view text);
  bool WrongRow();
  bool IsSound(const absl::Status& row);
  bool TakeRow();
  bool TakeKernelRow();
  bool TakeDeviceRow();
  bool TakeGroup();
  bool HasKeysOfKind();
  bool FinishCase();

  io::JsonInput& input_;
  std::vector<WorkspaceCase> cases_;
  WorkspaceCase case_;
  std::array<bool, kCaseKeys> seen_ = {};
  std::vector<std::string> row_;
  CaseKey key_ = CaseKey::kName;
  bool in_list_ = false;  // of cases
  bool in_case_ = false;
  int level_ = 0;  // of lists in a case, or of values in `expect`
  std::int64_t case_line_ = 1;
  std::int64_t row_line_ = 1;
  std::int64_t line_ = 1;
  absl::Status status_;
};

bool CaseHandler::Fail(std::int64_t line, const std::string& what) {
  line_ = line;
  status_ = absl::InvalidArgumentError(what);
  return false;
}

bool CaseHandler::Wrong(const std::string& shown) {
  if (!in_case_) {
    return Fail(input_.line(), absl::StrCat(shown, ", expected a list of cases: objects"));
  }
  const char* expected = key_ == CaseKey::kGroups      ? "a list of lists of kernels"
                         : Levels() == 3               ? "a list of tables: lists of rows"
                         : Levels() == 2               ? "a table: a list of rows"
                         : key_ <= CaseKey::kPrecision ? "a text"
                                                       : "a whole number";
  return Fail(input_.line(), absl::StrCat(Name(), " has ", shown, ", expected ", expected));
}

bool CaseHandler::Scalar(const std::string& shown) {
  input_.SawToken();
  return IsSkipped() || Wrong(shown);
}

bool CaseHandler::String(const char* text, rapidjson::SizeType size, bool /*copy*/) {
  input_.SawToken();
  if (IsSkipped()) return true;
  const std::string_view value(text, size);
  if (in_case_ && level_ == 0 && key_ <= CaseKey::kPrecision) return TakeText(value);
  const bool is_precision = row_.size() + 1 == kMostCells && key_ <= CaseKey::kTables;
  if (in_case_ && IsRow() && is_precision) return TakeCell(value);
  return Wrong(absl::StrCat("the text ", io::Quoted(value)));
}

bool CaseHandler::RawNumber(const char* text, rapidjson::SizeType size, bool /*copy*/) {
  input_.SawToken();
  if (IsSkipped()) return true;
  const std::string_view value(text, size);
  if (in_case_ && IsRow()) return TakeCell(value);
  const bool is_whole = in_case_ && level_ == 0 && key_ > CaseKey::kPrecision && Levels() == 0;
  return (is_whole && TakeWhole(value)) || Wrong(std::string(value.substr(0, 40)));
}

bool CaseHandler::TakeText(std::string_view text) {
  if (key_ == CaseKey::kName) case_.name = std::string(text);
  if (key_ == CaseKey::kPolicy) case_.policy = std::string(text);
  if (key_ == CaseKey::kKind) {
    const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                     [&](const auto& kind) { return kind.first == text; });
    if (found == std::end(kKinds)) {
      return Fail(input_.line(), absl::StrCat("the unknown kind ", io::Quoted(text),
                                              ", expected wr, wd, shared or hetero"));
    }
    case_.kind = found->second;
  }
  if (key_ == CaseKey::kPrecision) {
    const std::optional<KernelPrecision> precision = FindPrecision(text);
    if (!precision.has_value()) {
      return Fail(input_.line(), absl::StrCat("the unknown precision ", io::Quoted(text),
                                              ", expected TRUE_HALF, PSEUDO_HALF or FLOAT"));
    }
    case_.precision = *precision;
  }
  return true;
}

bool CaseHandler::TakeWhole(std::string_view text) {
  std::int64_t number = 0;
  if (!io::ParseWholeNumber(text, &number)) return false;
  if (key_ == CaseKey::kBatch) {
    case_.batch = number;
  } else if (key_ == CaseKey::kMultiple) {
    case_.multiple_of = number;
  } else {
    case_.limit_bytes = number;
  }
  return true;
}

// Cells are kept as texts until the row ends. Longer rows are refused then.
bool CaseHandler::TakeCell(std::string_view text) {
  const std::size_t most = key_ == CaseKey::kGroups ? kMostKernelBatch : kMostCells + 1;
  if (row_.size() < most) row_.emplace_back(text.substr(0, 64));
  return true;
}

bool CaseHandler::WrongRow() {
  std::string shown;
  for (const std::string& cell : row_) absl::StrAppend(&shown, shown.empty() ? "" : ", ", cell);
  const char* expected = key_ == CaseKey::kGroups ? "the numbers of kernels"
                         : key_ == CaseKey::kDevices
                             ? "samples and seconds"
                             : "micro-batch, algorithm, seconds, workspace and, if known, "
                               "TRUE_HALF, PSEUDO_HALF or FLOAT";
  return Fail(row_line_, absl::StrCat(Name(), " has the row [",
                                      io::Escaped(std::string_view(shown).substr(0, 80)),
                                      "], expected ", expected));
}

bool CaseHandler::IsSound(const absl::Status& row) {
  return row.ok() || Fail(row_line_, absl::StrCat(Name(), " has ", std::string(row.message())));
}

bool CaseHandler::TakeKernelRow() {
  KernelRow row;
  if (row_.size() < 4 || row_.size() > kMostCells ||
      !io::ParseWholeNumber(row_[0], &row.micro_batch) ||
      !io::ParseWholeNumber(row_[1], &row.algorithm) || !absl::SimpleAtod(row_[2], &row.seconds) ||
      !io::ParseWholeNumber(row_[3], &row.workspace_bytes)) {
    return WrongRow();
  }
  if (row_.size() == kMostCells) {
    const std::optional<KernelPrecision> precision = FindPrecision(row_[4]);
    if (!precision.has_value()) return WrongRow();
    row.precision = *precision;
  }
  case_.kernels.back().push_back(row);
  return IsSound(CheckRow(row));
}

bool CaseHandler::TakeDeviceRow() {
  DeviceRow row;
  if (row_.size() != 2 || !io::ParseWholeNumber(row_[0], &row.samples) ||
      !absl::SimpleAtod(row_[1], &row.seconds)) {
    return WrongRow();
  }
  case_.devices.back().push_back(row);
  return IsSound(CheckRow(row));
}

bool CaseHandler::TakeGroup() {
  std::vector<std::size_t>& group = case_.groups.emplace_back();
  for (const std::string& cell : row_) {
    std::int64_t kernel = 0;
    if (!io::ParseWholeNumber(cell, &kernel) || kernel < 0) return WrongRow();
    group.push_back(static_cast<std::size_t>(kernel));
  }
  return true;
}

bool CaseHandler::TakeRow() {
  return key_ == CaseKey::kGroups    ? TakeGroup()
         : key_ == CaseKey::kDevices ? TakeDeviceRow()
                                     : TakeKernelRow();
}

bool CaseHandler::Key(const char* text, rapidjson::SizeType size, bool /*copy*/) {
  input_.SawToken();
  if (IsSkipped() && level_ > 0) return true;
  const std::string_view name(text, size);
  const auto* found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) {
    return Fail(input_.line(),
                absl::StrCat("the unknown key ", io::Quoted(name),
                             " in a case, expected name, kind, policy, precision, B, M, M_total, "
                             "multiple, table, tables, groups, gpus or expect"));
  }
  const auto index = static_cast<std::size_t>(found - kNames.begin());
  if (seen_[index]) {
    return Fail(input_.line(),
                absl::StrCat("the key ", io::Quoted(name), " occurs twice, expected it once"));
  }
  seen_[index] = true;
  key_ = static_cast<CaseKey>(index);
  return true;
}

bool CaseHandler::StartObject() {
  input_.SawToken();
  if (IsSkipped()) return ++level_ > 0;
  if (in_case_) return Wrong("an object");
  in_case_ = true;
  case_ = {};
  seen_ = {};
  case_line_ = input_.line();
  key_ = CaseKey::kName;
  return true;
}

bool CaseHandler::EndObject(rapidjson::SizeType /*members*/) {
  input_.SawToken();
  if (IsSkipped() && level_ > 0) return level_-- > 0;
  in_case_ = false;
  return FinishCase();
}

bool CaseHandler::HasKeysOfKind() {
  const bool is_devices = case_.kind == WorkspaceKind::kDevices;
  const bool is_reuse = case_.kind == WorkspaceKind::kReuse;
  const CaseKey limit = is_reuse ? CaseKey::kLimit : CaseKey::kTotalLimit;
  const std::pair<CaseKey, bool> needed[] = {
      {CaseKey::kKind, true},
      {CaseKey::kBatch, true},
      {is_devices ? CaseKey::kDevices : limit, true},
      {CaseKey::kTables, !is_devices && !is_reuse},
      {CaseKey::kTable, is_reuse && !Has(CaseKey::kTables)},
  };
  for (const auto& [key, is_needed] : needed) {
    if (!is_needed || Has(key)) continue;
    return Fail(case_line_, absl::StrCat("a case without ", NameOf(key), ", expected it"));
  }
  const std::pair<CaseKey, bool> refused[] = {
      {CaseKey::kTable, !is_reuse || Has(CaseKey::kTables)},
      {CaseKey::kTables, is_devices},
      {CaseKey::kLimit, !is_reuse},
      {CaseKey::kTotalLimit, is_reuse || is_devices},
      {CaseKey::kPolicy, is_devices},
      {CaseKey::kPrecision, is_devices},
      {CaseKey::kGroups, is_devices},
      {CaseKey::kDevices, !is_devices},
      {CaseKey::kMultiple, !is_devices},
  };
  for (const auto& [key, is_refused] : refused) {
    if (!is_refused || !Has(key)) continue;
    return Fail(case_line_, absl::StrCat("a case with ", NameOf(key),
                                         ", which its kind does not have, expected none"));
  }
  return true;
}

bool CaseHandler::FinishCase() {
  if (!HasKeysOfKind()) return false;
  const absl::Status status = ValidateWorkspaceCase(case_);
  if (!status.ok()) return Fail(case_line_, std::string(status.message()));
  cases_.push_back(std::move(case_));
  return true;
}

bool CaseHandler::StartArray() {
  input_.SawToken();
  if (IsSkipped()) return ++level_ > 0;
  if (!in_case_) {
    if (in_list_) return Wrong("a list");
    return in_list_ = true;
  }
  if (level_ >= Levels()) return Wrong("a list");
  ++level_;
  if (key_ == CaseKey::kTable && level_ == 1) case_.kernels.emplace_back();
  if (key_ == CaseKey::kTables && level_ == 2) case_.kernels.emplace_back();
  if (key_ == CaseKey::kDevices && level_ == 2) case_.devices.emplace_back();
  if (IsRow()) {
    row_.clear();
    row_line_ = input_.line();
  }
  return true;
}

bool CaseHandler::EndArray(rapidjson::SizeType /*elements*/) {
  input_.SawToken();
  if (!in_case_) return true;
  if (IsSkipped()) return level_-- > 0;
  if (IsRow() && !TakeRow()) return false;
  --level_;
  return true;
}

absl::StatusOr<std::vector<WorkspaceCase>> ReadFrom(std::unique_ptr<io::ByteSource> source,
                                                    const std::string& name) {
  absl::StatusOr<std::unique_ptr<io::ByteSource>> plain = io::Uncompressed(std::move(source));
  if (!plain.ok()) return io::AboutFile(name, plain.status());
  io::JsonInput input(**plain);
  CaseHandler handler(input);
  absl::Status status = io::ReadJsonEvents(input, handler, name, "a list of cases");
  if (!status.ok()) return status;
  std::vector<WorkspaceCase> cases = handler.Take();
  if (!cases.empty()) return cases;
  return io::AboutFile(name, absl::InvalidArgumentError("no cases, expected one or more"));
}

}  // namespace
}  // namespace tidepool::kernels

namespace tidepool {

absl::StatusOr<std::vector<WorkspaceCase>> ReadWorkspaceCases(const std::filesystem::path& path) {
  absl::StatusOr<std::unique_ptr<io::ByteSource>> file =
      io::OpenFile(path.string(), "a list of cases");
  if (!file.ok()) return io::AboutFile(path.string(), file.status());
  return kernels::ReadFrom(*std::move(file), path.string());
}

absl::StatusOr<std::vector<WorkspaceCase>> ParseWorkspaceCases(std::string_view json,
                                                               std::string_view name) {
  return kernels::ReadFrom(io::FromMemory(json), std::string(name));
}

}  // namespace tidepool

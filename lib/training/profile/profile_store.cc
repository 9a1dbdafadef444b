// SPDX-License-Identifier: Apache-2.0
// Keeps measurements in SQLite: a table of tasks and a table of links.
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/training/profile/sqlite.h"
#include "tidepool/training/task_profile.h"

namespace tidepool {
namespace {

using profile::Database;
using profile::Statement;

// "tide" in ASCII, at a fixed place of the file; and the version of the tables.
constexpr std::int64_t kApplication = 0x74696465;
constexpr std::int64_t kVersion = 1;

// A writer holds the lock of a file for milliseconds.
constexpr absl::Duration kLongestWait = absl::Seconds(10);

// Another process may create the tables at the same time, so they are made in one transaction.
constexpr char kMakeTables[] = R"(
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS task_time (
  device TEXT NOT NULL, library TEXT NOT NULL, layer TEXT NOT NULL, layout TEXT NOT NULL,
  types TEXT NOT NULL, algorithm TEXT NOT NULL, samples INTEGER NOT NULL, seconds REAL NOT NULL,
  workspace_bytes INTEGER NOT NULL, runs INTEGER NOT NULL,
  PRIMARY KEY (device, library, layer, layout, types, algorithm, samples)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS link_time (
  device TEXT NOT NULL, library TEXT NOT NULL, direction TEXT NOT NULL,
  latency_seconds REAL NOT NULL, bytes_per_second REAL NOT NULL,
  PRIMARY KEY (device, library, direction)) WITHOUT ROWID;
PRAGMA application_id = 1953064037;
PRAGMA user_version = 1;
COMMIT;
)";

absl::StatusOr<std::int64_t> NumberOf(Database& database, const char* pragma) {
  Statement statement(database, pragma);
  const absl::StatusOr<bool> row = statement.Step();
  if (!row.ok()) return row.status();
  return *row ? statement.Whole(0) : 0;
}

// Recognises an empty database, which SQLite makes of a missing or empty file.
absl::StatusOr<bool> IsEmpty(Database& database) {
  const auto tables = NumberOf(database, "SELECT count(*) FROM sqlite_schema");
  if (!tables.ok()) return tables.status();
  return *tables == 0;
}

// Accepts a profile, and an empty database that no program has marked as its own.
absl::Status CheckApplication(Database& database, bool is_empty) {
  const absl::StatusOr<std::int64_t> application = NumberOf(database, "PRAGMA application_id");
  if (!application.ok()) return application.status();
  const absl::StatusOr<std::int64_t> version = NumberOf(database, "PRAGMA user_version");
  if (!version.ok()) return version.status();
  if (is_empty && *application == 0 && *version == 0) return absl::OkStatus();
  if (*application != kApplication) {
    return absl::InvalidArgumentError("a database of another program, expected a profile");
  }
  if (*version == kVersion) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a profile of version ", *version, ", expected version ", kVersion));
}

// Another process may make the tables meanwhile, so all is read in one transaction.
absl::StatusOr<bool> IsEmptyProfile(Database& database) {
  if (absl::Status status = database.Run("BEGIN"); !status.ok()) return status;
  absl::StatusOr<bool> is_empty = IsEmpty(database);
  absl::Status status = is_empty.status();
  if (status.ok()) status = CheckApplication(database, *is_empty);
  status.Update(database.Run("COMMIT"));
  if (!status.ok()) return status;
  return is_empty;
}

absl::Status Prepare(Database& database) {
  const absl::StatusOr<bool> is_empty = IsEmptyProfile(database);
  if (!is_empty.ok()) return is_empty.status();
  // The rollback journal: a write-ahead log does not work on network file systems.
  absl::Status status = database.Run("PRAGMA journal_mode = DELETE");
  return status.ok() && *is_empty ? database.Run(kMakeTables) : status;
}

void BindMachine(const ProfiledMachine& machine, Statement& statement) {
  statement.Bind(machine.device);
  statement.Bind(machine.library);
}

void BindLayer(const ProfileKey& key, Statement& statement) {
  BindMachine(key.machine, statement);
  for (const std::string* text : {&key.layer, &key.layout, &key.types}) statement.Bind(*text);
}

void BindKey(const ProfileKey& key, Statement& statement) {
  BindLayer(key, statement);
  statement.Bind(key.algorithm);
  statement.Bind(key.samples);
}

void BindTime(const TaskTime& time, Statement& statement) {
  statement.Bind(time.seconds);
  statement.Bind(time.workspace_bytes);
  statement.Bind(time.runs);
}

std::string_view DirectionName(CopyDirection direction) {
  return direction == CopyDirection::kToDevice ? "in" : "out";
}

class SqliteStore final : public ProfileStore {
 public:
  explicit SqliteStore(std::string name) : name_(std::move(name)) {}

  absl::Status Open(absl::Duration longest_wait) {
    absl::Status status = database_.Open(name_, longest_wait);
    if (name_.empty()) return status;
    return About(status.ok() ? Prepare(database_) : status);
  }

  absl::StatusOr<std::optional<TaskTime>> Find(const ProfileKey& key) override {
    Statement statement(database_,
                        "SELECT seconds, workspace_bytes, runs FROM task_time WHERE device = ? AND "
                        "library = ? AND layer = ? AND layout = ? AND types = ? AND algorithm = ? "
                        "AND samples = ?");
    BindKey(key, statement);
    const absl::StatusOr<bool> row = statement.Step();
    if (!row.ok()) return About(row.status());
    if (!*row) return std::nullopt;
    return TimeOf(statement, 0);
  }

  absl::StatusOr<std::vector<LayerTime>> FindAll(const ProfileKey& key) override {
    Statement statement(database_,
                        "SELECT algorithm, samples, seconds, workspace_bytes, runs FROM task_time "
                        "WHERE device = ? AND library = ? AND layer = ? AND layout = ? AND types = "
                        "? ORDER BY algorithm, samples");
    BindLayer(key, statement);
    std::vector<LayerTime> times;
    while (true) {
      const absl::StatusOr<bool> row = statement.Step();
      if (!row.ok()) return About(row.status());
      if (!*row) return times;
      const absl::StatusOr<TaskTime> time = TimeOf(statement, 2);
      if (!time.ok()) return time.status();
      times.push_back({statement.Text(0), statement.Whole(1), *time});
    }
  }

  absl::StatusOr<std::optional<LinkTime>> FindLink(const ProfiledMachine& machine,
                                                   CopyDirection direction) override {
    Statement statement(database_,
                        "SELECT latency_seconds, bytes_per_second FROM link_time WHERE device = ? "
                        "AND library = ? AND direction = ?");
    BindMachine(machine, statement);
    statement.Bind(DirectionName(direction));
    const absl::StatusOr<bool> row = statement.Step();
    if (!row.ok()) return About(row.status());
    if (!*row) return std::nullopt;
    const LinkTime time = {statement.Number(0), statement.Number(1)};
    if (!(time.latency_seconds >= 0 && time.latency_seconds <= kMostTaskSeconds) ||
        !(time.bytes_per_second > 0 && time.bytes_per_second <= kMostLinkBytesPerSecond)) {
      return About(absl::InvalidArgumentError(
          absl::StrCat("a link of ", time.bytes_per_second, " bytes a second and a latency of ",
                       time.latency_seconds, " seconds, expected up to 10^18 and 0 to 10^9")));
    }
    return time;
  }

  absl::Status Put(const ProfileKey& key, const TaskTime& time) override {
    Statement statement(database_, "INSERT OR REPLACE INTO task_time VALUES (?,?,?,?,?,?,?,?,?,?)");
    BindKey(key, statement);
    BindTime(time, statement);
    return About(statement.Step().status());
  }

  absl::Status PutAll(const std::vector<std::pair<ProfileKey, TaskTime>>& times) override {
    return AllOrNone([&] {
      absl::Status status;
      for (const auto& [key, time] : times) {
        if (status.ok()) status = Put(key, time);
      }
      return status;
    });
  }

  absl::StatusOr<std::int64_t> Merge(const std::filesystem::path& path) override {
    // SQLite would create a missing file.
    if (std::error_code error; !std::filesystem::exists(path, error)) {
      return text::AboutFile(path.string(),
                             absl::InvalidArgumentError("no such file, expected a profile"));
    }
    SqliteStore other(path.string());
    if (absl::Status status = other.Open(kLongestWait); !status.ok()) return status;
    const int before = sqlite3_total_changes(database_.handle());
    const absl::Status status = AllOrNone([&] {
      const absl::Status tasks = CopyTasks(other);
      return tasks.ok() ? CopyLinks(other) : tasks;
    });
    if (!status.ok()) return status;
    return sqlite3_total_changes(database_.handle()) - before;
  }

  absl::Status PutLink(const ProfiledMachine& machine, CopyDirection direction,
                       const LinkTime& time) override {
    Statement statement(database_, "INSERT OR REPLACE INTO link_time VALUES (?,?,?,?,?)");
    BindMachine(machine, statement);
    statement.Bind(DirectionName(direction));
    statement.Bind(time.latency_seconds);
    statement.Bind(time.bytes_per_second);
    return About(statement.Step().status());
  }

 private:
  // Runs work that writes, as one transaction.
  template <typename Work>
  absl::Status AllOrNone(Work work) {
    absl::Status status = About(database_.Run("BEGIN IMMEDIATE"));
    if (!status.ok()) return status;
    status = work();
    if (status.ok()) status = About(database_.Run("COMMIT"));
    if (!status.ok()) database_.Run("ROLLBACK").IgnoreError();
    return status;
  }

  absl::Status CopyTasks(SqliteStore& other) {
    Statement rows(other.database_,
                   "SELECT device, library, layer, layout, types, algorithm, samples, seconds, "
                   "workspace_bytes, runs FROM task_time");
    while (true) {
      const absl::StatusOr<bool> row = rows.Step();
      if (!row.ok()) return other.About(row.status());
      if (!*row) return absl::OkStatus();
      const absl::StatusOr<TaskTime> time = other.TimeOf(rows, 7);
      if (!time.ok()) return time.status();
      const ProfileKey key = {{rows.Text(0), rows.Text(1)},
                              rows.Text(2),
                              rows.Text(3),
                              rows.Text(4),
                              rows.Text(5),
                              rows.Whole(6)};
      Statement put(database_,
                    "INSERT INTO task_time VALUES (?,?,?,?,?,?,?,?,?,?) ON CONFLICT (device, "
                    "library, layer, layout, types, algorithm, samples) DO UPDATE SET seconds = "
                    "excluded.seconds, workspace_bytes = excluded.workspace_bytes, runs = "
                    "excluded.runs WHERE excluded.runs > runs");
      BindKey(key, put);
      BindTime(*time, put);
      if (absl::Status status = put.Step().status(); !status.ok()) return About(status);
    }
  }

  absl::Status CopyLinks(SqliteStore& other) {
    Statement rows(other.database_,
                   "SELECT device, library, direction, latency_seconds, bytes_per_second FROM "
                   "link_time");
    while (true) {
      const absl::StatusOr<bool> row = rows.Step();
      if (!row.ok()) return other.About(row.status());
      if (!*row) return absl::OkStatus();
      Statement put(database_, "INSERT OR IGNORE INTO link_time VALUES (?,?,?,?,?)");
      for (const int column : {0, 1, 2}) put.Bind(rows.Text(column));
      for (const int column : {3, 4}) put.Bind(rows.Number(column));
      if (absl::Status status = put.Step().status(); !status.ok()) return About(status);
    }
  }

  // Returns the time that a row has from column `first` on.
  absl::StatusOr<TaskTime> TimeOf(const Statement& statement, int first) const {
    const TaskTime time = {statement.Number(first), statement.Whole(first + 1),
                           statement.Whole(first + 2)};
    if (!(time.seconds >= 0 && time.seconds <= kMostTaskSeconds) || time.workspace_bytes < 0 ||
        time.workspace_bytes > kMostDataBytes) {
      return About(absl::InvalidArgumentError(
          absl::StrCat("a time of ", time.seconds, " seconds with a workspace of ",
                       time.workspace_bytes, " bytes, expected 0 to 10^9 and 0 to 2^50")));
    }
    return time;
  }

  absl::Status About(const absl::Status& status) const {
    return status.ok() ? status : text::AboutFile(name_, status);
  }

  std::string name_;
  Database database_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ProfileStore>> ProfileStore::Open(
    const std::filesystem::path& path) {
  return Open(path, kLongestWait);
}

absl::StatusOr<std::unique_ptr<ProfileStore>> ProfileStore::Open(const std::filesystem::path& path,
                                                                 absl::Duration longest_wait) {
  auto store = std::make_unique<SqliteStore>(path.string());
  if (absl::Status status = store->Open(longest_wait); !status.ok()) return status;
  return store;
}

}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// Calls SQLite.
#include "lib/training/profile/sqlite.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tidepool::profile {

absl::Status Database::Error(int code) const {
  const std::string what =
      absl::StrCat("SQLite: ", handle_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(handle_));
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED) {
    return absl::UnavailableError(absl::StrCat(what, ", expected the lock of the file within ",
                                               absl::FormatDuration(longest_wait_)));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, ", expected a profile that can be read and written"));
}

absl::Status Database::Open(const std::string& path, absl::Duration longest_wait) {
  // SQLite takes an empty path for a temporary database, and ":memory:" for one in memory.
  if (path.empty()) {
    return absl::InvalidArgumentError("no file for the profile, expected a path");
  }
  const std::string file = path.front() == '/' ? path : "./" + path;
  longest_wait_ = longest_wait;
  const int code =
      sqlite3_open_v2(file.c_str(), &handle_,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, nullptr);
  if (code != SQLITE_OK) return Error(code);
  Distrust();
  sqlite3_busy_timeout(handle_, static_cast<int>(absl::ToInt64Milliseconds(longest_wait)));
  return absl::OkStatus();
}

// Follows the page "Defense Against The Dark Arts" of SQLite, about files of others.
void Database::Distrust() {
  constexpr int kLongestValue = 16 << 20;
  for (const auto& [option, is_on] : {std::pair{SQLITE_DBCONFIG_DEFENSIVE, 1},
                                      {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                                      {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                                      {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0}}) {
    sqlite3_db_config(handle_, option, is_on, nullptr);
  }
  sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, kLongestValue);
}

absl::Status Database::Run(const char* sql) {
  const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

Statement::Statement(Database& database, const char* sql) : database_(database) {
  code_ = sqlite3_prepare_v2(database.handle(), sql, -1, &handle_, nullptr);
}

void Statement::Bind(std::string_view text) {
  if (code_ != SQLITE_OK) return;
  code_ = sqlite3_bind_text(handle_, ++bound_, text.data(), static_cast<int>(text.size()),
                            SQLITE_TRANSIENT);
}

void Statement::Bind(std::int64_t number) {
  if (code_ == SQLITE_OK) code_ = sqlite3_bind_int64(handle_, ++bound_, number);
}

void Statement::Bind(double number) {
  if (code_ == SQLITE_OK) code_ = sqlite3_bind_double(handle_, ++bound_, number);
}

absl::StatusOr<bool> Statement::Step() {
  if (code_ != SQLITE_OK) return database_.Error(code_);
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_.Error(code);
}

}  // namespace tidepool::profile

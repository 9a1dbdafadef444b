// SPDX-License-Identifier: Apache-2.0
// A database of SQLite, and a statement of it: errors become absl::Status.
#ifndef TIDEPOOL_LIB_TRAINING_PROFILE_SQLITE_H_
#define TIDEPOOL_LIB_TRAINING_PROFILE_SQLITE_H_

#include <sqlite3.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tidepool::profile {

class Database {
 public:
  Database() = default;
  ~Database() { sqlite3_close(handle_); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Opens or creates the file. Called once. Calls wait at most this long for another process. The
  // file may be hostile: its triggers do not run, its views are not read, and no value is longer
  // than 16 MiB.
  absl::Status Open(const std::string& path, absl::Duration longest_wait);
  // Runs statements without values.
  absl::Status Run(const char* sql);
  sqlite3* handle() const { return handle_; }
  // Returns the error of a call that returned `code`.
  absl::Status Error(int code) const;

 private:
  void Distrust();

  sqlite3* handle_ = nullptr;
  absl::Duration longest_wait_;
};

// One use of a statement. Values are bound in order from 1, columns are read from 0.
class Statement {
 public:
  Statement(Database& database, const char* sql);
  ~Statement() { sqlite3_finalize(handle_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void Bind(std::string_view text);
  void Bind(std::int64_t number);
  void Bind(double number);
  // Moves to the next row, and returns whether there is one. Returns the first error of all calls.
  absl::StatusOr<bool> Step();
  std::int64_t Whole(int column) const { return sqlite3_column_int64(handle_, column); }
  double Number(int column) const { return sqlite3_column_double(handle_, column); }
  std::string Text(int column) const {
    const unsigned char* const text = sqlite3_column_text(handle_, column);
    return text == nullptr ? "" : reinterpret_cast<const char*>(text);
  }

 private:
  Database& database_;
  sqlite3_stmt* handle_ = nullptr;
  int code_ = SQLITE_OK;
  int bound_ = 0;
};

}  // namespace tidepool::profile

#endif  // TIDEPOOL_LIB_TRAINING_PROFILE_SQLITE_H_

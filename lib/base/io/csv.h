// SPDX-License-Identifier: Apache-2.0
// CSV reader: reads record by record. A record is one line of RFC 4180 (quoted fields, LF or CRLF),
// and columns are found by name.
#ifndef TIDEPOOL_LIB_BASE_IO_CSV_H_
#define TIDEPOOL_LIB_BASE_IO_CSV_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/io/byte_source.h"

namespace tidepool::io {

class CsvReader {
 public:
  // `name` stands for the file in errors.
  CsvReader(std::unique_ptr<ByteSource> source, std::string name);

  // Reads the next record that is not blank. Returns false at the end of the file and on errors;
  // `status` tells which.
  bool Next();
  const absl::Status& status() const { return status_; }

  // Fields of the record; valid until the next call of Next.
  const std::vector<std::string_view>& fields() const { return fields_; }
  std::string_view field(int column) const {
    return column < 0 ? std::string_view() : fields_[column];
  }
  std::int64_t line() const { return line_; }
  // Returns the part of the file before the records of the current buffer, in [0, 1]; 0 when the
  // size of the file is unknown.
  double part_read() const { return part_read_; }

  // Uses the current record as the header: every later record must have as many fields.
  void UseAsHeader();
  bool HasColumn(std::string_view column) const { return Column(column) >= 0; }
  // Returns the index of a column, or -1.
  int Column(std::string_view column) const;
  // Returns an error at the header's line unless each column is there once.
  absl::Status RequireColumns(const std::vector<std::string_view>& columns) const;

  // Return InvalidArgument at the current line, or at `line`.
  absl::Status Error(std::string_view what) const { return ErrorAt(line_, what); }
  absl::Status ErrorAt(std::int64_t line, std::string_view what) const;

 private:
  bool NextLine(std::string_view* line);
  bool FillBuffer();
  void Split(std::string_view line);
  bool SplitQuoted(std::string_view line);
  bool TakePlain(std::string_view* line);
  bool TakeQuoted(std::string_view* line);
  bool Fail(std::string_view what);

  std::unique_ptr<ByteSource> source_;
  std::string name_;
  absl::Status status_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // of the bytes not yet consumed
  std::size_t end_ = 0;
  bool has_quotes_ = false;  // whether the buffer has any quote: most files have none
  bool at_end_ = false;
  double part_read_ = 0;
  std::int64_t line_ = 0;
  std::vector<std::string_view> fields_;
  std::string unquoted_;
  std::vector<std::string> header_;
};

// Parses a whole decimal number. Returns false for any other text or a number beyond 64 bits.
bool ParseInteger(std::string_view text, std::int64_t* value);
// Parses a size from 1 to `most` bytes. Returns InvalidArgument with that range otherwise.
absl::Status ParseBytes(std::string_view text, std::int64_t most, std::int64_t* bytes);

// Returns `text` as a CSV field, or InvalidArgument when it holds a line break.
absl::StatusOr<std::string> CsvField(std::string_view text);

}  // namespace tidepool::io

#endif  // TIDEPOOL_LIB_BASE_IO_CSV_H_

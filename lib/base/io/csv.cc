// SPDX-License-Identifier: Apache-2.0
// CSV reader: splits each line in place, and copies only lines with quotes.
#include "lib/base/io/csv.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/text/quote.h"

namespace tidepool::io {

namespace {
constexpr std::size_t kFirstBuffer = std::size_t{1} << 18;
constexpr std::size_t kLongestLine = std::size_t{1} << 20;
// Eight bytes at a time: fields are shorter than a call of memchr is worth.
constexpr std::size_t kWord = sizeof(std::uint64_t);

// Returns a word with the top bit of the first comma as its lowest set bit; 0 without a comma.
// Mycroft's test for a zero byte: a borrow makes false bits only above a true one.
std::uint64_t FirstComma(const char* bytes) {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, kWord);
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  word ^= kOnes * ',';
  return (word - kOnes) & ~word & (kOnes << 7);
}

// Returns the first comma from `field` on, or a place at or after `end`; reads up to 8 bytes there.
const char* NextComma(const char* field, const char* end) {
  for (; field < end; field += kWord) {
    const std::uint64_t comma = FirstComma(field);
    if (comma != 0) return field + std::countr_zero(comma) / 8;
  }
  return field;
}
}  // namespace

// Eight bytes after the contents let whole words be read.
CsvReader::CsvReader(std::unique_ptr<ByteSource> source, std::string name)
    : source_(std::move(source)), name_(std::move(name)), buffer_(kFirstBuffer + kWord) {}

bool CsvReader::Next() {
  std::string_view line;
  do {
    if (!NextLine(&line)) return false;
  } while (line.empty());
  fields_.clear();
  if (has_quotes_ && memchr(line.data(), '"', line.size()) != nullptr) {
    if (!SplitQuoted(line)) return false;
  } else {
    Split(line);
  }
  if (!header_.empty() && fields_.size() != header_.size()) {
    const bool is_cut_off =
        fields_.size() < header_.size() && at_end_ && begin_ == end_ && buffer_[end_ - 1] != '\n';
    return Fail(absl::StrCat(is_cut_off ? "the file is cut off: " : "", fields_.size(),
                             " fields, expected ", header_.size(), ": ",
                             absl::StrJoin(header_, ",")));
  }
  return true;
}

// Splits a line of the buffer that has no quotes.
void CsvReader::Split(std::string_view line) {
  const char* field = line.data();
  const char* const end = field + line.size();
  for (const char* comma = NextComma(field, end); comma < end; comma = NextComma(field, end)) {
    fields_.emplace_back(field, static_cast<std::size_t>(comma - field));
    field = comma + 1;
  }
  fields_.emplace_back(field, static_cast<std::size_t>(end - field));
}

bool CsvReader::NextLine(std::string_view* line) {
  std::size_t searched = 0;
  for (;;) {
    const char* const start = buffer_.data() + begin_;
    const void* newline = memchr(start + searched, '\n', end_ - begin_ - searched);
    if (newline != nullptr) {
      const auto length = static_cast<std::size_t>(static_cast<const char*>(newline) - start);
      *line = {start, length};
      begin_ += length + 1;
      break;
    }
    searched = end_ - begin_;
    if (at_end_) {
      if (searched == 0) return false;
      *line = {start, searched};
      begin_ = end_;
      break;
    }
    if (!FillBuffer()) return false;
  }
  ++line_;
  if (!line->empty() && line->back() == '\r') line->remove_suffix(1);
  if (line_ == 1 && line->substr(0, 3) == "\xEF\xBB\xBF") line->remove_prefix(3);
  return true;
}

bool CsvReader::FillBuffer() {
  std::copy(buffer_.begin() + begin_, buffer_.begin() + end_, buffer_.begin());
  end_ -= begin_;
  begin_ = 0;
  if (end_ + kWord == buffer_.size()) {
    if (end_ >= kLongestLine) {
      ++line_;
      return Fail("a line of more than 1 MiB, expected at most 1 MiB");
    }
    buffer_.resize(2 * end_ + kWord);
  }
  if (source_->file_size() > 0) {
    part_read_ = std::min(1.0, static_cast<double>(source_->file_bytes()) /
                                   static_cast<double>(source_->file_size()));
  }
  absl::StatusOr<std::size_t> got =
      source_->Read(buffer_.data() + end_, buffer_.size() - kWord - end_);
  if (!got.ok()) {
    ++line_;
    return Fail(std::string(got.status().message()));
  }
  end_ += *got;
  has_quotes_ = memchr(buffer_.data(), '"', end_) != nullptr;
  at_end_ = *got == 0;
  return true;
}

bool CsvReader::SplitQuoted(std::string_view line) {
  unquoted_.clear();
  unquoted_.reserve(line.size());  // the fields point into it
  for (;;) {
    const std::size_t begin = unquoted_.size();
    const bool ok = !line.empty() && line.front() == '"' ? TakeQuoted(&line) : TakePlain(&line);
    if (!ok) return false;
    fields_.emplace_back(unquoted_.data() + begin, unquoted_.size() - begin);
    if (line.empty()) return true;
    line.remove_prefix(1);  // the comma
  }
}

// Moves a field without quotes from the front of `line` to `unquoted_`.
bool CsvReader::TakePlain(std::string_view* line) {
  const std::string_view text = line->substr(0, line->find(','));
  if (text.find('"') != std::string_view::npos) {
    return Fail("a quote inside an unquoted field: put the whole field in quotes");
  }
  unquoted_ += text;
  line->remove_prefix(text.size());
  return true;
}

// Moves a quoted field, in which two quotes stand for one quote, from the front of `line` to
// `unquoted_`.
bool CsvReader::TakeQuoted(std::string_view* line) {
  do {
    line->remove_prefix(1);
    const std::size_t close = line->find('"');
    if (close == std::string_view::npos) {
      return Fail("a quoted field without a closing quote on the same line");
    }
    unquoted_ += line->substr(0, close);
    line->remove_prefix(close + 1);
    if (!line->empty() && line->front() == '"') unquoted_ += '"';
  } while (!line->empty() && line->front() == '"');
  if (line->empty() || line->front() == ',') return true;
  return Fail("text after a closing quote, expected a comma");
}

bool CsvReader::Fail(std::string_view what) {
  status_ = Error(what);
  return false;
}

void CsvReader::UseAsHeader() { header_.assign(fields_.begin(), fields_.end()); }

int CsvReader::Column(std::string_view column) const {
  const auto found = std::find(header_.begin(), header_.end(), column);
  return found == header_.end() ? -1 : static_cast<int>(found - header_.begin());
}

absl::Status CsvReader::RequireColumns(const std::vector<std::string_view>& columns) const {
  for (const std::string_view column : columns) {
    const auto count = std::count(header_.begin(), header_.end(), column);
    if (count == 1) continue;
    std::string expected;
    for (const std::string_view name : columns)
      absl::StrAppend(&expected, expected.empty() ? "" : ",", std::string(name));
    return Error(absl::StrCat(count == 0 ? "no column " : "more than one column ",
                              text::Quoted(column), ", expected a header with ", expected));
  }
  return absl::OkStatus();
}

absl::Status CsvReader::ErrorAt(std::int64_t line, std::string_view what) const {
  return text::AboutLine(name_, line, absl::InvalidArgumentError({what.data(), what.size()}));
}

bool ParseInteger(std::string_view text, std::int64_t* value) {
  // Fast path: nearly all numbers are short and unsigned, and std::from_chars checks each digit for
  // overflow.
  constexpr std::size_t kCannotOverflow = 18;
  if (text.size() - 1 < kCannotOverflow) {
    std::uint64_t number = 0;
    bool digits = true;
    for (const char c : text) {
      const auto digit = static_cast<unsigned>(c - '0');
      digits &= digit < 10;
      number = number * 10 + digit;
    }
    *value = static_cast<std::int64_t>(number);
    if (digits) return true;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

absl::Status ParseBytes(std::string_view text, std::int64_t most, std::int64_t* bytes) {
  if (ParseInteger(text, bytes) && *bytes >= 1 && *bytes <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("size ", text::Quoted(text), ", expected 1 to ", most, " bytes"));
}

absl::StatusOr<std::string> CsvField(std::string_view text) {
  if (text.find_first_of("\n\r") != std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("id ", text::Quoted(text), " holds a line break, which CSV cannot represent"));
  }
  if (text.find_first_of(",\"") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

}  // namespace tidepool::io

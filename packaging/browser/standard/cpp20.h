// SPDX-License-Identifier: Apache-2.0
// Functions of C++20 that the readers use and that libc++ 13, the standard library of
// Emscripten 3.1.6, lacks. The build includes this file before each source.
#ifndef TIDEPOOL_PACKAGING_BROWSER_STANDARD_CPP20_H_
#define TIDEPOOL_PACKAGING_BROWSER_STANDARD_CPP20_H_

#include <version>

#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 15000

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <type_traits>

namespace std {

template <typename To, typename From>
To bit_cast(const From& from) noexcept {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

template <typename Array>
unique_ptr<Array> make_unique_for_overwrite(size_t size) {
  return unique_ptr<Array>(new remove_extent_t<Array>[size]);
}

// Writes the fewest digits that read back the same, without an exponent unless that is shorter. The
// text needs 32 bytes.
inline to_chars_result to_chars(char* begin, char* end, double number) {
  const size_t room = static_cast<size_t>(end - begin);
  int digits = 0;
  int length = 0;
  do {
    length = snprintf(begin, room, "%.*e", digits, number);
  } while (strtod(begin, nullptr) != number && ++digits < 17);
  const char* const exponent = strchr(begin, 'e');
  if (exponent == nullptr) return {begin + length, {}};  // inf, nan
  const int decimals = max(0, digits - atoi(exponent + 1));
  char plain[512];
  const int plain_length = snprintf(plain, sizeof(plain), "%.*f", decimals, number);
  if (plain_length <= length) memcpy(begin, plain, static_cast<size_t>(plain_length));
  return {begin + min(length, plain_length), {}};
}

namespace ranges {

template <typename Range, typename Value, typename Part = identity>
auto find(Range&& range, const Value& value, Part part = {}) {
  return std::find_if(begin(range), end(range),
                      [&](const auto& item) { return invoke(part, item) == value; });
}

template <typename Range, typename Predicate>
bool any_of(Range&& range, Predicate predicate) {
  return std::any_of(begin(range), end(range), predicate);
}

template <typename Range, typename Predicate>
bool none_of(Range&& range, Predicate predicate) {
  return std::none_of(begin(range), end(range), predicate);
}

template <typename Range>
auto max_element(Range&& range) {
  return std::max_element(begin(range), end(range));
}

template <typename Range>
auto adjacent_find(Range&& range) {
  return std::adjacent_find(begin(range), end(range));
}

template <typename Range>
void sort(Range&& range) {
  std::sort(begin(range), end(range));
}

template <typename Range, typename Part>
void sort(Range&& range, std::less<> less, Part part) {
  std::sort(begin(range), end(range),
            [&](const auto& a, const auto& b) { return less(invoke(part, a), invoke(part, b)); });
}

template <typename Range, typename Value, typename Part>
auto lower_bound(Range&& range, const Value& value, std::less<> less, Part part) {
  return std::lower_bound(begin(range), end(range), value, [&](const auto& item, const Value& at) {
    return less(invoke(part, item), at);
  });
}

template <typename Range, typename Value, typename Part>
auto upper_bound(Range&& range, const Value& value, std::less<> less, Part part) {
  return std::upper_bound(begin(range), end(range), value, [&](const Value& at, const auto& item) {
    return less(at, invoke(part, item));
  });
}

template <typename Range, typename Part>
void stable_sort(Range&& range, std::less<> less, Part part) {
  std::stable_sort(begin(range), end(range), [&](const auto& a, const auto& b) {
    return less(invoke(part, a), invoke(part, b));
  });
}

template <typename Range, typename Part>
auto is_sorted_until(Range&& range, std::less<> less, Part part) {
  return std::is_sorted_until(begin(range), end(range), [&](const auto& a, const auto& b) {
    return less(invoke(part, a), invoke(part, b));
  });
}

}  // namespace ranges
}  // namespace std

#endif  // _LIBCPP_VERSION

#endif  // TIDEPOOL_PACKAGING_BROWSER_STANDARD_CPP20_H_

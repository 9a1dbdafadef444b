// SPDX-License-Identifier: Apache-2.0
// Radix sort from the least significant digit, limited to the digits in which the times differ.
#include "lib/trace/model/order_by_time.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

namespace tidepool::trace {
namespace {

constexpr int kDigitBits = 11;
constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;

// Moves `from` to `to` in the order of the digit at `shift`.
void SortByDigit(const std::vector<std::uint64_t>& from, int shift,
                 std::vector<std::uint64_t>& to) {
  std::array<std::uint32_t, kDigits + 1> begins{};
  const auto digit = [&](std::uint64_t key) { return key >> shift & (kDigits - 1); };
  for (const std::uint64_t key : from) ++begins[digit(key) + 1];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  for (const std::uint64_t key : from) to[begins[digit(key)]++] = key;
}

}  // namespace

std::vector<std::uint32_t> OrderByTime(const std::vector<std::int64_t>& times) {
  std::vector<std::uint32_t> order(times.size());
  std::iota(order.begin(), order.end(), 0U);
  if (std::is_sorted(times.begin(), times.end())) return order;
  const auto [earliest, latest] = std::minmax_element(times.begin(), times.end());
  const auto since_earliest = [first = static_cast<std::uint64_t>(*earliest)](std::int64_t time) {
    return static_cast<std::uint64_t>(time) - first;  // a signed difference could overflow
  };
  // A key is a time in the high bits and its index in the low bits.
  const int index_bits = std::bit_width(times.size());
  const int key_bits = std::bit_width(since_earliest(*latest)) + index_bits;
  if (key_bits > 64) {
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return times[a] < times[b]; });
    return order;
  }
  std::vector<std::uint64_t> keys(times.size());
  for (const std::uint32_t index : order) {
    keys[index] = since_earliest(times[index]) << index_bits | index;
  }
  std::vector<std::uint64_t> sorted(keys.size());
  for (int shift = index_bits; shift < key_bits; shift += kDigitBits) {
    SortByDigit(keys, shift, sorted);
    keys.swap(sorted);
  }
  std::transform(keys.begin(), keys.end(), order.begin(), [&](std::uint64_t key) {
    return static_cast<std::uint32_t>(key & ((std::uint64_t{1} << index_bits) - 1));
  });
  return order;
}

}  // namespace tidepool::trace

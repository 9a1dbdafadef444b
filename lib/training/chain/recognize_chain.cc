// SPDX-License-Identifier: Apache-2.0
// Tells chains from other files by the first key of the object.
#include <array>
#include <memory>
#include <string_view>

#include "lib/base/io/byte_source.h"
#include "lib/training/chain/check_chain.h"
#include "tidepool/training/chain.h"

namespace tidepool {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

std::string_view WithoutSpaces(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpaces);
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

// Returns the first key of an object; empty for another text.
std::string_view FirstKey(std::string_view text) {
  text = WithoutSpaces(text);
  if (!text.starts_with('{')) return {};
  text = WithoutSpaces(text.substr(1));
  if (!text.starts_with('"')) return {};
  const std::size_t end = text.find('"', 1);
  return end == std::string_view::npos ? std::string_view() : text.substr(1, end - 1);
}

}  // namespace

bool IsChainFile(const std::filesystem::path& path) {
  absl::StatusOr<std::unique_ptr<io::ByteSource>> file = io::OpenFile(path.string(), "a chain");
  if (!file.ok()) return false;
  const absl::StatusOr<std::unique_ptr<io::ByteSource>> plain = io::Uncompressed(*std::move(file));
  if (!plain.ok()) return false;
  std::array<char, 4096> begin;
  const absl::StatusOr<std::size_t> size = io::ReadFully(**plain, begin.data(), begin.size());
  return size.ok() && chain::IsChainKey(FirstKey({begin.data(), *size}));
}

}  // namespace tidepool

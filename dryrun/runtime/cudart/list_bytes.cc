// SPDX-License-Identifier: Apache-2.0
#include "dryrun/runtime/cudart/list_bytes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dryrun/runtime/cudart/kernel_arguments.h"
#include "dryrun/runtime/cudart/kernel_name.h"

namespace tidepool::cudart_host {
namespace {

constexpr std::int64_t kChunk = 65536;  // elements of a block

// TensorListMetadata and its like: addresses[lists][tensors], the elements of each tensor, perhaps
// a scalar or an address for each, the tensor of each block, and which of its chunks.
struct Lists {
  std::int64_t lists = 0;
  std::int64_t tensors = 0;
  std::int64_t others = 0;  // bytes between elements and blocks
  std::int64_t blocks = 0;
  std::int64_t size = 0;  // of the number of a tensor
};

// Returns the elements of all blocks, or -1 where the metadata has another layout.
std::int64_t ElementsOf(const Lists& layout, const void* metadata, std::int64_t grid) {
  if (grid > layout.blocks) return -1;
  const std::int64_t counts = layout.lists * layout.tensors * 8;
  const std::int64_t numbers = counts + layout.tensors * 8 + layout.others;
  const std::int64_t chunks = (numbers + layout.blocks * layout.size + 3) / 4 * 4;
  std::int64_t elements = 0;
  for (std::int64_t i = 0; i < grid; ++i) {
    const auto number = static_cast<std::size_t>(numbers + i * layout.size);
    const std::int64_t tensor =
        layout.size == 1 ? At<std::uint8_t>(metadata, number) : At<std::uint16_t>(metadata, number);
    if (tensor >= layout.tensors) return -1;
    const auto count = At<std::int64_t>(metadata, static_cast<std::size_t>(counts + tensor * 8));
    const std::int64_t begin =
        kChunk * At<std::int32_t>(metadata, static_cast<std::size_t>(chunks + i * 4));
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    if (begin < 0 || begin >= count || count > kMost) return -1;
    elements += std::min(kChunk, count - begin);
  }
  return elements;
}

// The layouts for arguments of 4 KB, and from PyTorch 2.12 on with CUDA 13 for those of 32 KB.
std::vector<Lists> LayoutsOf(const NameParts& metadata) {
  struct Room {
    std::array<std::int64_t, 5> tensors;
    std::int64_t with_scalars;
    std::int64_t blocks, size;
  };
  constexpr std::array<Room, 2> kRooms = {
      {{{110, 64, 48, 36, 30}, 96, 320, 1}, {{770, 448, 336, 252, 210}, 672, 2240, 2}}};
  const std::int64_t lists =
      NumberAfter(metadata.templates.empty() ? "" : metadata.templates.back(), "");
  if (lists < 1 || lists > 5) return {};
  const bool has_scalars = metadata.name.starts_with("TensorListScalarList");
  const bool has_steps = metadata.name.starts_with("FusedOptimizer");
  std::vector<Lists> found;
  for (const Room& room : kRooms) {
    const std::int64_t tensors = has_scalars && lists == 1
                                     ? room.with_scalars
                                     : room.tensors[static_cast<std::size_t>(lists - 1)];
    const std::int64_t other = has_scalars ? SizeOfType(metadata.templates[0]) : has_steps ? 8 : 0;
    found.push_back({.lists = lists,
                     .tensors = tensors,
                     .others = tensors * other,
                     .blocks = room.blocks,
                     .size = room.size});
  }
  return found;
}

// Returns the bytes that the function moves for an element of each tensor. Fused optimizers read
// all lists and write all but the gradients. The others end with the lists that they read, and the
// one that they write.
std::int64_t BytesOfLists(std::string_view type, std::int64_t lists) {
  const NameParts function = PartsOfType(type);
  const std::int64_t size = SizeOfType(TextOf(function.templates, 0));
  if (function.name.starts_with("Fused")) return (2 * lists - 1) * size;
  if (function.name == "ZeroFunctor" || function.name.starts_with("Lp")) return size;
  if (function.name == "CopyFunctor") return size + SizeOfType(TextOf(function.templates, 1));
  const std::size_t count = function.templates.size();
  return count < 3 ? -1 : (NumberAfter(function.templates[count - 2], "") + 1) * size;
}

}  // namespace

std::int64_t OfLists(const NameParts& kernel, const KernelLaunch& launch) {
  for (const Lists& layout : LayoutsOf(PartsOfType(TextOf(kernel.templates, 0)))) {
    const std::int64_t elements = ElementsOf(layout, launch.arguments[0], launch.grid.x);
    if (elements >= 0) return elements * BytesOfLists(TextOf(kernel.templates, 1), layout.lists);
  }
  return -1;
}

}  // namespace tidepool::cudart_host

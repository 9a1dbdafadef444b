// SPDX-License-Identifier: Apache-2.0
// Categories: the purpose of each allocation of a training step, guessed from its stack, its
// lifetime and the marks around it, or told by the user's regular expressions.
//
// Functions are thread-safe.
#ifndef TIDEPOOL_TRACE_CATEGORIES_H_
#define TIDEPOOL_TRACE_CATEGORIES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tidepool/export.h"
#include "tidepool/trace/composition.h"
#include "tidepool/trace/trace.h"

namespace tidepool {

// A category of the user. `matches` gets a frame as "FILE:LINE NAME", with the whole path, or
// "NAME" for a frame without a file.
struct CategoryRule {
  std::string name;
  std::function<bool(const std::string& frame)> matches;
};

// The categories of a trace: names, and for each allocation the index of its category's name.
struct TraceCategories {
  std::vector<std::string> names;
  std::vector<std::uint32_t> of_allocations;
};

// Returns the category of each allocation. The first rule that matches any frame of the stack
// decides. Without one, the phase in which the memory was allocated and the time of its free
// decide:
//
// | phase             | never freed       | freed in a later phase | freed before |
// |-------------------|-------------------|------------------------|--------------|
// | forward           | activations       | activations            | temporary    |
// | backward          | gradients         | gradients              | temporary    |
// | optimizer         | optimizer state   | temporary              | temporary    |
// | loading, creation | weights           | temporary              | temporary    |
//
// The stack tells the phase: torch/optim/, autograd, `backward`, `forward`, modules that are made,
// moved or loaded. Without such a frame an open mark tells it ("backward", "optimizer", ...).
// Memory without a stack, in a history with stacks, is of the backward pass: autograd's threads run
// no Python. Memory from before the recording is "before recording", other memory "unknown".
// O((events + frames) * rules).
TIDEPOOL_EXPORT TraceCategories Categorize(const Trace& trace,
                                           const std::vector<CategoryRule>& rules);

// Returns the bytes of `allocations` by category, in the order of `categories.names`, without empty
// ones. `alignment` is a power of two. O(allocations).
TIDEPOOL_EXPORT std::vector<NamedBytes> BytesByCategory(
    const Trace& trace, const TraceCategories& categories,
    const std::vector<std::uint32_t>& allocations, std::int64_t alignment);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_CATEGORIES_H_

// SPDX-License-Identifier: Apache-2.0
// Frames of stacks: which ones explain an allocation, and which one names it.
#ifndef TIDEPOOL_TRACE_FRAMES_H_
#define TIDEPOOL_TRACE_FRAMES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tidepool/export.h"
#include "tidepool/trace/trace.h"

namespace tidepool {

// Whether a frame is of the Python interpreter, of the start of a thread, of the stack unwinder, of
// PyTorch's dispatcher or of its allocator, and so explains no allocation. The texts are those of
// `_frame_filter` in PyTorch's torch/cuda/_memory_viz.py, and more. Thread-safe.
TIDEPOOL_EXPORT bool IsMachineryFrame(std::string_view name, std::string_view file);

// Removes such frames from all stacks. The tag of a stack becomes that of its innermost frame that
// is left, or 0. O(frames + allocations).
TIDEPOOL_EXPORT void RemoveMachineryFrames(Trace& trace);

// The frames that name allocations: of each stack the innermost frame of the user's own Python
// code. Stacks without one take, in this order, the innermost frame of another package's Python
// code, of PyTorch's or Python's own code, of a node of the backward pass in C++
// ("MulBackward0::apply"), or of any code that is no machinery.
// Thread-safe after construction.
class TIDEPOOL_EXPORT FrameNames {
 public:
  // Keeps a reference to `trace`. O(frames).
  explicit FrameNames(const Trace& trace);

  // Returns the tag that names the stack of `tag`; 0 for 0.
  TraceTag Naming(TraceTag tag) const { return tag == 0 ? 0 : naming_[tag - 1]; }
  // Returns the name of the stack of `tag`, such as "models.py:174 update_nodes" for Python and
  // "MulBackward0::apply" for other code; "(no stack)" for 0. The text is as in the file: escape it
  // for a terminal.
  std::string Name(TraceTag tag) const;
  // Returns the name of an allocation: that of its stack, or "allocated before recording began".
  std::string NameOfAllocation(std::uint32_t allocation) const;

 private:
  const Trace& trace_;
  std::vector<TraceTag> naming_;
};

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_FRAMES_H_

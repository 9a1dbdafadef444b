// SPDX-License-Identifier: Apache-2.0
// Frames: texts that tell the owner of a frame's code, and the choice of one frame for each stack.
#include "tidepool/trace/frames.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace tidepool {
namespace {

constexpr auto kMachineryNames = std::to_array<std::string_view>(
    {"unwind::unwind", "CapturedTraceback::gather", "gather_with_cpp", "_start",
     "__libc_start_main", "PyEval_", "PyObject_", "PyFunction_"});
constexpr auto kMachineryFiles = std::to_array<std::string_view>(
    {"core/boxing", "/Register", "/Redispatch", "pythonrun.c", "Modules/main.c", "Objects/call.c",
     "Objects/methodobject.c", "pycore_ceval.h", "ceval.c", "cpython/abstract.h"});

// Beginnings of names in C++: the way from an operator to the allocator, and the interpreter.
constexpr auto kMachineryPrefixes =
    std::to_array<std::string_view>({"c10::", "at::detail::", "THPVariable_", "THPFunction_",
                                     "torch::unwind", "_Py", "Py", "pymain_", "pyrun_"});
// Whole names in C and C++: the start of threads, and calls of the interpreter.
constexpr auto kMachineryFunctions = std::to_array<std::string_view>(
    {"clone", "clone3", "__clone", "start_thread", "execute_native_thread_routine", "thread_run",
     "cfunction_call", "cfunction_vectorcall_FASTCALL", "method_vectorcall", "slot_tp_call",
     "do_call_core", "type_call", "run_mod", "run_eval_code_obj"});
// The parts of a dry run inside the program, in the place of functions of PyTorch.
constexpr std::string_view kDryRunFiles = "/_tidepool_";
// Python's own code before that of the user: the start of threads and modules.
constexpr auto kStarters = std::to_array<std::string_view>(
    {"/threading.py", "/concurrent/futures/thread.py", "/runpy.py", "<frozen runpy>"});

// Parts of PyTorch, wherever it is installed.
constexpr auto kTorchFolders = std::to_array<std::string_view>(
    {"torch/nn/", "torch/autograd/", "torch/optim/", "torch/utils/", "torch/cuda/",
     "torch/distributed/", "torch/_", "torch/amp/", "torch/fx/", "torch/functional.py"});
// Folders of installed packages, and of Python's own library.
constexpr auto kPackageFolders =
    std::to_array<std::string_view>({"/site-packages/", "/dist-packages/"});
constexpr std::string_view kPythonLibrary = "/lib/python3";
// Programs that Python reads from its command line or from standard input.
constexpr auto kTypedPrograms = std::to_array<std::string_view>({"<string>", "<stdin>"});
// Modules that Inductor writes: ab/cabc... for a "c" and a hash of 51 digits of base 32.
constexpr std::size_t kGeneratedName = 52;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

template <std::size_t kSize>
bool ContainsAny(std::string_view text, const std::array<std::string_view, kSize>& parts) {
  return absl::c_any_of(parts, [&](std::string_view part) { return Contains(text, part); });
}

bool IsTorch(std::string_view file) {
  for (const std::string_view folder : kTorchFolders) {
    const std::size_t at = file.find(folder);
    if (at == 0 || (at != std::string_view::npos && file[at - 1] == '/')) return true;
  }
  return false;
}

bool IsGenerated(std::string_view file) {
  if (!file.ends_with(".py")) return false;
  file.remove_suffix(3);
  const std::size_t slash = file.rfind('/');
  if (slash == std::string_view::npos || slash < 2) return false;
  const std::string_view name = file.substr(slash + 1);
  return name.size() == kGeneratedName && file.substr(slash - 2, 2) == name.substr(1, 2) &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz234567") == std::string_view::npos;
}

// The rank of a frame as the name of its stack; smaller is better.
enum class Rank : std::uint8_t {
  kUser,
  kTyped,  // a program without a file, or a function that a library makes of text
  kPackage,
  kLibrary,
  kGradient,  // a node of the backward pass in C++
  kOther,
  kPlumbing,  // the way from an operator to the allocator, in C++
  kMachinery,
};
constexpr auto kPlumbing = std::to_array<std::string_view>(
    {"c10::", "at::detail::", "at::TensorIterator", "::create_out"});

Rank RankOf(std::string_view name, std::string_view file) {
  if (IsMachineryFrame(name, file) || file == kPurposeFile) return Rank::kMachinery;
  if (absl::c_linear_search(kTypedPrograms, file)) return Rank::kTyped;
  if (!file.ends_with(".py")) {
    if (Contains(name, "Backward") && Contains(name, "::apply(")) return Rank::kGradient;
    return ContainsAny(name, kPlumbing) ? Rank::kPlumbing : Rank::kOther;
  }
  if (IsTorch(file) || IsGenerated(file)) return Rank::kLibrary;
  if (ContainsAny(file, kPackageFolders)) return Rank::kPackage;
  return Contains(file, kPythonLibrary) ? Rank::kLibrary : Rank::kUser;
}

// Returns "MulBackward0::apply" for "torch::autograd::generated::MulBackward0::apply(...)": the
// last two parts of a C++ name, without parameters.
std::string ShortName(std::string_view name) {
  std::string text = absl::StrReplaceAll(absl::string_view(name.data(), name.size()),
                                         {{"(anonymous namespace)::", ""}});
  if (!Contains(text, "::")) return text;
  const std::size_t end = text.find_first_of("(<");
  if (end != std::string::npos && end > 0) text.resize(end);
  const std::size_t last = text.rfind("::");
  if (last == std::string::npos || last == 0) return text;
  const std::size_t before = text.rfind("::", last - 1);
  return before == std::string::npos ? text : text.substr(before + 2);
}

}  // namespace

bool IsMachineryFrame(std::string_view name, std::string_view file) {
  if (ContainsAny(name, kMachineryNames) || ContainsAny(file, kMachineryFiles)) return true;
  const auto ends_file = [&](std::string_view end) { return file.ends_with(end); };
  if (absl::c_any_of(kStarters, ends_file) || Contains(file, kDryRunFiles)) return true;
  if (file.ends_with(".py")) return false;
  const auto begins_name = [&](std::string_view begin) { return name.starts_with(begin); };
  return absl::c_any_of(kMachineryPrefixes, begins_name) ||
         absl::c_linear_search(kMachineryFunctions, name);
}

void RemoveMachineryFrames(Trace& trace) {
  std::vector<TraceTag> new_tags(trace.frames.size() + 1);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < trace.frames.size(); ++i) {
    TraceFrame frame = trace.frames[i];
    frame.caller = new_tags[frame.caller];
    new_tags[i + 1] = frame.caller;
    if (IsMachineryFrame(trace.frame_texts[frame.name], trace.frame_texts[frame.file])) continue;
    trace.frames[kept++] = frame;
    new_tags[i + 1] = static_cast<TraceTag>(kept);
  }
  trace.frames.resize(kept);
  for (TraceAllocation& allocation : trace.allocations) allocation.tag = new_tags[allocation.tag];
  for (TraceFailure& failure : trace.failures) failure.tag = new_tags[failure.tag];
}

// Callers come before the frames that they call, so one pass suffices.
FrameNames::FrameNames(const Trace& trace) : trace_(trace) {
  std::vector<Rank> ranks;
  ranks.reserve(trace.frames.size());
  naming_.reserve(trace.frames.size());
  for (std::size_t i = 0; i < trace.frames.size(); ++i) {
    const TraceFrame& frame = trace.frames[i];
    const Rank own = RankOf(trace.frame_texts[frame.name], trace.frame_texts[frame.file]);
    const bool has_better = frame.caller != 0 && ranks[frame.caller - 1] < own;
    ranks.push_back(has_better ? ranks[frame.caller - 1] : own);
    naming_.push_back(has_better ? naming_[frame.caller - 1] : static_cast<TraceTag>(i + 1));
  }
}

std::string FrameNames::Name(TraceTag tag) const {
  if (tag == 0) return "(no stack)";
  const TraceFrame& frame = trace_.frames[Naming(tag) - 1];
  const std::string name(trace_.frame_texts[frame.name]);
  std::string_view file = trace_.frame_texts[frame.file];
  if (file == kPurposeFile) return "(no stack)";
  if (file.empty()) return name.empty() ? "(unnamed)" : ShortName(name);
  if (!file.ends_with(".py") && Contains(name, "::")) return ShortName(name);
  file.remove_prefix(file.find_last_of('/') + 1);
  std::string place(file);
  if (frame.line > 0) absl::StrAppend(&place, ":", frame.line);
  return name.empty() ? place : absl::StrCat(place, " ", name);
}

std::string FrameNames::NameOfAllocation(std::uint32_t allocation) const {
  const TraceTag tag = trace_.allocations[allocation].tag;
  const bool is_earlier = static_cast<std::int64_t>(allocation) < trace_.earlier_allocations;
  if (tag == 0 && is_earlier && trace_.has_history) return "allocated before recording began";
  return Name(tag);
}

}  // namespace tidepool

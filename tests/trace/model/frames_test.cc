// SPDX-License-Identifier: Apache-2.0
// Frames that explain nothing, and the frames that name stacks.
#include "tidepool/trace/frames.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/trace/profiles.h"

namespace tidepool {
namespace {

struct NamedFrame {
  std::string name;
  std::string file = {};
  std::uint32_t line = 0;
};

const NamedFrame kUnwind = {"torch::unwind::unwind()", "", 0};
const NamedFrame kInterpreter = {"_PyEval_EvalFrameDefault", "Python/ceval.c", 8};
const NamedFrame kLinear = {"linear", "/x/lib/python3.10/site-packages/torch/nn/functional.py", 5};
const NamedFrame kBlock = {"forward", "/x/site-packages/timm/models/vit.py", 6};
const NamedFrame kModel = {"update_nodes", "/home/u/models.py", 181};
const NamedFrame kMain = {"main", "train.py", 3};

TraceTag Stack(TraceBuilder& builder, const std::vector<NamedFrame>& outermost_first) {
  TraceTag tag = 0;
  for (const NamedFrame& frame : outermost_first) {
    tag = *builder.Frame(tag, frame.name, frame.file, frame.line);
  }
  return tag;
}

std::string NameOf(const std::vector<NamedFrame>& outermost_first) {
  TraceBuilder builder(TraceFormat::kNative);
  const TraceTag tag = Stack(builder, outermost_first);
  const Trace trace = builder.Build();
  return FrameNames(trace).Name(tag);
}

TEST(Frames, OfInterpreterAndUnwinderAreMachinery) {
  EXPECT_TRUE(IsMachineryFrame(kUnwind.name, ""));
  EXPECT_TRUE(IsMachineryFrame("torch::CapturedTraceback::gather(bool, bool, bool)", ""));
  EXPECT_TRUE(IsMachineryFrame("f", "/build/Objects/call.c"));
  EXPECT_TRUE(IsMachineryFrame("f", "/build/aten/RegisterCUDA.cpp"));
  EXPECT_TRUE(IsMachineryFrame("indices", "/x/site-packages/dryrun/site/_tidepool_assumed.py"));
  EXPECT_FALSE(IsMachineryFrame("at::native::add", "add.cpp"));
  EXPECT_FALSE(IsMachineryFrame("start", "/home/u/call.py"));
}

TEST(Frames, TheInnermostFrameOfTheUserNamesAStack) {
  EXPECT_EQ(NameOf({kMain, kInterpreter, kModel, kLinear, kUnwind}), "models.py:181 update_nodes");
  EXPECT_EQ(NameOf({kMain, kBlock, kLinear, kUnwind}), "train.py:3 main");
  EXPECT_EQ(NameOf({kBlock, kLinear, kUnwind}), "vit.py:6 forward");
  EXPECT_EQ(NameOf({kLinear, kInterpreter, kUnwind}), "functional.py:5 linear");
  EXPECT_EQ(NameOf({{"torch/nn/modules.py", "torch/nn/modules/module.py", 1}, kMain}),
            "train.py:3 main");
  EXPECT_EQ(NameOf({{"torch::autograd::generated::MulBackward0::apply(std::vector<T>&&)"},
                    {"at::_ops::mul::call(at::Tensor const&)"},
                    {"c10::cuda::CUDACachingAllocator::malloc(unsigned long)"},
                    kUnwind}),
            "MulBackward0::apply");
  EXPECT_EQ(NameOf({{"aten::linear"}, {"c10::cuda::malloc"}, kUnwind}), "aten::linear");
  EXPECT_EQ(NameOf({kUnwind}), "unwind::unwind");
  EXPECT_EQ(NameOf({{"", "a/b.cc", 0}}), "b.cc");
  EXPECT_EQ(NameOf({{"", "", 0}}), "(unnamed)");
  EXPECT_EQ(NameOf({}), "(no stack)");
}

TEST(Frames, CodeThatInductorWroteNamesNoStackOfTheUser) {
  const std::string hash = "cgwbgx2xpkhlilvujo77p5t2juqpxhbosajv7cctqidk4gxofzfd";
  const NamedFrame generated = {"call", absl::StrCat("/tmp/torchinductor_u/gw/", hash, ".py"), 326};
  const NamedFrame runtime = {"backward", "/x/torch/_functorch/runtime_wrappers.py", 9};
  EXPECT_EQ(NameOf({kMain, kModel, runtime, generated}), "models.py:181 update_nodes");
  EXPECT_EQ(NameOf({kBlock, runtime, generated}), "vit.py:6 forward");
  EXPECT_EQ(NameOf({runtime, generated}), absl::StrCat(hash, ".py:326 call"));
  const NamedFrame alike = {"call", absl::StrCat("/home/u/ab/", hash, ".py"), 1};
  EXPECT_EQ(NameOf({kMain, alike}), absl::StrCat(hash, ".py:1 call"));
}

TEST(Frames, ProgramsWithoutAFileNameStacks) {
  const NamedFrame typed = {"<module>", "<stdin>", 3};
  EXPECT_EQ(NameOf({typed, kInterpreter, kLinear, kUnwind}), "<stdin>:3 <module>");
  EXPECT_EQ(NameOf({{"<module>", "<string>", 4}, kBlock, kLinear}), "<string>:4 <module>");
  EXPECT_EQ(NameOf({kMain, {"__init__", "<string>", 3}, kLinear}), "train.py:3 main");
}

TEST(Frames, AllocationsFromBeforeTheRecordingSaySo) {
  TraceBuilder builder(TraceFormat::kNative);
  ASSERT_TRUE(builder.Allocate("early", 1, Hint::kResident, "", 0).ok());
  builder.BeginRecording();
  ASSERT_TRUE(builder.Allocate("late", 1, Hint::kResident, "", 0).ok());
  Trace trace = builder.Build();
  EXPECT_EQ(FrameNames(trace).NameOfAllocation(0), "allocated before recording began");
  EXPECT_EQ(FrameNames(trace).NameOfAllocation(1), "(no stack)");
  trace.has_history = false;  // recording never began
  EXPECT_EQ(FrameNames(trace).NameOfAllocation(0), "(no stack)");
}

TEST(Frames, WithoutMachineryKeepTheirOrder) {
  TraceBuilder builder(TraceFormat::kNative);
  builder.SetTag(Stack(builder, {kMain, kInterpreter, kModel, kUnwind}));
  ASSERT_TRUE(builder.Allocate("a", 1, Hint::kResident, "", 0).ok());
  builder.SetTag(Stack(builder, {kUnwind}));
  ASSERT_TRUE(builder.Allocate("b", 1, Hint::kResident, "", 0).ok());
  builder.SetTag(Stack(builder, {kMain, kInterpreter}));
  ASSERT_TRUE(builder.Failure(1, Hint::kResident, "", 0).ok());
  Trace trace = builder.Build();
  RemoveMachineryFrames(trace);
  EXPECT_EQ(trace.frames.size(), 2);
  EXPECT_EQ(testing::StackText(trace, trace.allocations[0].tag),
            "train.py:3:main//home/u/models.py:181:update_nodes");
  EXPECT_EQ(trace.allocations[1].tag, 0);
  EXPECT_EQ(testing::StackText(trace, trace.failures[0].tag), "train.py:3:main");
}

}  // namespace
}  // namespace tidepool

// SPDX-License-Identifier: Apache-2.0
// Finds the library in the program itself, where that is linked statically, by its name, beside the
// installed tool, or in the build tree of the tool. The tool itself has no cuDNN.
#include "trace_replay/tune/cudnn_library.h"

#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <set>
#include <system_error>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

// Null in a program that loads the library.
extern "C" {
[[gnu::weak]] int tidepoolCudnnSetOption(const char* name, const char* value);
[[gnu::weak]] int tidepoolCudnnMeasure(const std::int64_t* sizes, std::int64_t* measured);
}

namespace tidepool::tool {
namespace {

constexpr char kLibrary[] = "libtidepool_cudnn_handle.so";

// The numbers of a convolution as TidepoolCudnnSizes has them (tidepool/cudnn.h).
using Sizes = std::array<std::int64_t, 16>;

// The functions of the library.
struct CudnnLibrary {
  int (*set_option)(const char* name, const char* value) = nullptr;
  int (*measure)(const std::int64_t* sizes, std::int64_t* measured) = nullptr;
};

Sizes SizesOf(const ConvolutionParameters& its, const ConvolutionLayout& layout) {
  return {its.n,
          its.c,
          its.h,
          its.w,
          its.k,
          its.r,
          its.s,
          its.stride_height,
          its.stride_width,
          its.padding_height,
          its.padding_width,
          its.dilation_height,
          its.dilation_width,
          its.groups,
          layout.is_nhwc ? 1 : 0,
          layout.is_half ? 1 : 0};
}

absl::StatusOr<CudnnLibrary> Load() {
  if (tidepoolCudnnMeasure != nullptr)
    return CudnnLibrary{tidepoolCudnnSetOption, tidepoolCudnnMeasure};
  std::error_code unknown;
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path();
  void* library = dlopen(kLibrary, RTLD_NOW);
  const std::string error = library == nullptr ? dlerror() : "";
  for (const char* const place : {"../lib", "../lib64", "../bindings/cudnn"}) {
    if (library == nullptr) library = dlopen((folder / place / kLibrary).c_str(), RTLD_NOW);
  }
  CudnnLibrary its;
  if (library != nullptr) {
    its.set_option =
        reinterpret_cast<decltype(its.set_option)>(dlsym(library, "tidepoolCudnnSetOption"));
    its.measure = reinterpret_cast<decltype(its.measure)>(dlsym(library, "tidepoolCudnnMeasure"));
  }
  if (its.set_option != nullptr && its.measure != nullptr) return its;
  return absl::InvalidArgumentError(absl::StrCat("--convolutions: ", absl::CHexEscape(error),
                                                 ", expected ", kLibrary,
                                                 " in the library path or beside the tool"));
}

absl::Status Set(const CudnnLibrary& library, const char* name, const std::string& value) {
  if (library.set_option(name, value.c_str()) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--convolutions: no ", name, " '",
                                                 absl::CHexEscape(value),
                                                 "', expected undivided, powerOfTwo, all, or "
                                                 "micro-batches such as 8,16,32"));
}

}  // namespace

absl::StatusOr<CudnnMeasurement> MeasureConvolutions(const TaskGraph& graph,
                                                     const ConvolutionLayout& layout,
                                                     const std::string& policy,
                                                     const std::string& store) {
  std::set<Sizes> convolutions;
  for (const GraphTask& task : graph.tasks) {
    const auto* const its = std::get_if<ConvolutionParameters>(&task.parameters);
    if (its != nullptr && its->n > 0 && task.operation != "transposed-conv") {
      convolutions.insert(SizesOf(*its, layout));
    }
  }
  const absl::StatusOr<CudnnLibrary> library = Load();
  if (!library.ok()) return library.status();
  if (absl::Status status = Set(*library, "policy", policy); !status.ok()) return status;
  if (absl::Status status = Set(*library, "database", store); !status.ok()) return status;
  // A variable of the user may limit the total, and nothing that is measured depends on it.
  if (absl::Status status = Set(*library, "total", "none"); !status.ok()) return status;
  CudnnMeasurement all;
  for (const Sizes& sizes : convolutions) {
    std::int64_t measured = 0;
    if (const int status = library->measure(sizes.data(), &measured); status != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--convolutions: cuDNN returns status ", status, " for a convolution of ",
                       sizes[0], " x ", sizes[1], " x ", sizes[2], " x ", sizes[3],
                       ", expected a GPU, cuDNN 9 and memory for it"));
    }
    ++all.convolutions;
    all.measured += measured;
  }
  return all;
}

}  // namespace tidepool::tool

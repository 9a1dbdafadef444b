// SPDX-License-Identifier: Apache-2.0
// Files of GPUs (docs/formats/gpu.md), by a table of their fields.
#include <memory>
#include <string>
#include <utility>

#include "lib/base/io/byte_source.h"
#include "lib/base/io/json_object.h"
#include "lib/base/io/json_tree.h"
#include "lib/base/text/quote.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

using io::JsonField;
using io::JsonValue;
using io::kToMember;
using enum io::JsonNeed;

constexpr std::size_t kMostGpuFileBytes = std::size_t{64} << 10;

// A rate of at least `kLeast`.
template <double GpuRates::*kMember, int kLeast>
constexpr auto kRate = [](const JsonValue& value, GpuRates& gpu) {
  return value.To(&(gpu.*kMember)) && gpu.*kMember >= kLeast && gpu.*kMember <= 1e24;
};

constexpr JsonField<GpuRates> kGpuFields[] = {
    {"name", kRequired, "a text", kToMember<&GpuRates::name>},
    {"flops_per_second", kRequired, "a number from 1 to 1e24",
     kRate<&GpuRates::flops_per_second, 1>},
    {"bytes_per_second", kRequired, "a number from 1 to 1e24",
     kRate<&GpuRates::bytes_per_second, 1>},
    {"launch_seconds", kOptional, "a number from 0 to 1",
     [](const JsonValue& value, GpuRates& gpu) {
       return value.To(&gpu.launch_seconds) && gpu.launch_seconds >= 0 && gpu.launch_seconds <= 1;
     }},
    {"link", kOptional, "a text", kToMember<&GpuRates::link>},
    {"link_bytes_per_second", kOptional, "a number from 0 to 1e18",
     [](const JsonValue& value, GpuRates& gpu) {
       return value.To(&gpu.link_bytes_per_second) && gpu.link_bytes_per_second >= 0 &&
              gpu.link_bytes_per_second <= kMostLinkBytesPerSecond;
     }},
    {"float16_flops_per_second", kOptional, "a number from 0 to 1e24",
     kRate<&GpuRates::float16_flops_per_second, 0>},
    {"bfloat16_flops_per_second", kOptional, "a number from 0 to 1e24",
     kRate<&GpuRates::bfloat16_flops_per_second, 0>}};
constexpr io::JsonObject<GpuRates> kGpu = {"a GPU", kGpuFields};

absl::StatusOr<GpuRates> ReadRoot(const JsonValue& root) {
  GpuRates gpu = {.name = "", .launch_seconds = 5e-6};
  absl::Status status = io::ReadObject(root, kGpu, gpu, ", expected a GPU's file: an object");
  if (!status.ok()) return status;
  return gpu;
}

}  // namespace

absl::StatusOr<GpuRates> ReadGpu(const std::filesystem::path& path) {
  absl::StatusOr<std::unique_ptr<io::ByteSource>> file =
      io::OpenFile(path.string(), "a GPU's file");
  if (!file.ok()) return text::AboutFile(path.string(), file.status());
  const absl::StatusOr<std::string> start = io::Peek(*file, kMostGpuFileBytes + 1);
  if (!start.ok()) return text::AboutFile(path.string(), start.status());
  if (start->size() > kMostGpuFileBytes) {
    return text::AboutFile(path.string(),
                           absl::InvalidArgumentError("more than 64 KiB, expected a GPU's file"));
  }
  return io::ReadJson(*std::move(file), path.string(), {"a GPU's file", io::Knows<kGpu>}, ReadRoot);
}

}  // namespace tidepool

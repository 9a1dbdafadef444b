// SPDX-License-Identifier: Apache-2.0
// Reads the JSON object of a GPU, and checks each key.
#include "trace_replay/offload/gpu_file.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tidepool::tool {
namespace {

constexpr std::size_t kMostGpuFileBytes = std::size_t{64} << 10;
constexpr double kMostRate = 1e24;

struct Number {
  const char* key;
  double GpuRates::*member;
  double least;
  double most;
};
constexpr std::array<Number, 6> kNumbers = {{
    {"flops_per_second", &GpuRates::flops_per_second, 1, kMostRate},
    {"bytes_per_second", &GpuRates::bytes_per_second, 1, kMostRate},
    {"launch_seconds", &GpuRates::launch_seconds, 0, 1},
    {"link_bytes_per_second", &GpuRates::link_bytes_per_second, 0, 1e18},
    {"float16_flops_per_second", &GpuRates::float16_flops_per_second, 0, kMostRate},
    {"bfloat16_flops_per_second", &GpuRates::bfloat16_flops_per_second, 0, kMostRate},
}};

absl::Status Wrong(const std::string& why) { return absl::InvalidArgumentError(why); }

absl::StatusOr<std::string> ContentsOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostGpuFileBytes + 1, '\0');
  if (!file || !file.read(text.data(), 0)) return Wrong("cannot be read, expected a GPU's file");
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (file.bad()) return Wrong("cannot be read, expected a GPU's file");
  if (text.size() > kMostGpuFileBytes) return Wrong("more than 64 KiB, expected a GPU's file");
  return text;
}

absl::Status TakeNumber(const nlohmann::json& value, const Number& number, GpuRates& gpu) {
  const double rate = value.is_number() ? value.get<double>() : -1;
  if (!(rate >= number.least && rate <= number.most)) {
    return Wrong(absl::StrCat("'", number.key, "' is ", value.dump().substr(0, 40),
                              ", expected a number from ", number.least, " to ", number.most));
  }
  gpu.*number.member = rate;
  return absl::OkStatus();
}

absl::Status TakeText(const nlohmann::json& value, const std::string& key, std::string& text) {
  if (!value.is_string()) return Wrong(absl::StrCat("'", key, "', expected a text"));
  text = value.get<std::string>();
  return absl::OkStatus();
}

absl::Status TakeKey(const std::string& key, const nlohmann::json& value, GpuRates& gpu) {
  if (key == "name") return TakeText(value, key, gpu.name);
  if (key == "link") return TakeText(value, key, gpu.link);
  const auto* const number =
      std::find_if(kNumbers.begin(), kNumbers.end(),
                   [&](const Number& candidate) { return key == candidate.key; });
  if (number != kNumbers.end()) return TakeNumber(value, *number, gpu);
  return Wrong(
      absl::StrCat("the unknown key '", absl::CHexEscape(key.substr(0, 40)),
                   "', expected name, flops_per_second, bytes_per_second, "
                   "launch_seconds, link, link_bytes_per_second, float16_flops_per_second, "
                   "bfloat16_flops_per_second"));
}

absl::StatusOr<GpuRates> ParseGpu(const nlohmann::json& json) {
  if (!json.is_object()) return Wrong("not a JSON object, expected a GPU's file");
  GpuRates gpu = {.name = "", .launch_seconds = 5e-6};
  for (const auto& [key, value] : json.items()) {
    if (absl::Status status = TakeKey(key, value, gpu); !status.ok()) return status;
  }
  for (const char* key : {"name", "flops_per_second", "bytes_per_second"}) {
    if (!json.contains(key)) return Wrong(absl::StrCat("no '", key, "', expected every rate"));
  }
  return gpu;
}

absl::StatusOr<GpuRates> ReadUnnamed(const std::string& path, std::string& place) {
  const absl::StatusOr<std::string> text = ContentsOf(path);
  if (!text.ok()) return text.status();
  try {
    return ParseGpu(nlohmann::json::parse(*text));
  } catch (const nlohmann::json::parse_error& error) {
    const std::size_t end = std::min(error.byte, text->size());
    const auto lines = 1 + std::count(text->begin(), text->begin() + static_cast<long>(end), '\n');
    absl::StrAppend(&place, ":", lines);
    return Wrong("broken JSON, expected a GPU's file");
  } catch (const nlohmann::json::out_of_range&) {  // a number beyond double
    return Wrong("a number is too large, expected a GPU's file");
  }
}

}  // namespace

absl::StatusOr<GpuRates> ReadGpu(const std::string& path) {
  std::string place = absl::CHexEscape(path);
  absl::StatusOr<GpuRates> gpu = ReadUnnamed(path, place);
  if (gpu.ok()) return gpu;
  return absl::Status(gpu.status().code(), absl::StrCat(place, ": ", gpu.status().message()));
}

}  // namespace tidepool::tool

// SPDX-License-Identifier: Apache-2.0
// Estimates runs and shows their progress.
#include "trace_replay/offload/run_notes.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

constexpr double kCopyBytesPerSecond = 4e9;

// Returns a number to two digits, and all digits before the point.
std::string AboutText(double number) {
  return number < 10 ? absl::StrFormat("%.2g", number) : absl::StrFormat("%.0f", number);
}

// Returns a time such as "11 s", "4.5 min" or "1 h".
std::string AboutTimeText(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  if (seconds >= kHour) return AboutText(seconds / kHour) + " h";
  if (seconds >= 100) return AboutText(seconds / kMinute) + " min";
  return AboutText(seconds) + " s";
}

}  // namespace

RunCost CostOfRun(const Timeline& simulated, int iterations) {
  const auto touched =
      static_cast<double>(simulated.pool_bytes) + static_cast<double>(simulated.peak_host_bytes);
  const auto copied =
      static_cast<double>(simulated.bytes_out) + static_cast<double>(simulated.bytes_in);
  return {simulated.pool_bytes, simulated.peak_host_bytes,
          touched / kCopyBytesPerSecond +
              iterations * (simulated.seconds + copied / kCopyBytesPerSecond)};
}

std::string RunCostText(const RunCost& cost) {
  return absl::StrCat(SizeText(cost.pool_bytes), " of memory for the pool, ",
                      SizeText(cost.offload_bytes), " for offloaded data, about ",
                      AboutTimeText(cost.seconds));
}

absl::Status CheckRunMemory(const RunCost& cost, std::optional<std::int64_t> available_bytes) {
  if (!available_bytes.has_value() || cost.pool_bytes <= *available_bytes - cost.offload_bytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--memory: the run takes ", SizeText(cost.pool_bytes),
                   " of this machine's memory for the pool and ", SizeText(cost.offload_bytes),
                   " for offloaded data, expected at most the ", SizeText(*available_bytes),
                   " that are available"));
}

std::string BusyText(double load, int processors) {
  if (load <= processors) return "";
  return absl::StrFormat(
      "the machine is busy: %.1f programs want its %d processors; times will be longer than "
      "predicted",
      load, processors);
}

std::string BusyText() {
  double load = 0;
  if (getloadavg(&load, 1) != 1) return "";
  return BusyText(load, std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
}

RunProgress::RunProgress(int iterations, std::size_t steps)
    : iterations_(iterations), steps_(steps), is_terminal_(isatty(STDERR_FILENO) == 1) {
  if (is_terminal_) std::fputs("\rtaking memory", stderr);
}

RunProgress::~RunProgress() {
  if (is_terminal_) std::fputs("\r\033[K", stderr);
}

void RunProgress::Begin(int iteration) {
  iteration_ = iteration;
  shown_percent_ = -1;
}

void RunProgress::Show(std::size_t step) {
  const int percent = static_cast<int>(100 * step / std::max<std::size_t>(steps_, 1));
  if (!is_terminal_ || percent == shown_percent_) return;
  shown_percent_ = percent;
  std::fprintf(stderr, "\r\033[Kiteration %d of %d, %d %% of its steps queued", iteration_ + 1,
               iterations_, percent);
}

}  // namespace tidepool::tool

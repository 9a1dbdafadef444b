// SPDX-License-Identifier: Apache-2.0
// A library to preload: the monotonic clock is the processor time of the program, times SLOW_CLOCK.
// A program then finds itself on a machine that gives it a part of a core, under any load.
#include <sys/syscall.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <ctime>

extern "C" int clock_gettime(clockid_t clock, timespec* time) {
  static const char* const text = std::getenv("SLOW_CLOCK");
  static const double times = text == nullptr ? 1 : std::atof(text);
  const bool is_monotonic = clock == CLOCK_MONOTONIC;
  const auto result = static_cast<int>(
      syscall(SYS_clock_gettime, is_monotonic ? CLOCK_PROCESS_CPUTIME_ID : clock, time));
  if (!is_monotonic || result != 0) return result;
  const double seconds =
      (static_cast<double>(time->tv_sec) + static_cast<double>(time->tv_nsec) * 1e-9) * times;
  time->tv_sec = static_cast<time_t>(seconds);
  time->tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9);
  return 0;
}

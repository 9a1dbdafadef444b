// SPDX-License-Identifier: Apache-2.0
// Tick clock: time stamps that cost a few nanoseconds. Reading the steady clock takes longer than
// the rest of a recording call, so a call reads only the processor's counter. The writer thread
// reads both clocks now and then, and interpolates the time of each stamp between two such
// readings.
#ifndef TIDEPOOL_LIB_TRACE_RECORDER_TICK_CLOCK_H_
#define TIDEPOOL_LIB_TRACE_RECORDER_TICK_CLOCK_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace tidepool::recorder {

inline std::int64_t SteadyNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline std::uint64_t Ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  std::uint64_t ticks = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<std::uint64_t>(SteadyNanoseconds());
#endif
}

class TickClock {
 public:
  TickClock() : begin_(SteadyNanoseconds()), now_(Read()), before_(now_) {}

  // Reads both clocks.
  void Advance() {
    before_ = now_;
    const Reading reading = Read();
    // Counters of two processors may differ a little, so force both clocks to ascend.
    now_ = {std::max(reading.ticks, before_.ticks),
            std::max(reading.nanoseconds, before_.nanoseconds)};
  }

  // Returns the time of a stamp since the clock began. Stamps outside of the last two readings take
  // the time of the nearest reading.
  std::int64_t Nanoseconds(std::uint64_t ticks) const {
    if (ticks >= now_.ticks) return now_.nanoseconds;
    if (ticks <= before_.ticks) return before_.nanoseconds;
    const double part = static_cast<double>(ticks - before_.ticks) /
                        static_cast<double>(now_.ticks - before_.ticks);
    return before_.nanoseconds +
           static_cast<std::int64_t>(part *
                                     static_cast<double>(now_.nanoseconds - before_.nanoseconds));
  }

 private:
  struct Reading {
    std::uint64_t ticks = 0;
    std::int64_t nanoseconds = 0;
  };

  // Reads both clocks three times and returns the attempt with the shortest time between the two
  // clocks.
  Reading Read() const {
    Reading best;
    std::uint64_t least = UINT64_MAX;
    for (int attempt = 0; attempt < 3; ++attempt) {
      const std::uint64_t begin = Ticks();
      const std::int64_t nanoseconds = SteadyNanoseconds() - begin_;
      const std::uint64_t length = Ticks() - begin;
      if (length >= least) continue;
      least = length;
      best = {begin + length / 2, nanoseconds};
    }
    return best;
  }

  std::int64_t begin_;
  Reading now_;
  Reading before_;
};

}  // namespace tidepool::recorder

#endif  // TIDEPOOL_LIB_TRACE_RECORDER_TICK_CLOCK_H_

// SPDX-License-Identifier: Apache-2.0
// Progress of a long command, on a terminal or for the program that runs the command.
#ifndef TIDEPOOL_TRACE_REPLAY_PROGRESS_H_
#define TIDEPOOL_TRACE_REPLAY_PROGRESS_H_

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <string>

#include "trace_replay/caller.h"

namespace tidepool::tool {

// A line of standard error that each call replaces. It appears after a second, and goes with the
// object.
class Progress {
 public:
  Progress() = default;
  ~Progress() {
    if (is_shown_) std::cerr << "\r\x1b[K" << std::flush;
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows a text, and to a caller the part of the work that is done: 0 to 1, or -1 if unknown.
  void Show(const std::string& text, double part = -1) {
    if (const Caller* caller = CurrentCaller(); caller != nullptr) {
      if (caller->show_progress) caller->show_progress(text, part);
      return;
    }
    if (!is_terminal_ || Seconds() < kAfterSeconds) return;
    is_shown_ = true;
    std::cerr << "\r\x1b[K" << text << std::flush;
  }
  // Returns the seconds since the beginning.
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  static constexpr double kAfterSeconds = 1;

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const bool is_terminal_ = isatty(STDERR_FILENO) == 1;
  bool is_shown_ = false;
};

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_PROGRESS_H_

// What a user of the drop-in chooses by environment variables (README.md beside this file).
#ifndef TIDEPOOL_BINDINGS_CNMEM_SETTINGS_H_
#define TIDEPOOL_BINDINGS_CNMEM_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace tidepool::cnmem {

struct Settings {
  std::string placement = "best-fit";
  // Limits what is taken of a device: bytes, or a part of its memory. Neither: no limit.
  std::optional<std::int64_t> budget_bytes;
  std::optional<double> budget_part;
  std::optional<bool> has_virtual_memory;
  std::optional<double> growth;
  bool remaps = false;
  absl::Duration wait;  // for memory; zero: not at all
  std::string trace;    // where the paths of traces begin; empty: none
  bool statistics = false;
  bool errors = false;
};

// From lines "NAME=value" as in `environ`; other names than ours are skipped. Adds a line to
// `complaints` for each value that is malformed and each of our names that is none; what was
// complained of is as if it were not there, like what is empty.
Settings ReadSettings(const std::vector<std::string>& environment,
                      std::vector<std::string>* complaints);

// From the environment of this process. Each complaint is printed on stderr once in the life of the
// process. Not thread-safe.
Settings ReadSettings();

// Whether errors are printed where there are no settings, because there was no cnmemInit.
bool ErrorsOfEnvironment();

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_SETTINGS_H_

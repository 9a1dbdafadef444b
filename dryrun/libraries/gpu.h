// SPDX-License-Identifier: Apache-2.0
// The GPU that the libraries assume, and the time of their work on it.
#ifndef TIDEPOOL_DRYRUN_LIBRARIES_GPU_H_
#define TIDEPOOL_DRYRUN_LIBRARIES_GPU_H_

#include <cstdint>

namespace tidepool::cudart_host {

// The units that multiply matrices, by their numbers.
enum class Numbers : unsigned char { kDouble, kSingle, kTensorFloat, kHalf, kByte };

// The work of a kernel. `efficiency` is the share of the unit's peak that it reaches.
struct Work {
  Numbers numbers = Numbers::kSingle;
  double operations = 0;
  double bytes = 0;  // moved in the device's memory
  double efficiency = 0.8;
};

// Rates are peaks of the data sheet, a second. Zero means that no GPU is assumed.
struct Gpu {
  int capability = 0;  // ten times the major, plus the minor number
  double bytes = 0;
  double double_operations = 0;
  double single_operations = 0;
  double half_operations = 0;  // of tensor cores, without sparsity
  std::int64_t multiprocessors = 0;
  std::int64_t threads = 0;  // that a multiprocessor can hold

  // TF32 has half the rate of 16-bit numbers, and 8-bit numbers have twice that rate.
  double RateOf(Numbers numbers) const;
  // Returns the roofline (Williams et al., Communications of the ACM 52, 2009): the time of the
  // operations or of the bytes, whichever is longer. 0 if no GPU is assumed.
  double Seconds(const Work& work) const;
};

// Returns the GPU that the environment describes (README.md of the stand-in).
const Gpu& AssumedGpu();

// Lets the runtime pass the time of a kernel on a stream. `output` is the memory that it writes, of
// `bytes` bytes, or null where that is not known.
void Run(const char* name, void* stream, const Work& work, void* output, double bytes);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_LIBRARIES_GPU_H_

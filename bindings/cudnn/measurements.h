// SPDX-License-Identifier: Apache-2.0
// Times and workspaces of cuDNN's algorithms by micro-batch: measured by cuDNN, and kept in a file.
#ifndef TIDEPOOL_BINDINGS_CUDNN_MEASUREMENTS_H_
#define TIDEPOOL_BINDINGS_CUDNN_MEASUREMENTS_H_

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/cudnn/convolution.h"
#include "bindings/cudnn/functions.h"
#include "bindings/cudnn/options.h"
#include "tidepool/schedule/kernel_table.h"
#include "tidepool/schedule/task_profile.h"

namespace tidepool::cudnn {

// The measurements of one kind of device. Not thread-safe.
class Measurements {
 public:
  // `ordinal` is the device of the handles that are given later.
  Measurements(const Functions& functions, const Options& options, int ordinal);
  ~Measurements();
  Measurements(const Measurements&) = delete;
  Measurements& operator=(const Measurements&) = delete;

  // Returns all algorithms of a convolution with these micro-batches (ascending), with any
  // workspace. A micro-batch that the file lacks is measured, which waits for the device and takes
  // memory of it. A micro-batch that cuDNN cannot measure has no rows.
  KernelTable TableOf(cudnnHandle_t handle, const Convolution& convolution,
                      const std::vector<std::int64_t>& sizes);

  // Returns the rows of the micro-batches that may be part of the fastest answer within the limit
  // (MeasureAdaptively). Algorithms that cuDNN cannot run for the whole batch are left out.
  KernelTable AdaptiveTable(cudnnHandle_t handle, const Convolution& convolution,
                            std::int64_t limit_bytes);

  // Returns the calls of cuDNN that measured.
  std::int64_t measured() const { return measured_; }

 private:
  struct Helper;  // another device of the same kind

  KernelTable RowsInFile(const Convolution& convolution);
  void Write(const Convolution& convolution, const KernelTable& rows);
  std::vector<KernelTable> MeasureAll(cudnnHandle_t handle, const Convolution& convolution,
                                      const std::vector<std::int64_t>& sizes);
  void StartHelpers(int ordinal);
  void OpenFile();

  const Functions& functions_;
  const Options options_;
  ProfiledMachine machine_;
  std::unique_ptr<ProfileStore> store_;  // null: works without a file
  bool is_written_ = true;
  std::vector<std::unique_ptr<Helper>> helpers_;
  std::int64_t measured_ = 0;
};

}  // namespace tidepool::cudnn

#endif  // TIDEPOOL_BINDINGS_CUDNN_MEASUREMENTS_H_

// SPDX-License-Identifier: Apache-2.0
// Times and workspaces of cuDNN's algorithms and engines by micro-batch, measured and kept in a
// file.
#ifndef TIDEPOOL_BINDINGS_CUDNN_MEASUREMENTS_H_
#define TIDEPOOL_BINDINGS_CUDNN_MEASUREMENTS_H_

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/cudnn/convolution.h"
#include "bindings/cudnn/functions.h"
#include "bindings/cudnn/options.h"
#include "tidepool/training/kernel_table.h"
#include "tidepool/training/task_profile.h"

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
  // (MeasureAdaptively). Asks for engines at powers of two alone.
  KernelTable AdaptiveTable(cudnnHandle_t handle, const Convolution& convolution,
                            std::int64_t limit_bytes);

  // Returns the micro-batches that were measured, those of algorithms and of engines apart.
  std::int64_t measured() const { return measured_; }

 private:
  struct Helper;  // another device of the same kind

  // The ways to run a micro-batch that are measured together.
  enum class Family : std::uint8_t { kAlgorithms, kEngines };
  // A bound is a row that is no algorithm: with larger workspaces than its own nothing was
  // measured.
  static bool IsBound(const KernelRow& row);
  static Family FamilyOf(const KernelRow& row);
  static KernelRow BoundOf(Family family, std::int64_t samples, std::int64_t bytes);
  using Measured = KernelTable (Measurements::*)(cudnnHandle_t, const Convolution&, std::int64_t,
                                                 cudnnFilterDescriptor_t) const;

  KernelTable MeasureAlgorithms(cudnnHandle_t handle, const Convolution& convolution,
                                std::int64_t samples, cudnnFilterDescriptor_t filter) const;
  KernelTable MeasureEngines(cudnnHandle_t handle, const Convolution& convolution,
                             std::int64_t samples, cudnnFilterDescriptor_t filter) const;
  KernelTable RowsInFile(const Convolution& convolution);
  ProfileKey KeyOf(const Convolution& convolution, std::int64_t samples, bool is_bound) const;
  bool IsKnown(const KernelTable& rows, Family family, std::int64_t samples) const;
  void Complete(cudnnHandle_t handle, const Convolution& convolution,
                const std::vector<std::int64_t>& sizes, Family family, KernelTable& all,
                KernelTable& measured);
  bool IsAllowed(const Convolution& convolution, const KernelRow& row) const;
  void Write(const Convolution& convolution, const KernelTable& rows);
  std::vector<KernelTable> MeasureAll(cudnnHandle_t handle, const Convolution& convolution,
                                      const std::vector<std::int64_t>& sizes, Measured measure);
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

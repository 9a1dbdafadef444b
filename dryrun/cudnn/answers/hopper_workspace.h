// SPDX-License-Identifier: Apache-2.0
// The workspaces of convolutions on tensor cores of Hopper, as cuDNN 9.19 took them on an H200.
#ifndef TIDEPOOL_DRYRUN_CUDNN_ANSWERS_HOPPER_WORKSPACE_H_
#define TIDEPOOL_DRYRUN_CUDNN_ANSWERS_HOPPER_WORKSPACE_H_

#include "dryrun/cudnn/answers/algorithms.h"

namespace tidepool::cudart_host {

// Returns the bytes of the workspace. NVIDIA does not publish the rules. These were derived from
// 478 requests of PyTorch for convolutions of 32 and 16 bits, and give 410 of them within 1 % or a
// KiB (tests/frameworks/dryrun/recorded/h200_convolutions.json). "Sums" are partial sums of the
// gradient of W, in 32-bit numbers. `C` are the inputs, `K` the outputs, `unit` are the numbers in
// 16 bytes.
// - Kernels read and write channels-last tensors. Of others the workspace has copies: X, Y, and W
// unless its filters are 1 x 1, and 16 bytes to align them.
// - 1 x 1 filters of stride 1 without padding need no copies where an image is a multiple of 16
// bytes, or of 4 numbers with C K / (C + K) <= 256: 400 bytes in 32 bits. The gradient of W then
// has sums for each sample, unless copies are smaller.
// - The gradient of W is split until its tiles fill the multiprocessors, and each split has sums.
// Splits for 16-bit numbers have at least 12,288 products for each element, and the first needs no
// sums. A tile has 128 x 128 elements of one position in the filter, 64 for up to 64 channels.
// Where less than 0.6 of the multiprocessors would work in unsplit tiles, each has sums of a tile.
// - Narrow inputs (C below `unit`: the first layer) are padded to a unit for the gradient of W,
// for 16-bit numbers, and for filters of at least 256 elements. Filters of less than 64 elements
// run without tensor cores, but for the gradient of W in 16 bits, and so does the gradient of X.
// Each multiprocessor has sums of all W, every second one with 16-bit numbers.
// - Narrow channels-last inputs: X, Y and W are copied for the gradient of X, X and W (and Y of 32
// bits) for that of W, X and W of 32 bits in the forward pass.
// - Depthwise filters need nothing, other groups copies only, and none for the gradient of W.
// Without a rule are: sums of forward passes and gradients of X, up to 16 MiB in 21 of 318, and
// kernels that write 32-bit outputs in their own layout.
double HopperWorkspace(const Convolution& convolution, const Gpu& gpu);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_CUDNN_ANSWERS_HOPPER_WORKSPACE_H_

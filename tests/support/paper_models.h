// SPDX-License-Identifier: Apache-2.0
// Networks as vDNN++ (Shriram et al., IPDPS 2019) counts their memory.
#ifndef TIDEPOOL_TESTS_SUPPORT_PAPER_MODELS_H_
#define TIDEPOOL_TESTS_SUPPORT_PAPER_MODELS_H_

#include <cstdint>
#include <string>

#include "tidepool/training/model_zoo.h"

namespace tidepool::testing {

// Returns options for one backward task a layer. An update uses up the gradients of weights at
// once. Inputs are on the device, and labels are not counted.
inline ModelOptions PaperModel(std::int64_t batch, const std::string& gpu = "h200") {
  return {.batch = batch,
          .gpu = gpu,
          .backward = BackwardTasks::kFused,
          .weight_gradients = WeightGradients::kTemporary,
          .labels = false,
          .inputs = DataHome::kDevice};
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_PAPER_MODELS_H_

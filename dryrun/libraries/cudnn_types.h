// SPDX-License-Identifier: Apache-2.0
// Objects of cuDNN's older interface, and the types of its numbers.
#ifndef TIDEPOOL_DRYRUN_LIBRARIES_CUDNN_TYPES_H_
#define TIDEPOOL_DRYRUN_LIBRARIES_CUDNN_TYPES_H_

#include <cstddef>
#include <vector>

namespace tidepool::cudart_host::cudnn {

// Values of cudnnDataType_t.
inline constexpr int kFloat = 0;
inline constexpr int kDouble = 1;
inline constexpr int kHalf = 2;
inline constexpr int kByte = 3;
inline constexpr int kUnsignedByte = 6;
inline constexpr int kBfloat16 = 9;

inline constexpr int kBadParameter = 2000;  // CUDNN_STATUS_BAD_PARAM

inline std::size_t BytesOf(int type) {
  if (type == kHalf || type == kBfloat16) return 2;
  if (type == kByte || type == kUnsignedByte) return 1;
  return type == kDouble ? 8 : 4;
}

struct Handle {
  void* stream = nullptr;
};

// A tensor or a filter.
struct Tensor {
  int type = 0;
  std::vector<int> sizes;
  std::vector<int> strides;  // of tensors
  int format = 0;            // of filters: 1 is NHWC
};

struct Dropout {
  float rate = 0;
};

template <typename Object>
int Make(void** made) {
  *made = new Object();
  return 0;
}
template <typename Object>
int Delete(void* object) {
  delete static_cast<Object*>(object);
  return 0;
}

}  // namespace tidepool::cudart_host::cudnn

#endif  // TIDEPOOL_DRYRUN_LIBRARIES_CUDNN_TYPES_H_

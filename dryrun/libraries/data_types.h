// SPDX-License-Identifier: Apache-2.0
// Types of elements: values of cudaDataType of <library_types.h>.
#ifndef TIDEPOOL_DRYRUN_LIBRARIES_DATA_TYPES_H_
#define TIDEPOOL_DRYRUN_LIBRARIES_DATA_TYPES_H_

namespace tidepool::cudart_host {
namespace data_type {

inline constexpr int kFloat = 0;
inline constexpr int kDouble = 1;
inline constexpr int kHalf = 2;
inline constexpr int kComplexFloat = 4;
inline constexpr int kComplexDouble = 5;
inline constexpr int kComplexHalf = 6;
inline constexpr int kInteger32 = 10;
inline constexpr int kUnsigned32 = 12;
inline constexpr int kBfloat16 = 14;
inline constexpr int kComplexBfloat16 = 15;

}  // namespace data_type

inline bool IsComplex(int type) {
  return type == data_type::kComplexFloat || type == data_type::kComplexDouble ||
         type == data_type::kComplexHalf || type == data_type::kComplexBfloat16;
}

// Returns the bytes of an element.
inline int BytesOf(int type) {
  switch (type) {
    case data_type::kFloat:
    case data_type::kInteger32:
    case data_type::kUnsigned32:
    case data_type::kComplexHalf:
    case data_type::kComplexBfloat16:
      return 4;
    case data_type::kDouble:
    case data_type::kComplexFloat:
      return 8;
    case data_type::kComplexDouble:
      return 16;
    case data_type::kHalf:
    case data_type::kBfloat16:
      return 2;
    default:
      return 1;  // 8-bit numbers, and those of 4 bits with their scales
  }
}

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_LIBRARIES_DATA_TYPES_H_

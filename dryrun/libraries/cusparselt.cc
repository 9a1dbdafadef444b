// SPDX-License-Identifier: Apache-2.0
// cuSPARSELt: matrices of which half of the elements are zero. A compressed one has the other half
// and two bits for the place of each. Sizes of workspaces are not public; each is a constant here.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "dryrun/libraries/answers.h"
#include "dryrun/libraries/data_types.h"

namespace {

constexpr std::size_t kWorkspace = 1 << 16;  // bytes

// The part of a cusparseLtMatDescriptor_t that the answers need. The caller owns its 512 bytes or
// more.
struct Matrix {
  std::int64_t rows;
  std::int64_t leading;
  std::int64_t columns;
  std::int64_t is_by_rows;
  std::int64_t bytes;  // of an element
};

std::size_t CompressedBytes(const Matrix& matrix) {
  const std::int64_t elements =
      matrix.leading * (matrix.is_by_rows != 0 ? matrix.rows : matrix.columns);
  const std::int64_t bytes = elements * matrix.bytes;
  return static_cast<std::size_t>(bytes / 2 + bytes / (matrix.bytes == 1 ? 8 : 16));
}

}  // namespace

TIDEPOOL_ANSWER int cusparseLtStructuredDescriptorInit(void* /*handle*/, void* made,
                                                       std::int64_t rows, std::int64_t columns,
                                                       std::int64_t leading,
                                                       std::uint32_t /*alignment*/, int type,
                                                       int order, int /*sparsity*/) {
  constexpr int kByRows = 2;  // CUSPARSE_ORDER_ROW
  const Matrix matrix = {rows, leading, columns, order == kByRows ? 1 : 0,
                         tidepool::cudart_host::BytesOf(type)};
  std::memcpy(made, &matrix, sizeof matrix);
  return 0;
}

TIDEPOOL_ANSWER int cusparseLtSpMMACompressedSize2(void* /*handle*/, const void* object,
                                                   std::size_t* bytes, std::size_t* workspace) {
  Matrix matrix;
  std::memcpy(&matrix, object, sizeof matrix);
  *bytes = CompressedBytes(matrix);
  *workspace = kWorkspace;
  return 0;
}

TIDEPOOL_ANSWER int cusparseLtMatmulGetWorkspace(void* /*handle*/, const void* /*plan*/,
                                                 std::size_t* bytes) {
  *bytes = kWorkspace;
  return 0;
}

// The first algorithm of one, which does not split K.
TIDEPOOL_ANSWER int cusparseLtMatmulAlgGetAttribute(void* /*handle*/, const void* /*selection*/,
                                                    int name, void* place, std::size_t bytes) {
  constexpr int kMostAlgorithms = 1;
  constexpr int kSplits = 3;
  const std::int32_t value = name == kMostAlgorithms || name == kSplits ? 1 : 0;
  std::memset(place, 0, bytes);
  if (bytes >= sizeof value) std::memcpy(place, &value, sizeof value);
  return 0;
}

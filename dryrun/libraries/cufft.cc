// SPDX-License-Identifier: Apache-2.0
// cuFFT. Its documentation gives a range for the workspace of a plan: from one complex number for
// each element of all transforms, which is taken here, up to eight in the worst case.
#include <cstddef>

#include "dryrun/libraries/answers.h"
#include "dryrun/libraries/data_types.h"

namespace {

// Returns the bytes of a complex number of a type.
int ComplexBytes(int type) {
  const int bytes = tidepool::cudart_host::BytesOf(type);
  return tidepool::cudart_host::IsComplex(type) ? bytes : 2 * bytes;
}

}  // namespace

TIDEPOOL_ANSWER int cufftCreate(int* plan) {
  *plan = 1;  // nothing tells plans apart
  return 0;
}

TIDEPOOL_ANSWER int cufftXtMakePlanMany(int /*plan*/, int rank, long long* sizes,
                                        long long* /*in_embed*/, long long /*in_stride*/,
                                        long long /*in_distance*/, int /*in_type*/,
                                        long long* /*out_embed*/, long long /*out_stride*/,
                                        long long /*out_distance*/, int /*out_type*/,
                                        long long batch, std::size_t* bytes, int type) {
  *bytes = static_cast<std::size_t>(ComplexBytes(type) * batch);
  for (int i = 0; i < rank; ++i) *bytes *= static_cast<std::size_t>(sizes[i]);
  return 0;
}

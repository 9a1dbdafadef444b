// SPDX-License-Identifier: Apache-2.0
// The block size of all stores: large enough for the copies of a link and the threads of a codec.
#ifndef TIDEPOOL_LIB_COPIES_CONTENTS_BLOCK_BYTES_H_
#define TIDEPOOL_LIB_COPIES_CONTENTS_BLOCK_BYTES_H_

#include <cstdint>

namespace tidepool::contents {

constexpr std::int64_t kBlockBytes = std::int64_t{4} << 20;

}  // namespace tidepool::contents

#endif  // TIDEPOOL_LIB_COPIES_CONTENTS_BLOCK_BYTES_H_

// SPDX-License-Identifier: Apache-2.0
// Stores for the contents of regions that sleep (Pool::PauseRegionInto): in a file, or compressed.
#ifndef TIDEPOOL_COPIES_CONTENTS_STORES_H_
#define TIDEPOOL_COPIES_CONTENTS_STORES_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tidepool/contents_store.h"
#include "tidepool/copies/zero_value_codec.h"
#include "tidepool/export.h"

namespace tidepool {

// Makes a store that keeps contents in a file without a name, in a folder. The file ends with the
// store or the process, and a forked child does not have it. The store takes the space of the file
// before the first byte is copied, where the file system can. Four threads read and write it.
// InvalidArgument when the folder takes no file, ResourceExhausted when no thread can be started.
// The store's Begin and Put return ResourceExhausted, with the bytes that are needed, when the disk
// has no room, and its Get DataLoss when the file has other bytes than were written.
TIDEPOOL_EXPORT absl::StatusOr<std::unique_ptr<ContentsStore>> MakeFileStore(
    const std::string& folder);

// Makes a store that keeps contents compressed in pageable memory, by zero-value compression, block
// by block: lossless for contents of any kind. ZeroValueCodec::Create's errors. The store's Put
// returns ResourceExhausted when the host has no memory, and its Get DataLoss when the memory was
// overwritten.
TIDEPOOL_EXPORT absl::StatusOr<std::unique_ptr<ContentsStore>> MakeCompressedStore(
    const ZeroValueOptions& options);

}  // namespace tidepool

#endif  // TIDEPOOL_COPIES_CONTENTS_STORES_H_

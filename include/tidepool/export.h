// SPDX-License-Identifier: Apache-2.0
// TIDEPOOL_EXPORT: marks public symbols. All other symbols are compiled with hidden visibility.
#ifndef TIDEPOOL_EXPORT_H_
#define TIDEPOOL_EXPORT_H_

#if defined(__GNUC__)
#define TIDEPOOL_EXPORT __attribute__((visibility("default")))
#else
#define TIDEPOOL_EXPORT
#endif

#endif  // TIDEPOOL_EXPORT_H_

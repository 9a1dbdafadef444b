// SPDX-License-Identifier: Apache-2.0
#include "dryrun/runtime/cudart/known_copies.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

#include "lib/base/arithmetic.h"

namespace tidepool::cudart_host {
namespace {

std::int64_t BytesOf(const CopyShape& shape) {
  return static_cast<std::int64_t>(shape.width * shape.height);
}

std::int64_t WidthOf(const CopyShape& shape) { return static_cast<std::int64_t>(shape.width); }

void ForgetRows(KnownBytes& known, const CopyShape& shape) {
  for (std::size_t row = 0; row < shape.height; ++row) {
    known.Forget(shape.to + row * shape.to_pitch, WidthOf(shape));
  }
}

// Gives the whole pages of a range of pinned memory back to the host, which gives zeros on the next
// touch. Returns false if the system cannot, or the range is small.
bool DropPages(char* begin, std::size_t bytes) {
  constexpr std::size_t kLeastBytes = std::size_t{64} << 10;  // less is as fast to write
  constexpr int kDropLocked = 24;  // MADV_DONTNEED_LOCKED of Linux 5.18, which older headers lack
  if (bytes < kLeastBytes) return false;
  static const std::int64_t page = sysconf(_SC_PAGESIZE);
  const auto address = reinterpret_cast<std::intptr_t>(begin);
  const std::int64_t head = RoundUp(address, page) - address;
  const std::int64_t pages = (static_cast<std::int64_t>(bytes) - head) / page * page;
  if (madvise(begin + head, static_cast<std::size_t>(pages), kDropLocked) != 0) {
    return false;
  }
  std::memset(begin, 0, static_cast<std::size_t>(head));
  std::memset(begin + head + pages, 0, bytes - static_cast<std::size_t>(head + pages));
  return true;
}

// Reads the rows into memory of the host. Large copies leave bytes alone that are not known: a
// checkpoint of a model may be larger than the memory of the host.
void ReadRows(const KnownBytes& known, const CopyShape& shape, bool is_pinned) {
  constexpr std::int64_t kMostZeros = std::int64_t{16} << 20;
  for (std::size_t row = 0; row < shape.height; ++row) {
    char* const to = shape.to + row * shape.to_pitch;
    if (BytesOf(shape) <= kMostZeros && !(is_pinned && DropPages(to, shape.width))) {
      std::memset(to, 0, shape.width);
    }
    known.Read(shape.from + row * shape.from_pitch, to, WidthOf(shape));
  }
}

// Writes rows that lie one after the other in `bytes`.
void WriteRows(KnownBytes& known, const CopyShape& shape, std::string_view bytes) {
  for (std::size_t row = 0; row < shape.height; ++row) {
    known.Write(shape.to + row * shape.to_pitch, bytes.substr(row * shape.width, shape.width));
  }
}

void CopyRows(KnownBytes& known, const CopyShape& shape) {
  for (std::size_t row = 0; row < shape.height; ++row) {
    known.Copy(shape.from + row * shape.from_pitch, shape.to + row * shape.to_pitch,
               WidthOf(shape));
  }
}

template <typename Work>
absl::Status Queue(Runtime& runtime, const StreamRef& stream, Work work) {
  return stream.Enqueue([&] {
    return stream.host().CallHost(
        stream.stream, [&known = runtime.known, work = std::move(work)] { work(known); });
  });
}

absl::Status QueueRows(Runtime& runtime, const StreamRef& stream, const CopyShape& shape,
                       std::string bytes) {
  return Queue(runtime, stream, [shape, bytes = std::move(bytes)](KnownBytes& known) {
    WriteRows(known, shape, bytes);
  });
}

absl::Status QueueForgettingRows(Runtime& runtime, const StreamRef& stream,
                                 const CopyShape& shape) {
  if (!runtime.known.MayHaveAny()) return absl::OkStatus();
  return Queue(runtime, stream, [shape](KnownBytes& known) { ForgetRows(known, shape); });
}

}  // namespace

absl::Status QueueReadOfKnown(Runtime& runtime, const StreamRef& stream, const CopyShape& shape,
                              bool is_pinned) {
  return Queue(runtime, stream, [=](KnownBytes& known) { ReadRows(known, shape, is_pinned); });
}

absl::Status QueueWriteOfKnown(Runtime& runtime, const StreamRef& stream, const CopyShape& shape) {
  if (!runtime.known.TakeRoom(BytesOf(shape))) return QueueForgettingRows(runtime, stream, shape);
  std::string bytes;
  bytes.reserve(shape.width * shape.height);
  for (std::size_t row = 0; row < shape.height; ++row) {
    bytes.append(shape.from + row * shape.from_pitch, shape.width);
  }
  return QueueRows(runtime, stream, shape, std::move(bytes));
}

absl::Status QueueCopyOfKnown(Runtime& runtime, const StreamRef& stream, const CopyShape& shape) {
  if (!runtime.known.MayHaveAny()) return absl::OkStatus();
  return Queue(runtime, stream, [shape](KnownBytes& known) { CopyRows(known, shape); });
}

absl::Status QueueFillOfKnown(Runtime& runtime, const StreamRef& stream, const CopyShape& shape,
                              int value) {
  if (value == 0 || !runtime.known.TakeRoom(BytesOf(shape))) {
    return QueueForgettingRows(runtime, stream, shape);
  }
  return QueueRows(runtime, stream, shape,
                   std::string(shape.width * shape.height, static_cast<char>(value)));
}

absl::Status QueueForgettingOf(Runtime& runtime, const StreamRef& stream, char* output,
                               std::int64_t bytes) {
  if (runtime.known.IsHeld()) return absl::OkStatus();
  return QueueForgettingRows(runtime, stream,
                             {output, 0, nullptr, 0, static_cast<std::size_t>(bytes), 1});
}

absl::Status QueueForgetting(Runtime& runtime, const StreamRef& stream) {
  if (runtime.known.IsHeld() || !runtime.known.TakeAny()) return absl::OkStatus();
  return Queue(runtime, stream, [](KnownBytes& known) { known.ForgetAll(); });
}

}  // namespace tidepool::cudart_host

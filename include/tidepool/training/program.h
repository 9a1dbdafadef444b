// SPDX-License-Identifier: Apache-2.0
// Program: a schedule with fixed addresses or pages, turned into queues of operations. Each
// operation belongs to one stream and waits for operations of other streams, as cudaStreamWaitEvent
// does. Simulators, executors, emitted code and CUDA graphs all start from a Program.
//
// To carry a Program out, go through `operations` in order. Make the operation's stream wait for
// the ends of the operations in its `waits`, then queue the operation. Streams run their operations
// in that order. The host waits for nothing: every wait follows from data and from memory, and is
// one of the device. No order of events other than these waits is promised.
#ifndef TIDEPOOL_TRAINING_PROGRAM_H_
#define TIDEPOOL_TRAINING_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/copies/compression_profile.h"
#include "tidepool/export.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/schedule.h"

namespace tidepool {

// The most operations of a program. A short file may repeat a round many times; without a limit it
// would take all memory.
inline constexpr std::size_t kMostOperations = std::size_t{1} << 24;

// A queue that runs one operation at a time, in order.
struct ProgramStream {
  enum class Kind : std::uint8_t {
    kCompute,   // tasks of a device
    kOut,       // copies from a device to the host
    kIn,        // copies from the host to a device
    kBothWays,  // both, over a link with one transfer at a time
    kHost,      // tasks of one core of the host
    kPeer,      // copies from other devices to a device
  };

  Kind kind = Kind::kCompute;
  std::size_t device = 0;   // kHostDevice for kHost
  std::size_t number = 0;   // among the streams of its kind and device
  std::size_t channel = 0;  // of copies: index in the program's channels
};

// A link, or one direction of it, which copies of one or more streams divide.
struct ProgramChannel {
  std::size_t link = 0;     // of the machine; the number of its links: a connection of devices
  std::size_t streams = 0;  // with operations
  double latency_seconds = 0;
  LinkSharing sharing = LinkSharing::kEqualParts;
};

struct ProgramWait {
  // The cause of a wait.
  enum class Reason : std::uint8_t {
    kData,         // others still write data that the operation uses, or use data that it writes
    kMemory,       // the memory of the operation, or the room of its copy on the host, is in use
    kSynchronize,  // a step kSynchronize
  };

  std::uint32_t operation = 0;  // an earlier operation of another stream
  Reason reason = Reason::kData;
};

struct ProgramOperation {
  // kReceive and kAdd are copies from other devices, on streams kPeer.
  enum class Kind : std::uint8_t { kTask, kOffload, kPrefetch, kReceive, kAdd };

  Kind kind = Kind::kTask;
  std::uint16_t stream = 0;      // index in the program's streams
  std::uint32_t index = 0;       // task or data
  std::uint32_t algorithm = 0;   // of the task
  std::uint32_t step = 0;        // index in the schedule's steps
  std::uint32_t repetition = 0;  // number of the round's pass, counted over all rounds
  // The operation waits for `waits` entries of the program's waits, from `first_wait` on.
  std::uint32_t first_wait = 0;
  std::uint32_t waits = 0;
  // First of its entries in the program's offsets: for a task those of the data that it reads,
  // writes and updates, in the order of the graph, and of its workspace; for a copy that of its
  // bytes; for a copy from another device those of its bytes on its device, on the other one,
  // and of kAdd in the buffer. Not set for tasks of the host, and with paged memory unless
  // LowerOptions::maps_pages.
  std::uint32_t first_offset = 0;
  // Duration: of a copy with the link to itself, with the latency.
  double seconds = 0;
  // Bytes [begin, end) of the data that a copy moves.
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// When a task or copy runs, in seconds from the start of the iteration.
struct OperationTimes {
  double start = 0;
  double end = 0;
};

// Memory that the program holds from the start of one operation to the ends of others.
struct ProgramMemory {
  static constexpr std::uint32_t kFromTheStart = UINT32_MAX;

  std::size_t device = 0;               // kHostDevice for copies on the host
  std::int64_t offset = -1;             // fixed addresses of a device
  std::int64_t bytes = 0;               // on a device, whole granules
  std::uint32_t first = kFromTheStart;  // the first operation that uses it
  // The last operations that use it: `ends` entries of the program's memory_ends, from `first_end`
  // on. None: it is held to the end.
  std::uint32_t first_end = 0;
  std::uint32_t ends = 0;
};

// Physical memory of a device with pages that lies at addresses of it, from the first operation to
// the last. The same memory lies at several addresses: data that comes and goes has other addresses
// in each stay, and waits order all operations that use one page.
struct ProgramMapping {
  std::size_t device = 0;
  std::int64_t offset = 0;    // of the addresses
  std::int64_t position = 0;  // in the physical memory
  std::int64_t bytes = 0;     // whole granules
};

// Pages that change places after an iteration, because data at home on the device is then in others
// than the next one expects. All moves are made at once. As many pages move to a place as from it.
struct ProgramMove {
  std::size_t device = 0;
  // Positions of the pages in the physical memory, in the iteration that ends and in the next one.
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t bytes = 0;
};

struct Program {
  ScheduleMemory memory = ScheduleMemory::kFixed;
  std::vector<ProgramStream> streams;
  std::vector<ProgramChannel> channels;
  std::vector<ProgramOperation> operations;  // in queue order: waits name earlier operations
  std::vector<ProgramWait> waits;
  // See ProgramOperation::first_offset; -1 for a task without workspace.
  std::vector<std::int64_t> offsets;
  // The first operation of each iteration.
  std::vector<std::size_t> iterations;
  // Memory over time, for the pictures of simulators: data, workspaces, copies on the host.
  std::vector<ProgramMemory> spans;
  std::vector<std::uint32_t> memory_ends;
  // By device: the highest end of any address in use, in whole granules; of paged memory, all bytes
  // in granules, or with LowerOptions::maps_pages those that are used.
  std::vector<std::int64_t> pool_bytes;
  // With LowerOptions::maps_pages: the pages at all addresses, and by device the end of these.
  std::vector<ProgramMapping> mappings;
  std::vector<std::int64_t> address_bytes;
  std::vector<ProgramMove> moves;
  // Host memory for all copies and all data of the host, taken before the first step.
  std::int64_t host_bytes = 0;
};

// How the host compresses and decompresses copies.
struct HostCompression {
  CompressionProfile profile = {};
  int threads = 0;  // 0: the number that the profile recommends
};

struct LowerOptions {
  // How often the schedule runs, one iteration after the other without a pause. The end of one is
  // the start of the next, so copies of one may run beside tasks of the other. 1 to 1000.
  int iterations = 1;
  // The host compresses the copies with a density in place of the devices, as in a pool.
  // A compressed copy has the room of its expected size on the host. Null: the devices compress.
  const HostCompression* host_compression = nullptr;
  // With paged memory: gives all data addresses, and tells which pages lie there.
  bool maps_pages = false;
};

// Turns a schedule into operations. `graphs` has a graph for each batch that the rounds name; a
// round with batch 0 takes the first. The graphs differ only in sizes, times and workspaces. The
// schedule is valid for the first (ValidateSchedule); here only numbers and memory are checked.
//
// Waits: an operation waits for the last writers of the bytes that it reads, and for all users of
// the bytes that it writes. The first operation that touches memory waits for its last users
// before: those of its addresses, or with pages those of the granules that were given back first.
// For each other stream only the latest such operation counts, and none that its own stream has
// passed.
//
// A copy from another device waits as a task does that reads the data there and writes it here.
//
// Times: a task of the host adds up the data that it reads, from all devices, and updates or writes
// the rest, at the rates of the host. Other tasks and copies take the times of the graph, the link
// and the compressor. On the host a copy that a device compressed has the room of a raw one,
// because its size depends on the data.
//
// Errors: ValidateMachine's and CheckCompressionProfile's; InvalidArgument for a schedule of a
// pool, which PlaceInPool gives its addresses; with `maps_pages` for data at home on a device that
// is allocated in pages which other data had; for copies between devices of a machine without
// connections between them; for a device, stream or batch that is not there; for ranges other than
// whole granules, compressed copies of a device without a compressor, too many steps, and data that
// another iteration would need at another address. ResourceExhausted for an address outside the
// device, for too few granules, and for too little host memory. Errors about a step begin with its
// number and name. Thread-safe. O(operations x log(live ranges) + uses).
TIDEPOOL_EXPORT absl::StatusOr<Program> LowerSchedule(absl::Span<const TaskGraph> graphs,
                                                      const Schedule& schedule,
                                                      const Machine& machine,
                                                      const LowerOptions& options = {});

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_PROGRAM_H_

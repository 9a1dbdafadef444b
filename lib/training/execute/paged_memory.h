// SPDX-License-Identifier: Apache-2.0
// Memory of a device with pages. All pages of a program are mapped beforehand, at each address
// where data has them: the waits of the program order the operations that use one page, so no call
// of the device is made while an iteration runs.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_PAGED_MEMORY_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_PAGED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tidepool/device.h"
#include "tidepool/training/program.h"

namespace tidepool::execute {

// Memory that a device refuses to take back is lost. Not thread-safe.
class PagedMemory {
 public:
  // The device has virtual memory, and outlives the object.
  explicit PagedMemory(Device& device) : device_(device) {}
  // No work is queued any more.
  ~PagedMemory();
  PagedMemory(const PagedMemory&) = delete;
  PagedMemory& operator=(const PagedMemory&) = delete;

  // Takes addresses and the pages that the program uses on device `number`, and maps them. Pages
  // are multiples of the device's granularity. Called once.
  absl::Status Take(const Program& program, std::size_t number);
  // Gives data at home, after an iteration, the addresses where the next one expects it. No work is
  // queued.
  void MoveHomes();
  // Maps all that is not mapped: after MoveHomes the pages that moved, and after an error the rest.
  absl::Status Map();

  std::byte* addresses() const { return addresses_; }  // null without any

 private:
  // Pages that are used together, in one piece of physical memory.
  struct Piece {
    std::int64_t begin = 0;  // position in the program's memory
    std::int64_t end = 0;
    bool is_used = false;
    std::size_t next = 0;  // the piece that has its memory in the iteration before
  };
  struct Place {
    std::byte* address = nullptr;
    std::size_t piece = 0;
    PhysicalMemory mapped = {};  // the name 0: nothing is
  };

  void CutPieces(const Program& program, std::size_t number);
  void AddPlaces(const Program& program, std::size_t number);
  void AddMoves(const Program& program, std::size_t number);
  std::size_t PieceAt(std::int64_t position) const;
  absl::Status Create();
  absl::Status Map(Place& place);

  Device& device_;
  std::byte* addresses_ = nullptr;
  std::int64_t address_bytes_ = 0;
  std::vector<Piece> pieces_;  // ascending
  std::vector<Place> places_;
  std::vector<PhysicalMemory> memory_;  // by piece; the name 0: none
  std::vector<PhysicalMemory> moved_;   // like memory_
  bool has_moves_ = false;
  bool is_mapped_ = false;
};

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_PAGED_MEMORY_H_

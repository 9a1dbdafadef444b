// SPDX-License-Identifier: Apache-2.0
// Chain: a training iteration of which each forward operation needs only the result of the one
// before it. It is the model of Beaumont, Eyraud-Dubois and Shilova, "Optimal GPU-CPU Offloading
// Strategies for Deep Neural Network Training", Euro-Par 2020; letters in comments are the paper's.
//
// Operations F_0, ..., F_L, B_L, ..., B_0 run in this order:
// - F_i reads x_i, writes x_(i+1), and needs exF_i more bytes while it runs.
// - B_i reads x_i, x_(i+1) and y_(i+1), writes y_i, and needs exB_i more bytes while it runs. After
//   it x_(i+1) and y_(i+1) are gone. B_L makes its own y_(L+1).
// - Beyond the paper, exB_i may be below 0: bytes of y_(i+1) that stay are a part of y_i, and B_i
//   needs them once. Such are gradients of weights, which wait for the update.
// - x_0 is on the device at the start. One transfer between device and host runs at a time.
//
// Pure data: nothing here touches a device or a clock.
#ifndef TIDEPOOL_TRAINING_CHAIN_H_
#define TIDEPOOL_TRAINING_CHAIN_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/export.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"

namespace tidepool {

// A chain of L + 1 forward operations. The first four lists have L + 1 numbers, `x` and `y` have
// L + 2.
struct Chain {
  std::vector<double> forward_seconds;       // uF
  std::vector<double> backward_seconds;      // uB
  std::vector<std::int64_t> forward_extra;   // exF, bytes
  std::vector<std::int64_t> backward_extra;  // exB, bytes; at least -min(y_i, y_(i+1))
  std::vector<std::int64_t> x;               // bytes of the activations
  std::vector<std::int64_t> y;               // bytes of their gradients
  double link_bytes_per_second = 0;          // beta, of each direction
  std::int64_t memory_bytes = 0;             // M_GPU

  // The lists below serve recomputation, and are empty in the paper's model. F_i and B_i read the
  // output of F_(i-1): the first `output[i]` bytes of x_i, of which B_(i-1) reads all. L + 2
  // numbers, none above that of x; empty: all of x_i is output.
  std::vector<std::int64_t> output = {};
  // Bytes that F_i needs besides its input and its output when it keeps only its output. L + 1
  // numbers; empty: forward_extra.
  std::vector<std::int64_t> output_extra = {};
  std::vector<std::size_t> runs_once = {};  // ascending: the F_i that may not run again

  friend bool operator==(const Chain&, const Chain&) = default;
};

// All functions below are thread-safe as long as no two share an object that one of them changes.

// Returns OK when lists have their lengths, and numbers their ranges: seconds from 0 to
// kMostTaskSeconds, sizes from 0, or that of exB, to kMostDataBytes and together at most
// kMostGraphBytes, the memory from 0 to kMostGraphBytes, and a link of more than 0 up to
// kMostLinkBytesPerSecond. Otherwise InvalidArgument, with the list and the index. O(L). The other
// functions need a valid chain.
TIDEPOOL_EXPORT absl::Status ValidateChain(const Chain& chain);

// Read and write a chain as one JSON object with the keys L, beta, M_gpu, uF, uB, exF, exB, x and
// y, and o, exO and once where they are not empty (docs/formats/chain.md). Reading also accepts
// gzip and the chains of rotor and ColossalAI, and validates. Errors are InvalidArgument with
// `FILE:LINE: fault, expectation`. Time and memory are linear in the size of the file.
TIDEPOOL_EXPORT absl::StatusOr<Chain> ReadChain(const std::filesystem::path& path);
TIDEPOOL_EXPORT absl::StatusOr<Chain> ParseChain(std::string_view json, std::string_view name);
// Returns whether a file is a JSON object, plain or gzip, with a chain's key at its beginning.
// False for a file that cannot be read. Reads some kilobytes.
TIDEPOOL_EXPORT bool IsChainFile(const std::filesystem::path& path);
// Validates the chain, and writes the whole file or none. A path that ends in ".gz" is compressed.
TIDEPOOL_EXPORT absl::Status WriteChain(const Chain& chain, const std::filesystem::path& path);
// Returns the text of a valid chain. ParseChain turns it into the same chain, with times equal to
// the last bit.
TIDEPOOL_EXPORT std::string ChainJson(const Chain& chain);
// Returns the text of a valid chain with the lists of rotor (Beaumont et al., "Optimal
// checkpointing for heterogeneous chains", RR-9302, 2019): fweight, bweight, cweight, cbweight,
// fwd_mem_tmp and bwd_mem_tmp. Rotor has one size for an output and its gradient, one for the
// forward tasks' memory, and runs everything again. Where a chain has two sizes the larger one is
// written, so nothing needs less memory. Rotor has no list for gradients that stay through backward
// operations: their bytes beyond the outputs are taken off the memory of the whole iteration. A
// chain that was read from such a text is written as it was. O(L).
TIDEPOOL_EXPORT std::string RotorChainJson(const Chain& chain);

// Return m_F_0, ..., m_F_L and m_B_0, ..., m_B_L: the bytes on the device while each operation
// runs, when nothing is offloaded. O(L).
TIDEPOOL_EXPORT std::vector<std::int64_t> ForwardBytes(const Chain& chain);
TIDEPOOL_EXPORT std::vector<std::int64_t> BackwardBytes(const Chain& chain);
// Returns M_peak, the memory with which nothing has to be offloaded. O(L).
TIDEPOOL_EXPORT std::int64_t ChainPeak(const Chain& chain);
// Returns the smallest memory in which the chain runs at all: with all of x_0, ..., x_L offloaded.
// O(L).
TIDEPOOL_EXPORT std::int64_t LeastChainMemory(const Chain& chain);
// Returns the time of all operations together. O(L).
TIDEPOOL_EXPORT double ChainSeconds(const Chain& chain);
// Returns Proposition 3's lower bound on the makespan of any schedule that transfers activations:
// max(ChainSeconds, 2 (M_peak - M_GPU) / beta). O(L).
TIDEPOOL_EXPORT double ChainLowerBound(const Chain& chain);

// Returns a bound that is at least as high: while operation k runs, D_k = m_k - M_GPU bytes are
// away. They leave before k and come back after it, so the makespan is at least max(seconds before
// k, D_k / beta) + seconds of k + max(seconds after k, D_k / beta). O(L).
TIDEPOOL_EXPORT double ChainOperationBound(const Chain& chain);

// Transfers of a chain: all offloads, in their order, and then all prefetches, in theirs.
struct ChainTransfers {
  std::vector<std::size_t> offloads;    // indices of activations, 0 to L, each once
  std::vector<std::size_t> prefetches;  // the same indices

  friend bool operator==(const ChainTransfers&, const ChainTransfers&) = default;
};
// Returns the transfers of a set of activations in the paper's order: offloads by increasing index,
// prefetches by decreasing index. O(n log n).
TIDEPOOL_EXPORT ChainTransfers OrderedTransfers(absl::Span<const std::size_t> set);

// The start of each operation and each transfer, in seconds from the start of the iteration.
struct ChainTimes {
  double seconds = 0;                   // the makespan
  double gap = 0;                       // epsilon_G: idle time between F_L and B_L
  std::vector<double> forward_starts;   // of F_0, ..., F_L
  std::vector<double> backward_starts;  // of B_0, ..., B_L
  std::vector<double> offload_starts;   // in the order of ChainTransfers::offloads
  std::vector<double> prefetch_starts;  // in the order of ChainTransfers::prefetches
};
// Returns times for given transfers: the forward half starts everything as early as possible, the
// backward half as late as possible, and the gap between them is the smallest that keeps the link
// and the memory. An activation leaves when its offload and F_i have both ended; a prefetch takes
// its memory when it starts, and ends before B_i. No other times with all offloads before all
// prefetches, in these orders, have a smaller makespan. InvalidArgument for indices that are
// not 0 to L, or not the same in both lists; ResourceExhausted, with the operation, when one of the
// halves does not fit into the memory. O((L + n) log L).
TIDEPOOL_EXPORT absl::StatusOr<ChainTimes> PlaceTransfers(const Chain& chain,
                                                          const ChainTransfers& transfers);
// Returns the makespan of a set in the paper's order. Errors are PlaceTransfers's.
TIDEPOOL_EXPORT absl::StatusOr<double> OrderedMakespan(const Chain& chain,
                                                       absl::Span<const std::size_t> set);

// A chain that stands for a task graph. Part i of the graph is F_i and B_i.
struct GraphChain {
  // Ranges [begin, end) of the graph's tasks.
  struct Part {
    std::size_t forward_begin = 0;
    std::size_t forward_end = 0;
    std::size_t backward_begin = 0;
    std::size_t backward_end = 0;

    friend bool operator==(const Part&, const Part&) = default;
  };

  Chain chain;
  std::vector<Part> parts;
  std::vector<std::vector<std::size_t>> activations;  // the graph's data in x_0, ..., x_(L+1)
  // By activation: the datum that is the output, if one is not all of it. Otherwise kNoOutput.
  static constexpr std::size_t kNoOutput = static_cast<std::size_t>(-1);
  std::vector<std::size_t> outputs = {};  // empty without ChainOptions::recomputation
  std::vector<std::size_t> algorithms;    // of the graph's tasks
  // By datum: whether it counts in resident_bytes. Tasks that change only such data do not run
  // again with their part. Empty without ChainOptions::recomputation.
  std::vector<bool> resident = {};
  // The most bytes that weights, their gradients and the state of their optimizer hold at once,
  // with small data that lasts (ToChain). They are not in the chain, and its memory is the device's
  // less these. With recomputation, gradients that the iteration makes are in the chain.
  std::int64_t resident_bytes = 0;
};

struct ChainOptions {
  std::int64_t memory_bytes = 0;     // of the device
  double link_bytes_per_second = 0;  // 0: the graph's
  // The algorithm of each task. Empty: the first one, with the least workspace.
  std::vector<std::size_t> algorithms = {};
  // The lists of the chain for recomputation. The graph is then cut only at data that backward
  // tasks need, or that the chain keeps for them, so that parts can run again; gradients, those of
  // weights too, and inputs have their memory for as long as repeated tasks may run beside them, so
  // M_peak may be above the peak of the walk.
  bool recomputation = false;
};

// Returns the chain of a valid graph. A cut lies between two forward tasks where later ones use at
// most one tensor of the earlier ones and leave it unchanged, and where backward tasks can be cut
// too: those of the later part use no other data of the earlier part, and those of the earlier part
// use none of the later one. Backward and update tasks belong to the part of their layer; without
// names of layers, to the part that uses their weights.
//
// x_(i+1) is the data of part i that backward tasks need. An operation of the chain takes the peak
// of its tasks when the graph runs in order: data has memory from the task that writes it to its
// last use, inputs have it from the start, and workspaces are added. So M_peak and the resident
// bytes together are the peak of the iteration, but small resident data (below) counts from the
// start to the end. exF, exB hold the data that no x or y holds. y_i has the gradients between
// B_i and B_(i-1), as far as the peaks of both hold them. Two parts are joined when the backward
// half of the first has a peak below the data that the chain keeps for it.
//
// Data of a forward task counts as resident if it prevents a cut that is possible without it, and
// has at most 1/16,384 of the bytes of all data of forward tasks: masks and tables that each block
// reads, new values of buffers, and data that a program holds to the end.
//
// With recomputation these are resident too: inputs that are on the device before the iteration and
// after it, and data of forward tasks that may not run again, such as dropout, if it has at most
// half of the bytes of its activation. The other tasks of its part may then run again. Long-lived
// data is resident if the chain then needs less memory where each part keeps its output alone until
// it runs again: data that waits for its last forward use while forward tasks write a large part of
// all data, such as what a later part joins, what each block of a decoder reads, and what a program
// holds. Data that no backward task needs is kept at a cut, as a part of its activation, if the
// activation on each side has at least four times its bytes: residual sums of which backward tasks
// need copies. Gradients of weights that do not exist before the iteration are in y from the part
// that writes them on.
//
// InvalidArgument for algorithms that are not there, no link, and tasks of the forward phase after
// the first backward task; ResourceExhausted when weights need more than the memory. O(tasks + data
// + uses).
TIDEPOOL_EXPORT absl::StatusOr<GraphChain> ToChain(const TaskGraph& graph,
                                                   const ChainOptions& options);

// Returns a graph with the tasks F0, F1, ..., B1, B0 and the data x0, x1, ..., y1, y0. Data of no
// bytes is left out. An activation with an output becomes x_i, the output, and rest_i. A y of which
// a part stays through B_(i-1) becomes several data. ToChain turns it into the same chain, except
// that y_(L+1) is part of exB_L. A task that writes nothing updates a weight of one byte, `order`.
// InvalidArgument where a chain of huge sizes is no valid graph. O(L).
TIDEPOOL_EXPORT absl::StatusOr<TaskGraph> FromChain(const Chain& chain);

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_CHAIN_H_

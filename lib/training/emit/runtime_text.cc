// SPDX-License-Identifier: Apache-2.0
// The text of all emitted programs: memory, streams, waits and copies.
#include "lib/training/emit/program_parts.h"

namespace tidepool::emit {

std::string_view RuntimeText() {
  return R"cpp(
    // Memory, streams, waits and copies
    // ---------------------------------------------------------------

#define CHECK(call)                                                                      \
      do {                                                                                   \
        const int error = static_cast<int>(call);                                            \
        if (error != 0) {                                                                    \
          std::fprintf(stderr, "%s:%d: %s returned %d\n", __FILE__, __LINE__, #call, error); \
          std::exit(1);                                                                      \
        }                                                                                    \
      } while (false)

    // One pass of a round: its first sample, and whether earlier passes of the iteration have begun
    // the sums of the gradients of weights.
    struct Pass {
      std::int64_t first = 0;
      bool adds = false;
    };

    char* pool = nullptr;  // all memory of the device, taken once
    char* host = nullptr;  // page-locked memory: data at home on the host, and data that is away
    cudaStream_t streams[kStreams];
    cudaEvent_t events[kEvents];

    [[maybe_unused]] void* At(std::int64_t offset) { return pool + offset; }
    [[maybe_unused]] void* Host(std::int64_t offset) { return host + offset; }

    [[maybe_unused]] void Wait(int stream, int event) {
      CHECK(cudaStreamWaitEvent(streams[stream], events[event], 0));
    }
    [[maybe_unused]] void Record(int event, int stream) {
      CHECK(cudaEventRecord(events[event], streams[stream]));
    }
    [[maybe_unused]] void CopyIn(int stream, void* to, const void* from, std::int64_t bytes) {
      CHECK(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice,
                            streams[stream]));
    }
    [[maybe_unused]] void CopyOut(int stream, void* to, const void* from, std::int64_t bytes) {
      CHECK(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost,
                            streams[stream]));
    }

    // Takes all memory, and makes the streams and events. Returns false, and says so, where the
    // device has less memory than the schedule needs.
    bool Start() {
      std::size_t free_bytes = 0;
      std::size_t total_bytes = 0;
      CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
      const std::size_t wanted = static_cast<std::size_t>(kPoolBytes);
      const cudaError_t taken = free_bytes < wanted
                                    ? cudaErrorMemoryAllocation
                                    : cudaMalloc(reinterpret_cast<void**>(&pool), wanted);
      if (taken == cudaErrorMemoryAllocation) {
        std::fprintf(stderr,
                     "the device has %zu of its %zu bytes free, and the schedule of %s needs %zu: "
                     "expected a schedule for less memory\n",
                     free_bytes, total_bytes, kGraph, wanted);
        return false;
      }
      CHECK(taken);
      CHECK(cudaMallocHost(reinterpret_cast<void**>(&host), static_cast<std::size_t>(kHostBytes)));
      for (cudaStream_t& stream : streams)
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      for (cudaEvent_t& event : events) {
        CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
      }
      return true;
    }

    void End() {
      for (cudaEvent_t event : events) CHECK(cudaEventDestroy(event));
      for (cudaStream_t stream : streams) CHECK(cudaStreamDestroy(stream));
      CHECK(cudaFreeHost(host));
      CHECK(cudaFree(pool));
    }
  )cpp";
}

std::string_view CallbackText() {
  return R"cpp(
    // The functions to write
    // ----------------------------------------------------------------------------

    // A task to queue on `stream`. Addresses stand in the order of the graph's task.
    struct TaskCall {
      const char* task;
      const char* algorithm;
      cudaStream_t stream;
      void* const* reads;
      void* const* writes;
      void* const* updates;
      bool adds;        // gradients of weights that it writes are added to those that are there
      void* workspace;  // null without one
      std::int64_t workspace_bytes;
      std::int64_t first_sample;  // of the batch
      std::int64_t samples;
    };
    // Queues the work of a task, and does not wait for it.
    void LaunchTask(const TaskCall& call);
    // Writes data that exists before the iteration into memory of the host: inputs of the whole
    // batch before each iteration, and the rest before the first, as iteration 0.
    void FillData(const char* data, void* memory, std::int64_t bytes, int iteration);
    // Is called after each iteration. Weights at home on the host are there.
    void EndIteration(int iteration);
  )cpp";
}

std::string_view CallbackMainText() {
  return R"cpp(
    int main(int argc, char** argv) {
      const int iterations = argc > 1 ? std::atoi(argv[1]) : 20;
      if (!Start()) return 2;
      FillHomes();
      for (int iteration = 1; iteration <= iterations; ++iteration) {
        FillInputs(iteration);
        Iterate();
        CHECK(cudaDeviceSynchronize());
        EndIteration(iteration);
      }
      End();
      return 0;
    }
  )cpp";
}

}  // namespace tidepool::emit

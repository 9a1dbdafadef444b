// What a test may tell the stand-in for the CUDA runtime (libcudart.so built from this folder), and
// ask it. Programs that do not know it use environment variables instead (README.md beside this
// file). C, so that every program can; all functions are thread-safe.
#ifndef TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_CONTROL_H_
#define TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_CONTROL_H_

#ifdef __cplusplus
extern "C" {
#endif

struct CudartHostConfig {
  int devices;
  long long memory_bytes;              // of each device
  long long granularity;               // of virtual memory: a power of two
  int has_virtual_memory;              // 0: a driver without it
  double copy_bytes_per_second;        // to and from a device; 0: as fast as the host copies
  long long copy_latency_nanoseconds;  // of each such copy
};

// As the environment says.
void cudartHostDefaultConfig(struct CudartHostConfig* config);
// Begins anew, as a process does: with these devices, nothing allocated, no error, no fault
// ordered, every count 0. What streams were given is finished first. Returns 0, and changes
// nothing, when the configuration is none. No other thread may be in a CUDA call.
int cudartHostConfigure(const struct CudartHostConfig* config);

// Lets the n-th call from now on (the next is 1) of `function` ("cudaMalloc", "cuMemCreate"; null:
// of any) fail with `error`, once and without having done anything. Takes the place of an order
// before it for the same function; n = 0 only takes that back. The functions about errors
// themselves are never counted.
void cudartHostFailCall(const char* function, long long n, int error);
// How many calls of `function` (null: of any) there were, those that failed included.
long long cudartHostCountCalls(const char* function);

// What a kernel that reads a wild address does: from here on every call on the device fails with
// `error` until cudaDeviceReset.
void cudartHostBreakDevice(int device, int error);

// Copies to and from the device that are queued from here on do not end before they are released.
void cudartHostHoldCopies(int device);
void cudartHostReleaseCopies(int device);

// What is there now, of all devices, that somebody has to give back.
struct CudartHostLive {
  long long streams;
  long long events;
  long long allocations;   // device, managed and pinned memory, registrations
  long long reservations;  // ranges of addresses
  long long physical_handles;
  long long mappings;
};
void cudartHostCountLive(struct CudartHostLive* live);

#ifdef __cplusplus
}
#endif

#endif  // TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_CONTROL_H_

// SPDX-License-Identifier: Apache-2.0
// The functions by which tests control the stand-in for the CUDA runtime (libcudart.so built from
// this folder) and query it. Programs that do not know the stand-in use environment variables
// instead (dryrun/README.md). The interface is C, so that every program can use it. All
// functions are thread-safe.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_CONTROL_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_CONTROL_H_

#ifdef __cplusplus
extern "C" {
#endif

struct CudartHostConfig {
  int devices;
  long long memory_bytes;              // of each device
  long long granularity;               // of virtual memory: a power of two
  int has_virtual_memory;              // 0: a driver without virtual memory
  double copy_bytes_per_second;        // between device and host; 0: as fast as the host copies
  long long copy_latency_nanoseconds;  // a delay in front of each such copy
  int capability;                      // ten times the major, plus the minor number
  int has_kernels;                     // 1: kernels do nothing; 0: a launch fails
  long long kernel_nanoseconds;        // the time that each kernel takes in its stream
  int multiprocessors;                 // of each device
  int threads_per_multiprocessor;
  int shared_bytes_per_block;  // the most that a kernel can ask for
  int l2_bytes;                // of the cache of each device
  // 0: device memory is never touched, so a device may have more memory than the host. Some copied
  // bytes are known all the same (cudartHostCountKnown); all others read as zero.
  int has_data;
  // The bandwidth of memory by which kernels are assumed to take time on the clock of events; 0:
  // none. Nothing waits for this time.
  double assumed_bytes_per_second;
  // The peak of tensor cores for 16-bit numbers, by which kernels for attention take time; 0: none.
  double assumed_operations_per_second;
  // The rate of copies between device and host in each direction; 0: as fast as memory.
  double assumed_link_bytes_per_second;
  int addresses;  // of memory: 0 as the host maps it, 1 ascending, 2 falling
  // 1: a call on a stream that was destroyed ends the process, as the driver of a GPU did; 0: it
  // returns cudaErrorInvalidResourceHandle.
  int dies_of_destroyed_streams;
  // 1: host functions of all streams run one after the other, as on a GPU; 0: each on the thread of
  // its stream.
  int has_one_host_thread;
  // Physical memory that network cards read (GPUDirect RDMA): 0 none, 1 the device has it, 2 the
  // device says so and refuses access to it, as under WSL 2.
  int network_memory;
  int is_integrated;        // 1: each device says that it shares the memory of the host
  long long context_bytes;  // of the memory of each device, taken from the beginning on
};

// Stores the configuration that the environment variables describe.
void cudartHostDefaultConfig(struct CudartHostConfig* config);
// Starts the runtime again with these devices: no allocations, no errors, no ordered faults, all
// counts 0. Finishes queued work first. Returns 1, or 0 and changes nothing if the configuration is
// invalid. No other thread may be in a CUDA call.
int cudartHostConfigure(const struct CudartHostConfig* config);

// Lets the n-th call of `function` from now on (the next call is 1) fail with `error`, once and
// without any effect. Names are such as "cudaMalloc" and "cuMemCreate"; null stands for any
// function. Replaces an earlier order for the same function; n = 0 only cancels that order. The
// functions that query errors are never counted.
void cudartHostFailCall(const char* function, long long n, int error);
// Returns the number of calls of `function` (null: of any function), including failed calls.
long long cudartHostCountCalls(const char* function);

// Returns the number of launches of a kernel (null: of any kernel) with has_kernels, by the name
// that the compiler gave it. A launch in a capture counts each time that its graph is launched.
long long cudartHostCountKernels(const char* name);

// Returns the number of waits for events that keep a core busy on a GPU: those of events without
// cudaEventBlockingSync.
long long cudartHostCountSpins(void);

// Queues a kernel of a library on a stream: it takes `seconds` on the clock of events, with the
// time of a launch, if kernels are assumed to take time. The bytes of its output become unknown; of
// all memory where `output` is null. Nothing happens without has_kernels.
void cudartHostRunKernel(const char* name, void* stream, double seconds, void* output,
                         long long bytes);

// Lets the kernels that this thread launches take the time of moving `bytes`, in place of a
// guess from the number of their threads; of the guess again with -1.
void cudartHostKernelsMove(long long bytes);

// Lets a stream be busy on the clock of events while a library exchanges data with other devices:
// for `seconds`, with the time of a launch, if kernels are assumed to take time.
void cudartHostExchange(void* stream, double seconds);

// Returns the sum of the times that the work so far on a device is assumed to take, in nanoseconds:
// 0 if kernels are not assumed to take time, or for a device that does not exist.
long long cudartHostAssumedTime(int device);
// Returns when that work ends: the clock of events, on which kernels run beside copies.
long long cudartHostAssumedEnd(int device);

// Does the same as a kernel that reads a wild address: from now on every call on the device fails
// with `error`, until cudaDeviceReset.
void cudartHostBreakDevice(int device, int error);

// The memory of devices with has_data 0 knows some bytes all the same: those of copies from the
// host, and copies of these, until the next kernel. Copies of more than 1 MiB are kept while they
// have room in 64 MiB. Other bytes read as zero. These functions may be called in host functions,
// and do their work at once.
//
// Returns how many of the bytes are known: all if the devices have data.
long long cudartHostCountKnown(const void* from, long long bytes);
// Copies device memory to the host, with zeros for unknown bytes. Returns how many are known.
long long cudartHostReadData(const void* from, void* to, long long bytes);
// Writes device memory. Without data it keeps the bytes, or makes them unknown if `from` is null.
void cudartHostWriteData(void* to, const void* from, long long bytes);
// Announces such a write, which a stream will do later.
void cudartHostExpectData(void);
// Begins (1) or ends (0) a time in which kernels leave all known bytes alone, and copies of any
// size are kept. The times may nest.
void cudartHostHoldData(int begins);

// Queues work of a stand-in for a library, which kernels do on a GPU: it is a host function that
// runs beside those of other streams, and may wait for them. Returns the error of CUDA.
int cudartHostLaunchWork(void* stream, void (*work)(void*), void* data);

// Takes memory of a device for a library, such as the buffers of NCCL: it is not free, and the
// program does not have it. Negative bytes are given back. Returns 0 and takes nothing if there is
// no room.
int cudartHostTakeForLibrary(int device, long long bytes);

// Returns 1 if a call has made the context of a device: on a GPU it takes hundreds of MB.
int cudartHostHasContext(int device);

// Returns the free bytes of a device as NVML tells them, or -1 if there is no such device: all of
// them without a context. Makes no context, which processes that are forked later could not use.
long long cudartHostFreeBytes(int device);

// Holds back copies to and from the device that are queued from now on, until ReleaseCopies.
void cudartHostHoldCopies(int device);
void cudartHostReleaseCopies(int device);

// The objects of all devices that exist now and that a program has to give back.
struct CudartHostLive {
  long long streams;
  long long events;
  long long allocations;   // device, managed and pinned memory, registrations
  long long reservations;  // ranges of addresses
  long long physical_handles;
  long long network_handles;  // those of memory that network cards read
  long long mappings;
};
void cudartHostCountLive(struct CudartHostLive* live);

#ifdef __cplusplus
}
#endif

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_CONTROL_H_

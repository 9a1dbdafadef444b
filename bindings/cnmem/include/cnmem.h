// SPDX-License-Identifier: Apache-2.0
/* CNMeM's interface, version 1.0.0, as tidepool serves it: source and binary compatible.
 *
 * One pool for each device serves all of its streams. cnmemInit takes the memory and cnmemFinalize
 * gives it back to CUDA. cnmemMalloc and cnmemFree serve the device that is current in the calling
 * thread. Sizes are rounded up to 512 bytes. A stream is registered before it is used; NULL, the
 * default stream, always is registered.
 *
 * All functions are thread-safe, except that no other call may run at the same time as cnmemInit or
 * the last cnmemRelease or cnmemFinalize. README.md in the folder above lists the differences from
 * the original and the environment variables. */
#ifndef TIDEPOOL_BINDINGS_CNMEM_CNMEM_H_
#define TIDEPOOL_BINDINGS_CNMEM_CNMEM_H_

#ifdef __cplusplus
#include <cstddef>
#include <cstdio>
#endif

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdio.h>

#if defined(__GNUC__) && defined(CNMEM_DLLEXPORT)
#define CNMEM_API __attribute__((visibility("default")))
#else
#define CNMEM_API
#endif

/* 1.0.0 */
#define CNMEM_VERSION 100

#ifdef __cplusplus
extern "C" {
#endif

/* C has nothing else. NOLINTBEGIN(modernize-use-using) */

typedef enum {
  CNMEM_STATUS_SUCCESS = 0,
  CNMEM_STATUS_CUDA_ERROR = 1,
  CNMEM_STATUS_INVALID_ARGUMENT = 2,
  CNMEM_STATUS_NOT_INITIALIZED = 3,
  CNMEM_STATUS_OUT_OF_MEMORY = 4,
  CNMEM_STATUS_UNKNOWN_ERROR = 5
} cnmemStatus_t;

/* Flags of cnmemInit, which may be combined. */
typedef enum {
  CNMEM_FLAGS_DEFAULT = 0,
  /* The pool never holds more than the sizes given to cnmemInit. */
  CNMEM_FLAGS_CANNOT_GROW = 1,
  /* Memory reserved for a stream is never given to another stream. */
  CNMEM_FLAGS_CANNOT_STEAL = 2,
  /* Memory comes from cudaMallocManaged, and the host may use it. */
  CNMEM_FLAGS_MANAGED = 4
} cnmemManagerFlags_t;

typedef struct cnmemDevice_t_ {
  /* The number of the device, as cudaSetDevice takes it. */
  int device;
  /* Bytes to take at once, less than the device's memory; 0: half of the device's memory. */
  size_t size;
  /* The number of streams below. More can be registered later. */
  int numStreams;
  /* The streams to register. May be NULL if numStreams is 0. */
  cudaStream_t* streams;
  /* Bytes of `size` to reserve for each stream; NULL: no reservations. */
  size_t* streamSizes;
} cnmemDevice_t;

/* NOLINTEND(modernize-use-using) */

/* Takes memory on each device and registers the streams. The current device stays unchanged.
 * INVALID_ARGUMENT: no devices; a size that is not less than the device's memory; numStreams is
 * negative, or positive with `streams` NULL; or the library is initialized already, and stays so.
 * OUT_OF_MEMORY: the device has less memory left, or the reservations exceed the memory that may
 * be taken. CUDA_ERROR: the device does not exist, or an error of CUDA. After an error no memory
 * is held. */
cnmemStatus_t CNMEM_API cnmemInit(int numDevices, const cnmemDevice_t* devices, unsigned flags);

/* Does the same as cnmemRelease. */
cnmemStatus_t CNMEM_API cnmemFinalize(void);

/* Adds a reference: one more cnmemRelease is needed to end the library. NOT_INITIALIZED before
 * cnmemInit. */
cnmemStatus_t CNMEM_API cnmemRetain(void);

/* Drops a reference. The last call, after as many calls as there were of cnmemInit and
 * cnmemRetain, waits for the devices and gives all memory back, including live allocations.
 * NOT_INITIALIZED before cnmemInit and after the last call; CUDA_ERROR if CUDA did not take all
 * memory back. */
cnmemStatus_t CNMEM_API cnmemRelease(void);

/* Registers a stream of the current device. Registering it again has no effect. A new stream that
 * got the handle of a destroyed stream has to be registered before it is used. INVALID_ARGUMENT
 * for NULL and for a handle that is not a stream of the current device. */
cnmemStatus_t CNMEM_API cnmemRegisterStream(cudaStream_t stream);

/* Allocates memory for work that is queued on `stream` from now on. That work may wait, on the
 * device, for work of other streams that used the memory before. Stores NULL for 0 bytes.
 * INVALID_ARGUMENT: `ptr` is NULL and `size` is not 0; the stream is not registered on the current
 * device; or the device was not given to cnmemInit. OUT_OF_MEMORY: *ptr is set to NULL. */
cnmemStatus_t CNMEM_API cnmemMalloc(void** ptr, size_t size, cudaStream_t stream);

/* Frees memory. Work queued on `stream` so far may still use it. With `stream` NULL, which may
 * free every allocation, work of the allocation's own stream may still use it too. Ignores a NULL
 * `ptr`. INVALID_ARGUMENT: not a live allocation, an allocation of another stream, or the stream
 * is not registered on the current device. */
cnmemStatus_t CNMEM_API cnmemFree(void* ptr, cudaStream_t stream);

/* Stores the memory of `stream`, and the free part of it. The memory is its live allocations, or
 * its reservation if that is more. For NULL: the pool's memory, and the part of it that is free
 * for all streams. Linear in the number of blocks. INVALID_ARGUMENT for null pointers, and as for
 * cnmemMalloc. */
cnmemStatus_t CNMEM_API cnmemMemGetInfo(size_t* freeMem, size_t* totalMem, cudaStream_t stream);

/* Prints the blocks of `stream` and of its device as text for people. Same errors as
 * cnmemMemGetInfo. */
cnmemStatus_t CNMEM_API cnmemPrintMemoryState(FILE* file, cudaStream_t stream);

/* Returns the name of a status, or of CNMEM_STATUS_UNKNOWN_ERROR for an unknown value. */
const char CNMEM_API* cnmemGetErrorString(cnmemStatus_t status);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TIDEPOOL_BINDINGS_CNMEM_CNMEM_H_ */

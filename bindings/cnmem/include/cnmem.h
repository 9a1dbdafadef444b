/* CNMeM's interface, version 1.0.0, as tidepool serves it: source and binary compatible.
 *
 * A pool for each device serves all of its streams. cnmemInit takes the memory, cnmemMalloc and
 * cnmemFree hand it out and take it back, for the device that is current in the calling thread;
 * cnmemFinalize gives it back to CUDA. Sizes are rounded up to 512 bytes. A stream is registered
 * before it is used; NULL, the default stream, always is.
 *
 * All functions but cnmemInit and the last cnmemRelease or cnmemFinalize are thread-safe: no other
 * call may run beside those. What is different from the original, and environment variables for
 * more: README.md beside this folder. */
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

/* May be combined. */
typedef enum {
  CNMEM_FLAGS_DEFAULT = 0,
  /* Nothing is taken from CUDA beyond the sizes given to cnmemInit. */
  CNMEM_FLAGS_CANNOT_GROW = 1,
  /* What is reserved for a stream is given to nobody else. */
  CNMEM_FLAGS_CANNOT_STEAL = 2,
  /* Memory is of cudaMallocManaged: the host may use it. */
  CNMEM_FLAGS_MANAGED = 4
} cnmemManagerFlags_t;

typedef struct cnmemDevice_t_ {
  /* As for cudaSetDevice. */
  int device;
  /* Bytes to take at once, less than the device has; 0: half of them. */
  size_t size;
  /* How many streams follow. More can be registered later. */
  int numStreams;
  /* May be NULL when there are none. */
  cudaStream_t* streams;
  /* Bytes of `size` to reserve for each; NULL: none. */
  size_t* streamSizes;
} cnmemDevice_t;

/* NOLINTEND(modernize-use-using) */

/* Takes memory on each device and registers the streams. Leaves the current device as it is.
 * INVALID_ARGUMENT: no devices; a size that is not less than the device's memory; a negative number
 * of streams, or none where some are announced; or there was a cnmemInit without its end, which
 * goes on. OUT_OF_MEMORY: the device has not so much left, or more is reserved for streams than may
 * be taken. CUDA_ERROR: a device that is not there, or an error of CUDA. After an error nothing is
 * held. */
cnmemStatus_t CNMEM_API cnmemInit(int numDevices, const cnmemDevice_t* devices, unsigned flags);

/* The same as cnmemRelease. */
cnmemStatus_t CNMEM_API cnmemFinalize(void);

/* Lets one more cnmemRelease pass before the end. NOT_INITIALIZED when there is nothing to keep. */
cnmemStatus_t CNMEM_API cnmemRetain(void);

/* The last one, as many as there were of cnmemInit and cnmemRetain, waits for the devices and gives
 * all memory back, what is live included. NOT_INITIALIZED before cnmemInit and after the last one;
 * CUDA_ERROR when CUDA does not take all of it back. */
cnmemStatus_t CNMEM_API cnmemRelease(void);

/* Registers a stream of the current device; once more changes nothing. A stream that CUDA gave the
 * handle of a destroyed one is registered too before it is used. INVALID_ARGUMENT for NULL and for
 * what is no stream of the current device. */
cnmemStatus_t CNMEM_API cnmemRegisterStream(cudaStream_t stream);

/* Memory for work queued on `stream` from here on; it may wait, on the device, for work of others
 * that used it before. NULL for no bytes. INVALID_ARGUMENT: `ptr` is NULL and bytes are asked for;
 * the stream is not registered on the current device, or the device was not given to cnmemInit.
 * OUT_OF_MEMORY: *ptr is NULL then. */
cnmemStatus_t CNMEM_API cnmemMalloc(void** ptr, size_t size, cudaStream_t stream);

/* Takes memory back; work queued on `stream` so far may still use it, and when `stream` is NULL,
 * which may free everything, work of the stream of the allocation too. NULL is taken and ignored.
 * INVALID_ARGUMENT: not a live allocation, one of another stream, or the stream is not registered
 * on the current device. */
cnmemStatus_t CNMEM_API cnmemFree(void* ptr, cudaStream_t stream);

/* How much memory `stream` has, and how much of that is free: what is live on it, or what was
 * reserved for it if that is more. For NULL: the pool's, and what is free of that for everybody.
 * Linear in the number of blocks. INVALID_ARGUMENT for null pointers and as for cnmemMalloc. */
cnmemStatus_t CNMEM_API cnmemMemGetInfo(size_t* freeMem, size_t* totalMem, cudaStream_t stream);

/* Prints the blocks of `stream` and of its device, for people to read. Errors as above. */
cnmemStatus_t CNMEM_API cnmemPrintMemoryState(FILE* file, cudaStream_t stream);

/* The name of the value; that of CNMEM_STATUS_UNKNOWN_ERROR for what is none. */
const char CNMEM_API* cnmemGetErrorString(cnmemStatus_t status);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TIDEPOOL_BINDINGS_CNMEM_CNMEM_H_ */

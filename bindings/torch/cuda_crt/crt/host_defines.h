/* SPDX-License-Identifier: Apache-2.0 */
/* The macros of the CUDA Toolkit's crt/host_defines.h that its host headers use, for GCC and Clang.
   NVIDIA's wheel nvidia-cuda-runtime, which PyTorch depends on, includes that header and lacks it.
   Found only where the toolkit's own is not there. */
#ifndef __HOST_DEFINES_H__
#define __HOST_DEFINES_H__

#ifndef CUDARTAPI
#define CUDARTAPI
#endif
#define CUDARTAPI_CDECL
#define __no_return__ __attribute__((noreturn))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __inline_hint__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __thread__ __thread
#define __import__
#define __export__
#define __cdecl
#define __annotate__(a)
#define __location__(a)
#define __specialization_static static
#define __launch_bounds__(...)
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __grid_constant__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Stands for the CUDA Toolkit's crt/host_config.h, which checks the compiler of CUDA C++. */
#ifndef __HOST_CONFIG_H__
#define __HOST_CONFIG_H__

#define CUDARTAPI

#endif

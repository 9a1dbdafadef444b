/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface for programs in C. C++ has tidepool/pool.h and the headers beside it. */
#ifndef TIDEPOOL_TIDEPOOL_H_
#define TIDEPOOL_TIDEPOOL_H_

#include "tidepool/c_api.h"

#endif /* TIDEPOOL_TIDEPOOL_H_ */

/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the version of the C interface. */
#include <stdio.h>

#include "tidepool/c_api.h"

int main(void) { return puts(tidepool_version()) < 0; }

// SPDX-License-Identifier: Apache-2.0
/* A library that must fail to load: its thread-local variables need static TLS, and more of it than the loader's reserve. */
__thread char of_each_thread[1 << 20] __attribute__((tls_model("initial-exec")));

char* OfThisThread(void) { return of_each_thread; }

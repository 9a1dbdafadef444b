// SPDX-License-Identifier: Apache-2.0
// Options of jemalloc, the program's malloc: huge pages, because the first touch of memory is the
// largest cost of reading a trace besides parsing.

// Read by jemalloc before main.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "thp:always,metadata_thp:always";
}

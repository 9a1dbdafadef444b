// The program's malloc is jemalloc, with huge pages: most of what traces cost beside their parsing
// is memory that is touched for the first time.

// jemalloc reads it before main.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "thp:always,metadata_thp:always";
}

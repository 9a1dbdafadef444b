/* SPDX-License-Identifier: Apache-2.0 */
/* tidepool in plain C (C89 and newer, and C++): memory pools for bindings to other languages and
   frameworks. The library is libtidepool_c.so, CMake target tidepool::c, pkg-config module
   tidepool_c. The binary interface only grows: functions, keys and values keep their meaning, and
   structures grow at their end.

   Unless a comment says otherwise, a function is thread-safe and returns a tidepool_status. No
   exception leaves a function. A call that fails changes nothing that its output parameters point
   to, except that an allocation that fails stores NULL. The calling thread can read the cause from
   tidepool_last_error(). A call on a pool in which the host has no memory left ends the process,
   with a message on stderr, because the pool may be half-changed; other calls return
   TIDEPOOL_OUT_OF_MEMORY.

   A pool belongs to the process that made it. In a forked child every call on it returns
   TIDEPOOL_FAILED_PRECONDITION at once. Destroying a pool while another thread uses it is an error
   of the caller, except that calls which begin after it return TIDEPOOL_FAILED_PRECONDITION. */
#ifndef TIDEPOOL_C_API_H_
#define TIDEPOOL_C_API_H_

#include <stddef.h>

/* The version of this header; tidepool_version() is that of the library. */
#define TIDEPOOL_VERSION_MAJOR 0
#define TIDEPOOL_VERSION_MINOR 1
#define TIDEPOOL_VERSION_PATCH 0

#if defined(__GNUC__)
#define TIDEPOOL_C_API __attribute__((visibility("default")))
#else
#define TIDEPOOL_C_API
#endif

/* C++ lets other values than the named ones in, as C does. */
#ifdef __cplusplus
#define TIDEPOOL_C_INT : int
#else
#define TIDEPOOL_C_INT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using): C has no other way. */

/* The kind of a message of the log. */
typedef enum tidepool_log_level TIDEPOOL_C_INT {
  TIDEPOOL_LOG_ERROR =
      0, /* work failed, and no call returned its error; errors of option `errors` */
  TIDEPOOL_LOG_WARNING = 1, /* the program has a fault, such as memory that it did not free */
  TIDEPOOL_LOG_INFO = 2     /* figures that the program asked for, by option `statistics` */
} tidepool_log_level;

/* A function of the program that takes a message: one line without its end, or several, of which
   the later ones are indented. The text is valid during the call. Any thread may make the call,
   several at a time, also while the process ends. It must not call tidepool, and no exception
   leaves it. */
typedef void (*tidepool_log)(tidepool_log_level level, const char* text, void* data);

/* A pool of memory of one device. */
typedef struct tidepool_pool tidepool_pool;

/* A queue of work. On a CUDA device it is a cudaStream_t, and NULL is the legacy default stream; a
   stream needs no registration. On the host device it is a stream of tidepool_stream_create, and
   NULL is a stream that the pool has. */
typedef void* tidepool_stream;

typedef enum tidepool_status TIDEPOOL_C_INT {
  TIDEPOOL_OK = 0,
  TIDEPOOL_INVALID_ARGUMENT = 1,    /* a value that no call could accept */
  TIDEPOOL_NOT_FOUND = 2,           /* a file, stream or region that does not exist */
  TIDEPOOL_OUT_OF_MEMORY = 3,       /* of the pool, the device or the host */
  TIDEPOOL_FAILED_PRECONDITION = 4, /* the pool is in another state, or was destroyed */
  TIDEPOOL_DEADLINE_EXCEEDED = 5,   /* no room until the time of option `wait` had passed */
  TIDEPOOL_INTERNAL = 6,            /* the device failed, or tidepool has a bug */
  TIDEPOOL_UNAVAILABLE = 7,         /* the device or its driver does not exist or is not ready */
  TIDEPOOL_UNIMPLEMENTED = 8        /* the device cannot do it */
} tidepool_status;

/* A caller's knowledge about an allocation; it may be freed at any time in both cases. */
typedef enum tidepool_hint TIDEPOOL_C_INT {
  TIDEPOOL_RESIDENT = 0,   /* it stays for long */
  TIDEPOOL_OFFLOADABLE = 1 /* it will leave the device soon */
} tidepool_hint;

/* Returns the text of the calling thread's last error: one line without a full stop; "" before the
   first error. It is valid until the thread's next error. */
TIDEPOOL_C_API const char* tidepool_last_error(void);

/* Returns the name of a status, such as "TIDEPOOL_OUT_OF_MEMORY"; "unknown status" for a value that
   is no status. */
TIDEPOOL_C_API const char* tidepool_status_name(tidepool_status status);

/* Returns the version of the library, such as "0.1.0". */
TIDEPOOL_C_API const char* tidepool_version(void);

/* Sends messages that no call returns, up to the level `most`, to a function with `data`, or to
   stderr if `log` is NULL, and drops the others. Without this call all go to stderr. An earlier
   function may still be running when this call returns. Of each call some 100 bytes are kept.
   TIDEPOOL_INVALID_ARGUMENT for an unknown level. */
TIDEPOOL_C_API tidepool_status tidepool_set_log(tidepool_log log, void* data,
                                                tidepool_log_level most);

/* Makes a pool. `options` is "key=value" pairs with a comma, a semicolon or a new line between
   them, each key at most once; NULL and "" mean the defaults. A value may stand in double quotes;
   then it may contain separators. Blanks around keys and values are dropped.

   device         host, cuda, or cuda:N for the CUDA device of number N. Default: the calling
                  thread's current CUDA device, and host where no CUDA device exists
   device_memory  bytes of the host device (8589934592, 512MiB, 8GiB). Default 1GiB
   initial        bytes taken from the device at once. Default 0
   budget         limit on the memory taken from the device: bytes, or a part of it (80%). Default
                  the whole device
   shared_budget  beginning of the path of a file by which pools of several processes share the
                  budget, on one device: VALUE.host, or VALUE.0000:05:00.0 for the GPU at that place
                  of the PCI bus (with MIG, a VALUE for each instance). All of them have the same
                  budget, and hold at most that together; a refusal names the processes and their
                  bytes. Default: the pool has its budget alone
   memory         virtual, one range of addresses in which the pool grows, or segments, whole
                  allocations that other processes and network cards can share. Default: virtual
                  where the device has it
   alignment      bytes; sizes are rounded up to it, a power of two. Default 512
   placement      the policy that chooses a free block: best-fit, exact-fit-first,
                  high-end-offload, first-fit, planned. Default best-fit, and planned with a plan
   plan           path of a plan file (`tidepool plan -o`) for the first iterations
   growth         least growth of a pool that grows often, as a fraction of its size. Default
                  0.03125
   remap          0 or 1: move free memory together instead of refusing a request. Default 0
   exact          0 or 1: place requests exactly as `tidepool size` predicts. Default 0
   wait           time that an allocation waits on the host for frees of other threads (500ms, 2s,
                  inf). Default: no waiting
   trace          beginning of the path of a trace of all requests: VALUE.0.tide for the CUDA device
                  0, VALUE.host.tide for the host device
   recording      0 or 1: whether tidepool_start_trace may be called. Default 0, and 1 with trace
   streams        end: a stream may be destroyed after any call that names it, so each free on it
                  records an event once several streams use the pool. stay: the caller keeps its
                  streams as long as the pool, or forgets them before it destroys them
                  (tidepool_stream_forget), and frees record nothing. Default end
   pinned         limit on the page-locked host memory of tidepool_pinned_allocate, in bytes.
                  Default: half of the host's memory
   pinned_numa    number of the NUMA node that this memory comes from. If the host has no such node,
                  or forbids the process to choose one, tidepool_pinned_allocate fails. Default:
                  near the threads that touch it
   statistics     0 or 1: print counts and sizes on stderr when the pool or the process ends.
                  Default 0
   errors         0 or 1: print each error on stderr. Default 0
   nvtx           auto or off: whether the memory of a CUDA device is registered with NVTX when a
                  tool is attached that takes it, as compute-sanitizer does. Then the default of
                  memory is segments, and the pool has no caches for streams. Default auto

   TIDEPOOL_INVALID_ARGUMENT for an unknown key (the error lists the known ones, nearest first), a
   malformed value, and options that contradict each other. TIDEPOOL_UNAVAILABLE for a device that
   does not exist. `*pool` is NULL after an error.

   The environment variable TIDEPOOL_OPTIONS has options in the same form, but for device and
   streams. They take the place of the program's, in each pool that is made while it is set. */
TIDEPOOL_C_API tidepool_status tidepool_pool_create(const char* options, tidepool_pool** pool);

/* Checks options as tidepool_pool_create does, TIDEPOOL_OPTIONS included, and returns its error.
   Makes a pool for the time of the call, which writes no trace and prints no statistics. */
TIDEPOOL_C_API tidepool_status tidepool_check_options(const char* options);

/* Waits for the work of all streams that used the pool, gives its memory back, and ends its trace.
   Reports live allocations on stderr; they are gone afterwards. Streams may have been destroyed
   before. A second call returns TIDEPOOL_FAILED_PRECONDITION, and so does every later call: of a
   destroyed pool about 100 bytes are kept. NULL is ignored. A process may end without this call;
   traces and statistics are written then too. After CUDA has shut down it only writes those. */
TIDEPOOL_C_API tidepool_status tidepool_pool_destroy(tidepool_pool* pool);

/* Stores the address of at least `bytes` bytes, for work queued on `stream` from now on; NULL for 0
   bytes. TIDEPOOL_OUT_OF_MEMORY with a remedy, or TIDEPOOL_DEADLINE_EXCEEDED with option `wait`.
   O(log blocks), and O(blocks) when the pool grows. */
TIDEPOOL_C_API tidepool_status tidepool_allocate(tidepool_pool* pool, size_t bytes,
                                                 tidepool_stream stream, tidepool_hint hint,
                                                 void** address);

/* Frees an allocation: work queued on `stream` from now on does not use its memory. Work of other
   streams that uses it was noted by tidepool_record_use, or `stream` waits for it. Ignores NULL.
   TIDEPOOL_INVALID_ARGUMENT for an address at which no live allocation begins. Any thread may
   free. O(log blocks). */
TIDEPOOL_C_API tidepool_status tidepool_free(tidepool_pool* pool, void* address,
                                             tidepool_stream stream);

/* Frees an allocation after all work of the stream that it was allocated on, which may have been
   destroyed, and of the streams of tidepool_record_use. Slower than tidepool_free: the next
   owner of the memory may wait for the work of the whole device. */
TIDEPOOL_C_API tidepool_status tidepool_free_late(tidepool_pool* pool, void* address);

/* Notes that work queued on `stream` before the free uses the allocation too. */
TIDEPOOL_C_API tidepool_status tidepool_record_use(tidepool_pool* pool, void* address,
                                                   tidepool_stream stream);

/* Stores 1 in `*owns` if the address lies in memory of the pool, live or free, and 0 otherwise. */
TIDEPOOL_C_API tidepool_status tidepool_owns(tidepool_pool* pool, const void* address, int* owns);

/* Writes a line that tells where an address is, as in "address 0x1080 is 128 bytes inside an
   allocation of 4.0 KiB (4096 bytes) at 0x1000, of region "weights", which sleeps": for the address
   in an error of a kernel. Stores the number of bytes without the NUL at the end in `*size`, and
   the first `capacity - 1` of them and a NUL in `text`, which may be NULL if `capacity` is 0. For
   people: the text may change in any version. Does not ask the device, which may have failed.
   O(blocks). */
TIDEPOOL_C_API tidepool_status tidepool_describe(tidepool_pool* pool, const void* address,
                                                 char* text, size_t capacity, size_t* size);

/* Stores the number of the CUDA device, or -1 for the host device. */
TIDEPOOL_C_API tidepool_status tidepool_get_device(tidepool_pool* pool, int* ordinal);

/* Streams. ------------------------------------------------------------------------------------ */

/* A stream that a call names exists during the call, as in CUDA: the driver may end a process that
   names a destroyed one. Between calls the pool does not use it, unless option `streams` is stay.
 */

/* Makes a stream of the pool's device. It ends with the pool at the latest. */
TIDEPOOL_C_API tidepool_status tidepool_stream_create(tidepool_pool* pool, tidepool_stream* stream);
/* Destroys a stream of tidepool_stream_create without waiting: queued work still runs. */
TIDEPOOL_C_API tidepool_status tidepool_stream_destroy(tidepool_pool* pool, tidepool_stream stream);
/* Waits until the stream has finished its work. */
TIDEPOOL_C_API tidepool_status tidepool_stream_synchronize(tidepool_pool* pool,
                                                           tidepool_stream stream);
/* Forgets a stream of the caller without using it, so the stream may be destroyed before this call
   too; with option streams=stay it must exist. CUDA reuses handles, and a pool of that option would
   take a new stream with the same handle for the old one: call this before another stream is
   created. Other pools ask CUDA at each allocation which stream it is (since CUDA 12). OK for a
   stream that the pool has never seen. */
TIDEPOOL_C_API tidepool_status tidepool_stream_forget(tidepool_pool* pool, tidepool_stream stream);

/* Lets a stream be destroyed after any call that names it, and later streams with its handle, as
   option streams=end does for all: for several users of a pool of which one keeps its streams. */
TIDEPOOL_C_API tidepool_status tidepool_stream_may_end(tidepool_pool* pool, tidepool_stream stream);

/* Graphs. A launch of a CUDA graph writes to the addresses that the capture was given, at any later
   time. So a stream that captures is refused memory (TIDEPOOL_FAILED_PRECONDITION), unless it has
   begun a graph of the pool: then its memory belongs to the graph until that is released. Memory
   that is freed in the capture serves later requests of the capture, and no other stream. Option
   streams=stay leaves out the question whether a stream captures: its caller begins graphs by
   itself. While a graph is begun, memory that only a record of all streams can hand over (that of
   streams which ended without a recorded free) is not handed over: such a request fails with
   TIDEPOOL_FAILED_PRECONDITION, because a capture does not survive that record. A capture that the
   pool does not know of does not survive it either: tell the pool of each capture on its device, of
   graphs with memory of others too (tidepool_note_capture). */

/* Begins a graph on `stream`, before cudaStreamBeginCapture. TIDEPOOL_FAILED_PRECONDITION if the
   stream captures already or has begun a graph, TIDEPOOL_INVALID_ARGUMENT for a default stream, for
   a stream of tidepool_stream_create, and for an alignment above 512. */
TIDEPOOL_C_API tidepool_status tidepool_begin_graph(tidepool_pool* pool, tidepool_stream stream);
/* Ends the graph of `stream` after cudaStreamEndCapture, and stores its number.
   TIDEPOOL_NOT_FOUND if the stream has begun none, TIDEPOOL_FAILED_PRECONDITION while it captures.
 */
TIDEPOOL_C_API tidepool_status tidepool_end_graph(tidepool_pool* pool, tidepool_stream stream,
                                                  size_t* graph);
/* Gives the memory of an ended graph back to the pool, after all work that the device has now. The
   graph is not launched again. Live memory of it follows when it is freed, and all of it when no
   other graph is begun. */
TIDEPOOL_C_API tidepool_status tidepool_release_graph(tidepool_pool* pool, size_t graph);

/* Says before a capture on the pool's device that it begins (1), and after its end that it has
   ended (0). For captures with memory of others, without tidepool_begin_graph: the pool then asks
   CUDA for nothing that would end them. TIDEPOOL_FAILED_PRECONDITION for an end without a
   beginning. */
TIDEPOOL_C_API tidepool_status tidepool_note_capture(tidepool_pool* pool, int begins);

/* Iterations and marks. ----------------------------------------------------------------------- */

/* Says that a phase called `name` begins: for traces, and for policies that use it. */
TIDEPOOL_C_API tidepool_status tidepool_mark(tidepool_pool* pool, const char* name);
/* Says that an iteration begins that is similar to earlier ones: for placement planned. */
TIDEPOOL_C_API tidepool_status tidepool_mark_iteration(tidepool_pool* pool);
/* Waits until all plans that were begun are made. Only tests and measurements need it. */
TIDEPOOL_C_API tidepool_status tidepool_await_plans(tidepool_pool* pool);

/* Memory. ------------------------------------------------------------------------------------- */

/* Gives unused memory back to the device as long as the pool keeps `keep_bytes`. Waits on the host
   for the work that last used it. Stores the bytes given back, if `given_back` is not NULL. */
TIDEPOOL_C_API tidepool_status tidepool_trim(tidepool_pool* pool, size_t keep_bytes,
                                             size_t* given_back);

/* Stores the bytes of requests that other pools of the shared budget were refused since the last
   call, or wait for, and did not get since, as far as is known: a program that asks now and then
   can give memory back for them, by tidepool_trim. 0 without option shared_budget. Reads a file. */
TIDEPOOL_C_API tidepool_status tidepool_take_wanted_by_others(tidepool_pool* pool, size_t* bytes);

/* A function of the program that makes room for a request of `bytes` on `stream`, in the region
   `tag` or, if that is NULL, in none: it frees memory of the pool, or pauses a region. Returns
   whether the pool tries again, 0 for no. `attempt` counts from 1 for each request. The thread of
   the request makes the call, without locks of the pool, so several threads may be in the function
   at a time. It may call any function of this pool; a request of its own that finds no room does
   not call it again, and does not wait. No exception leaves it. */
typedef int (*tidepool_make_room)(const char* tag, size_t bytes, tidepool_stream stream,
                                  int attempt, void* data);

/* Lets the pool call a function with `data` before it refuses a request for want of memory, in the
   region `tag`, which need not exist yet, or, if `tag` is NULL, anywhere in the pool. The request
   is refused only when no function makes room, or after 100 attempts. Several functions take turns:
   each attempt begins with the next one. With option `wait` they are called before the request
   waits, again after 10 ms and each time that its wait has doubled, and at the end of the wait.
   Requests beyond the budget and requests of graphs call none. Stores a number for
   tidepool_end_make_room.
   TIDEPOOL_INVALID_ARGUMENT for a tag without 1 to 255 bytes. */
TIDEPOOL_C_API tidepool_status tidepool_begin_make_room(tidepool_pool* pool, const char* tag,
                                                        tidepool_make_room function, void* data,
                                                        size_t* number);
/* Ends the calls of a function: waits until other threads have left it, and may be called in the
   function itself. TIDEPOOL_NOT_FOUND for a number that is not in use. */
TIDEPOOL_C_API tidepool_status tidepool_end_make_room(tidepool_pool* pool, size_t number);

/* Stores the address of at least `bytes` bytes of page-locked host memory, which copies from and to
   the device reach at full speed; NULL for 0 bytes. TIDEPOOL_OUT_OF_MEMORY with a remedy.
   O(log buffers), but for the first allocations, which page-lock memory. */
TIDEPOOL_C_API tidepool_status tidepool_pinned_allocate(tidepool_pool* pool, size_t bytes,
                                                        void** address);
/* Frees page-locked memory. No work of the device may use it any more: the next allocation may get
   it at once. Ignores NULL. TIDEPOOL_INVALID_ARGUMENT for an address at which no live allocation
   begins. */
TIDEPOOL_C_API tidepool_status tidepool_pinned_free(tidepool_pool* pool, void* address);
/* Gives unused page-locked memory back to the host. Stores the bytes, if `given_back` is not
   NULL. */
TIDEPOOL_C_API tidepool_status tidepool_pinned_trim(tidepool_pool* pool, size_t* given_back);

/* Figures of a pool. All sizes are bytes, rounded up to the alignment. */
typedef struct tidepool_statistics {
  size_t struct_size; /* set by the caller to sizeof(tidepool_statistics) */
  size_t live_bytes;
  size_t live_count;
  size_t peak_live_bytes; /* since the pool was made, or since tidepool_reset_peaks */
  size_t reserved_bytes;  /* held of the device */
  size_t peak_reserved_bytes;
  size_t max_bytes;        /* the budget */
  size_t high_water_bytes; /* the highest end of any block so far */
  size_t free_bytes;       /* reserved and not live */
  size_t largest_hole_bytes;
  size_t allocations; /* served so far, and so on */
  size_t frees;
  size_t failures;      /* allocations that were refused */
  size_t blocked;       /* allocations that had to wait for memory */
  size_t stream_waits;  /* of a stream for another one */
  size_t event_records; /* events recorded for them */
  size_t growths;       /* times the pool took memory from the device */
  size_t remaps;        /* requests for which free memory was moved */
  size_t remapped_bytes;
  /* With placement planned. */
  size_t planned;           /* requests served at their planned offsets */
  size_t deviations;        /* requests that were not, and planned requests that did not come */
  size_t plans;             /* plans that the pool made */
  size_t iterations;        /* seen from their start to their end */
  size_t peak_budget_bytes; /* that the pool and its regions held at a time */
} tidepool_statistics;

/* Fills the first `struct_size` bytes of `*statistics`; fields that this version of the library
   does not know become 0. O(1) but after long use of plans. */
TIDEPOOL_C_API tidepool_status tidepool_get_statistics(tidepool_pool* pool,
                                                       tidepool_statistics* statistics);
/* Writes the figures of all pools of the process, of their owners and regions, as text that
   Prometheus reads (format 0.0.4): `tidepool_live_bytes{pool="1",device="cuda:0"} 4096` and so on,
   by the names of the fields, with "_total" at counts that never fall. Stores the number of bytes
   without the NUL at the end in `*size`, and the first `capacity - 1` of them and a NUL in `text`,
   which may be NULL if `capacity` is 0. The text may be longer in the next call. It needs no pool,
   and may run while pools are destroyed. O(pools, owners and regions). */
TIDEPOOL_C_API tidepool_status tidepool_get_metrics(char* text, size_t capacity, size_t* size);
/* Sets both peaks, and those of owners, to the present figures. */
TIDEPOOL_C_API tidepool_status tidepool_reset_peaks(tidepool_pool* pool);

/* Owners. Several frameworks may share a pool. Each counts its own allocations by making them under
   its name. Allocations of tidepool_allocate have no owner: they are the rest of the pool's
   figures. */

/* Stores the number of the owner `name`, from 1 on; a name that is new becomes an owner. A name has
   at most 255 bytes, and a pool at most 1,024 owners. */
TIDEPOOL_C_API tidepool_status tidepool_add_owner(tidepool_pool* pool, const char* name,
                                                  size_t* owner);
/* Does the same as tidepool_allocate, and counts the allocation until its tidepool_free or
   tidepool_free_late. Both calls then take a lock and a look-up more; other allocations of the pool
   take the look-up at their free as long as memory with an owner is live. */
TIDEPOOL_C_API tidepool_status tidepool_allocate_for(tidepool_pool* pool, size_t owner,
                                                     size_t bytes, tidepool_stream stream,
                                                     tidepool_hint hint, void** address);

/* Figures of an owner. Sizes are bytes, rounded up to the alignment. */
typedef struct tidepool_owner_statistics {
  size_t struct_size; /* set by the caller to sizeof(tidepool_owner_statistics) */
  const char* name;   /* valid until the pool is destroyed */
  size_t live_bytes;
  size_t live_count;
  size_t peak_live_bytes; /* since the first allocation, or since tidepool_reset_peaks */
  size_t allocations;
  size_t frees;
} tidepool_owner_statistics;

/* Fills the first `struct_size` bytes of `*statistics`, as tidepool_get_statistics does.
   TIDEPOOL_INVALID_ARGUMENT for a number that no owner has. */
TIDEPOOL_C_API tidepool_status tidepool_get_owner_statistics(tidepool_pool* pool, size_t owner,
                                                             tidepool_owner_statistics* statistics);

/* Regions. A region is the part of a pool that has a tag, such as "weights". It has addresses of
   its own, within the budget of the pool. A region can sleep: its memory is then free for the rest
   of the pool, and its addresses and allocations stay. A tag has 1 to 255 bytes. Regions need
   virtual memory, which the option `memory` chooses. Traces record them, and owners do not count
   them. */

/* How a region that sleeps keeps its contents. One that shall keep its memory is not paused. */
typedef enum tidepool_pause_mode TIDEPOOL_C_INT {
  TIDEPOOL_PAUSE_HOST = 0,       /* page-locked host memory keeps them, and they come back */
  TIDEPOOL_PAUSE_DISCARD = 1,    /* they are lost */
  TIDEPOOL_PAUSE_COMPRESSED = 2, /* pageable host memory keeps them compressed */
  TIDEPOOL_PAUSE_DISK = 3        /* a file keeps them; of tidepool_pause_regions alone */
} tidepool_pause_mode;

/* Does the same as tidepool_allocate, in a region, which the first call with a tag makes.
   tidepool_free and tidepool_record_use take the address. TIDEPOOL_FAILED_PRECONDITION while the
   region sleeps, TIDEPOOL_UNIMPLEMENTED for a pool in segments. While the stream captures a graph
   the memory is that of the graph, and of no region. */
TIDEPOOL_C_API tidepool_status tidepool_allocate_in(tidepool_pool* pool, const char* tag,
                                                    size_t bytes, tidepool_stream stream,
                                                    tidepool_hint hint, void** address);
/* Does the same as tidepool_allocate_in, and as tidepool_allocate if `tag` is NULL, with a priority
   for option `wait`: of the requests that wait, those of the highest priority are served first.
   Memory that is freed in a region serves requests of that region before others. Other functions
   ask with priority 0. */
TIDEPOOL_C_API tidepool_status tidepool_allocate_by_priority(tidepool_pool* pool, const char* tag,
                                                             int priority, size_t bytes,
                                                             tidepool_stream stream,
                                                             tidepool_hint hint, void** address);
/* Puts a region to sleep after the work queued on `stream` so far. Work of other streams that
   writes to its memory comes before. Copies of the contents to the host are queued on `stream`. No
   work may use the memory until tidepool_resume; allocations may be freed. TIDEPOOL_NOT_FOUND for
   an unknown tag, TIDEPOOL_FAILED_PRECONDITION when the region sleeps already, or while `stream`
   captures a graph, which tidepool_resume and a wait of tidepool_await_contents refuse too,
   TIDEPOOL_OUT_OF_MEMORY when the host has no memory. After an error the region is awake, with its
   contents. With TIDEPOOL_PAUSE_COMPRESSED the call waits until the contents are compressed, by as
   many threads as the profile that TIDEPOOL_COMPRESSION_PROFILE names recommends, and
   tidepool_resume until they have come back. Also the errors of a profile that cannot be read. */
TIDEPOOL_C_API tidepool_status tidepool_pause(tidepool_pool* pool, const char* tag,
                                              tidepool_pause_mode mode, tidepool_stream stream);
/* Puts a region to sleep likewise, with its contents in a file without a name, in a folder. The
   file ends with tidepool_resume, or with the process. The call waits until the file has the
   contents, and tidepool_resume until they have come back. Also TIDEPOOL_INVALID_ARGUMENT for a
   folder that takes no file, TIDEPOOL_OUT_OF_MEMORY, with the bytes, when the disk has no room. */
TIDEPOOL_C_API tidepool_status tidepool_pause_to_disk(tidepool_pool* pool, const char* tag,
                                                      const char* folder, tidepool_stream stream);
/* Gives a region memory at its addresses again, and queues copies of the contents on `stream`. May
   wait for work that still uses the memory. TIDEPOOL_NOT_FOUND for an unknown tag,
   TIDEPOOL_FAILED_PRECONDITION when the region does not sleep, TIDEPOOL_OUT_OF_MEMORY, with the
   figures, when it does not fit. After an error the region sleeps on, and no contents are lost. */
TIDEPOOL_C_API tidepool_status tidepool_resume(tidepool_pool* pool, const char* tag,
                                               tidepool_stream stream);
/* Pauses `count` regions likewise, all of them or, after an error, none: `tags` names them, and
   `modes` says how each keeps its contents. Those of mode TIDEPOOL_PAUSE_DISK are in files of
   `folder`, as with tidepool_pause_to_disk; without such a mode it may be NULL. The regions are
   asked before the first changes. TIDEPOOL_INVALID_ARGUMENT for a tag that is named twice. 0 tags
   change nothing. */
TIDEPOOL_C_API tidepool_status tidepool_pause_regions(tidepool_pool* pool, const char* const* tags,
                                                      const tidepool_pause_mode* modes,
                                                      size_t count, const char* folder,
                                                      tidepool_stream stream);
/* Resumes `count` regions likewise, all of them or, after an error, none: their memory must fit
   together before any is mapped. Contents are copied in the order of `tags`. */
TIDEPOOL_C_API tidepool_status tidepool_resume_regions(tidepool_pool* pool, const char* const* tags,
                                                       size_t count, tidepool_stream stream);
/* Loses the contents that a sleeping region kept, as if it had been paused with
   TIDEPOOL_PAUSE_DISCARD: where they are not needed any more, or a file cannot be read.
   TIDEPOOL_NOT_FOUND for an unknown tag, TIDEPOOL_FAILED_PRECONDITION when the region does not
   sleep. */
TIDEPOOL_C_API tidepool_status tidepool_discard_contents(tidepool_pool* pool, const char* tag);

/* Makes work queued on `stream` from now on wait for the contents of `bytes` at `address`, which
   the last tidepool_resume of their region copies, but not for contents at higher addresses.
   Contents come in the order of addresses, in up to 256 pieces: a first layer need not wait for the
   last. While another thread is in that tidepool_resume, the call waits until copies of these
   contents are queued, not for the rest. Memory of no region needs no wait.
   TIDEPOOL_FAILED_PRECONDITION when the region sleeps. */
TIDEPOOL_C_API tidepool_status tidepool_await_contents(tidepool_pool* pool, const void* address,
                                                       size_t bytes, tidepool_stream stream);

/* Bounds the memory of a region, which the first call with a tag makes: the others leave room in
   the budget for `least_bytes` while it does not sleep, and it holds at most `most_bytes`. It gives
   unused memory back for that. At first the bounds are 0 and SIZE_MAX. TIDEPOOL_INVALID_ARGUMENT
   when the least exceeds the most, TIDEPOOL_FAILED_PRECONDITION when the region sleeps or uses more
   than the most, TIDEPOOL_OUT_OF_MEMORY, with the figures, when there is no room for the least,
   TIDEPOOL_UNIMPLEMENTED for a pool in segments. An error changes no bound. */
TIDEPOOL_C_API tidepool_status tidepool_limit_region(tidepool_pool* pool, const char* tag,
                                                     size_t least_bytes, size_t most_bytes);

/* Says that others registered `bytes` at `address`, such as NCCL, a network card or a process that
   shares them: they reach the physical memory itself. Until tidepool_end_registration the region of
   the memory is not paused, nor the allocation freed (TIDEPOOL_FAILED_PRECONDITION). The same bytes
   may be registered several times. Memory of no region stays in place until it is freed, and is not
   noted. TIDEPOOL_INVALID_ARGUMENT for 0 bytes, and unless all are in one live allocation of the
   pool; TIDEPOOL_FAILED_PRECONDITION when the region sleeps. */
TIDEPOOL_C_API tidepool_status tidepool_begin_registration(tidepool_pool* pool, const void* address,
                                                           size_t bytes);
/* Ends one tidepool_begin_registration of the same bytes. TIDEPOOL_INVALID_ARGUMENT if there is
   none. */
TIDEPOOL_C_API tidepool_status tidepool_end_registration(tidepool_pool* pool, const void* address,
                                                         size_t bytes);

/* Figures of a region. Sizes are bytes. */
typedef struct tidepool_region_statistics {
  size_t struct_size; /* set by the caller to sizeof(tidepool_region_statistics) */
  const char* tag;    /* valid until the pool is destroyed */
  size_t is_asleep;   /* 1 or 0 */
  size_t live_bytes;
  size_t live_count;
  size_t reserved_bytes; /* held of the device; 0 while the region sleeps */
  size_t host_bytes;     /* of page-locked memory, which is kept for the next pause */
  size_t pauses;         /* so far, and so on */
  size_t resumes;
  size_t copied_out_bytes; /* to the host */
  size_t copied_in_bytes;  /* back */
  size_t stored_bytes;     /* of contents in a file or compressed, while the region sleeps */
  size_t least_bytes;      /* the bounds of tidepool_limit_region */
  size_t most_bytes;       /* SIZE_MAX for none */
  size_t blocked;          /* requests that had to wait for memory */
  size_t kept_bytes;       /* of contents, while the region sleeps */
} tidepool_region_statistics;

/* Fills the first `struct_size` bytes of the first `capacity` elements of `regions`, in the order
   in which the regions were made, and stores the number of regions in `*count`. The caller sets the
   `struct_size` of each element, which is also the distance to the next. `regions` may be NULL if
   `capacity` is 0. */
TIDEPOOL_C_API tidepool_status tidepool_get_regions(tidepool_pool* pool,
                                                    tidepool_region_statistics* regions,
                                                    size_t capacity, size_t* count);

/* A block of a pool: live memory or a hole. This structure never changes. */
typedef struct tidepool_block {
  void* address;
  size_t offset; /* blocks that follow each other without a gap lie in one piece of memory */
  size_t bytes;
  tidepool_stream stream; /* of live memory: the stream that it was allocated on */
  int is_live;
} tidepool_block;

/* Stores the number of blocks in `*count`, and the first `capacity` of them in `blocks`, in the
   order of offsets, without those of regions. `blocks` may be NULL if `capacity` is 0. Other
   threads may change the number between two calls. Memory of a graph is live in the segments that
   the graph has, with the stream that the graph was begun on. O(blocks log segments). */
TIDEPOOL_C_API tidepool_status tidepool_get_blocks(tidepool_pool* pool, tidepool_block* blocks,
                                                   size_t capacity, size_t* count);
/* Writes statistics and blocks as JSON: {"device", "statistics": {...}, "blocks": [{"address",
   "offset", "bytes", "live", "stream"}]}, with "graph", its number, at memory of a graph. The file
   appears whole or not at all. */
TIDEPOOL_C_API tidepool_status tidepool_write_snapshot(tidepool_pool* pool, const char* path);

/* Traces. ------------------------------------------------------------------------------------- */

/* Begins a native trace (`tidepool info PATH`) of all requests, in a new or replaced file.
   TIDEPOOL_FAILED_PRECONDITION without option `recording`, and while a trace is written. */
TIDEPOOL_C_API tidepool_status tidepool_start_trace(tidepool_pool* pool, const char* path);
/* Ends the trace and waits until it is in its file. TIDEPOOL_FAILED_PRECONDITION without one. */
TIDEPOOL_C_API tidepool_status tidepool_stop_trace(tidepool_pool* pool);

/* NOLINTEND(modernize-use-using) */

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TIDEPOOL_C_API_H_ */

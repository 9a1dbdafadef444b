# SPDX-License-Identifier: Apache-2.0
"""Pools of the C interface (c_api.h) by ctypes, for the integrations with frameworks.

The library libtidepool_c.so is looked for in TIDEPOOL_C_LIBRARY (a file or its folder), beside this package, and where
the system looks for libraries.
"""
import _thread
import atexit
import contextlib
import ctypes
import ctypes.util
import itertools
import logging
import os
import threading
import types
import weakref
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p

__all__ = ["PoolError", "GraphMemory", "OutOfMemory", "Pool", "RoomMaker", "Statistics", "metrics", "options_text", "shared_pool", "stream_handle"]

_OK, _INVALID_ARGUMENT, _NOT_FOUND, _OUT_OF_MEMORY, _FAILED_PRECONDITION, _DEADLINE_EXCEEDED = range(6)


class PoolError(RuntimeError):
    """An error of a pool: the device failed, or the pool is in another state."""


class OutOfMemory(MemoryError):
    """No memory is left. The text has the request, the state of the pool, and a remedy."""


class Statistics(ctypes.Structure):
    """The figures of a pool, in bytes and counts, as tidepool_statistics describes them."""

    _fields_ = [(name, c_size_t) for name in (
        "struct_size", "live_bytes", "live_count", "peak_live_bytes", "reserved_bytes", "peak_reserved_bytes", "max_bytes",
        "high_water_bytes", "free_bytes", "largest_hole_bytes", "allocations", "frees", "failures", "blocked",
        "stream_waits", "event_records", "growths", "remaps", "remapped_bytes", "planned", "deviations", "plans",
        "iterations", "peak_budget_bytes")]

    def as_dict(self):
        return {name: getattr(self, name) for name, _ in self._fields_[1:]}

    def __repr__(self):
        return "Statistics(" + ", ".join(f"{name}={value}" for name, value in self.as_dict().items()) + ")"


class OwnerStatistics(ctypes.Structure):
    """The figures of an owner, as tidepool_owner_statistics describes them."""

    _fields_ = [("struct_size", c_size_t), ("name", c_char_p)] + [(name, c_size_t) for name in (
        "live_bytes", "live_count", "peak_live_bytes", "allocations", "frees")]

    def as_dict(self):
        return {name: getattr(self, name) for name, _ in self._fields_[2:]}


class RegionStatistics(ctypes.Structure):
    """The figures of a region, as tidepool_region_statistics describes them."""

    _fields_ = [("struct_size", c_size_t), ("tag", c_char_p)] + [(name, c_size_t) for name in (
        "is_asleep", "live_bytes", "live_count", "reserved_bytes", "host_bytes", "pauses", "resumes",
        "copied_out_bytes", "copied_in_bytes", "stored_bytes", "least_bytes", "most_bytes", "blocked", "kept_bytes")]

    def as_dict(self):
        return {name: getattr(self, name) for name, _ in self._fields_[2:]} | {"is_asleep": bool(self.is_asleep)}


# How a region that sleeps keeps its contents: values of tidepool_pause_mode.
PAUSE_MODES = {"host": 0, "discard": 1, "compressed": 2, "disk": 3}


class _Block(ctypes.Structure):
    _fields_ = [("address", c_void_p), ("offset", c_size_t), ("bytes", c_size_t), ("stream", c_void_p), ("is_live", c_int)]


_NO_LIMIT = c_size_t(-1).value

# tidepool_make_room; its data is the key of a RoomMaker.
_MAKE_ROOM = ctypes.CFUNCTYPE(c_int, c_char_p, c_size_t, c_void_p, c_int, c_void_p)

# The functions that return a status, with the types of their arguments.
_FUNCTIONS = {
    "tidepool_check_options": [c_char_p],
    "tidepool_pool_create": [c_char_p, POINTER(c_void_p)],
    "tidepool_pool_destroy": [c_void_p],
    "tidepool_allocate": [c_void_p, c_size_t, c_void_p, c_int, POINTER(c_void_p)],
    "tidepool_add_owner": [c_void_p, c_char_p, POINTER(c_size_t)],
    "tidepool_allocate_for": [c_void_p, c_size_t, c_size_t, c_void_p, c_int, POINTER(c_void_p)],
    "tidepool_get_owner_statistics": [c_void_p, c_size_t, POINTER(OwnerStatistics)],
    "tidepool_allocate_in": [c_void_p, c_char_p, c_size_t, c_void_p, c_int, POINTER(c_void_p)],
    "tidepool_allocate_by_priority": [c_void_p, c_char_p, c_int, c_size_t, c_void_p, c_int, POINTER(c_void_p)],
    "tidepool_pause_regions": [c_void_p, POINTER(c_char_p), POINTER(c_int), c_size_t, c_char_p, c_void_p],
    "tidepool_resume_regions": [c_void_p, POINTER(c_char_p), c_size_t, c_void_p],
    "tidepool_discard_contents": [c_void_p, c_char_p],
    "tidepool_await_contents": [c_void_p, c_void_p, c_size_t, c_void_p],
    "tidepool_limit_region": [c_void_p, c_char_p, c_size_t, c_size_t],
    "tidepool_begin_registration": [c_void_p, c_void_p, c_size_t],
    "tidepool_end_registration": [c_void_p, c_void_p, c_size_t],
    "tidepool_get_regions": [c_void_p, POINTER(RegionStatistics), c_size_t, POINTER(c_size_t)],
    "tidepool_free": [c_void_p, c_void_p, c_void_p],
    "tidepool_free_late": [c_void_p, c_void_p],
    "tidepool_stream_may_end": [c_void_p, c_void_p],
    "tidepool_record_use": [c_void_p, c_void_p, c_void_p],
    "tidepool_owns": [c_void_p, c_void_p, POINTER(c_int)],
    "tidepool_describe": [c_void_p, c_void_p, c_char_p, c_size_t, POINTER(c_size_t)],
    "tidepool_get_device": [c_void_p, POINTER(c_int)],
    "tidepool_stream_forget": [c_void_p, c_void_p],
    "tidepool_stream_synchronize": [c_void_p, c_void_p],
    "tidepool_begin_graph": [c_void_p, c_void_p],
    "tidepool_end_graph": [c_void_p, c_void_p, POINTER(c_size_t)],
    "tidepool_release_graph": [c_void_p, c_size_t],
    "tidepool_mark": [c_void_p, c_char_p],
    "tidepool_mark_iteration": [c_void_p],
    "tidepool_await_plans": [c_void_p],
    "tidepool_trim": [c_void_p, c_size_t, POINTER(c_size_t)],
    "tidepool_take_wanted_by_others": [c_void_p, POINTER(c_size_t)],
    "tidepool_begin_make_room": [c_void_p, c_char_p, _MAKE_ROOM, c_void_p, POINTER(c_size_t)],
    "tidepool_end_make_room": [c_void_p, c_size_t],
    "tidepool_pinned_allocate": [c_void_p, c_size_t, POINTER(c_void_p)],
    "tidepool_pinned_free": [c_void_p, c_void_p],
    "tidepool_pinned_trim": [c_void_p, POINTER(c_size_t)],
    "tidepool_get_statistics": [c_void_p, POINTER(Statistics)],
    "tidepool_get_metrics": [c_char_p, c_size_t, POINTER(c_size_t)],
    "tidepool_reset_peaks": [c_void_p],
    "tidepool_get_blocks": [c_void_p, POINTER(_Block), c_size_t, POINTER(c_size_t)],
    "tidepool_write_snapshot": [c_void_p, c_char_p],
    "tidepool_start_trace": [c_void_p, c_char_p],
    "tidepool_stop_trace": [c_void_p],
}


_FILE = "libtidepool_c.so.0"  # the name that programs ask for, so that the process has the library once


def _candidates():
    """Yields the paths under which the library may be."""
    named = os.environ.get("TIDEPOOL_C_LIBRARY")
    if named:
        yield os.path.join(named, _FILE) if os.path.isdir(named) else named
        return
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in ("", "lib", "lib64"):
        path = os.path.join(here, folder, _FILE)
        if os.path.exists(path):
            yield path
    yield ctypes.util.find_library("tidepool_c") or _FILE


def _load():
    """Returns the library with the types of its functions."""
    faults = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
            break
        except OSError as error:
            faults.append(str(error))
    else:
        raise ImportError("libtidepool_c.so cannot be loaded: set TIDEPOOL_C_LIBRARY to its path (" + "; ".join(faults) + ")")
    for name, types in _FUNCTIONS.items():
        getattr(library, name).argtypes = types
    library.tidepool_last_error.restype = c_char_p
    library.tidepool_version.restype = c_char_p
    return library


_lock = threading.Lock()
_loaded = None


def library():
    """Returns the loaded library. Raises ImportError if it cannot be found."""
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _load()
        return _loaded


def _check(status):
    if status == _OK:
        return
    text = library().tidepool_last_error().decode(errors="replace")
    if status in (_OUT_OF_MEMORY, _DEADLINE_EXCEEDED):
        raise OutOfMemory(text)
    if status == _INVALID_ARGUMENT:
        raise ValueError(text)
    if status == _NOT_FOUND:
        raise FileNotFoundError(text)
    raise PoolError(text)


def _value_text(value):
    if isinstance(value, bool):
        return "1" if value else "0"
    text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    if '"' in text:
        raise ValueError(f"the value {text!r} has a double quote, which options cannot hold")
    return f'"{text}"'


def _without_null(name, given, encoded):
    if b"\0" in encoded:  # it would end there in C
        raise ValueError(f"{name} {given!r} has a null character, expected a text without one")
    return encoded


def text_of(name, text):
    """Returns a text for C."""
    return _without_null(name, text, text.encode())


def _tags(tag):
    """Returns one tag, or several, as a list."""
    return [tag] if isinstance(tag, str) else list(tag)


def _tag_array(tags):
    return (c_char_p * len(tags))(*[text_of("tag", tag) for tag in tags])


def path_of(name, path):
    """Returns a path for C."""
    return _without_null(name, path, os.fsencode(path))


def options_text(options):
    """Returns a dict of options as text of tidepool_pool_create. Options with the value None are left out."""
    return ",".join(f"{key}={_value_text(value)}" for key, value in options.items() if value is not None)


def stream_handle(stream):
    """Returns the cudaStream_t of a stream: an integer, or an object with __cuda_stream__. None is the legacy default
    stream.
    """
    if stream is None or isinstance(stream, int):
        return stream or 0
    return stream.__cuda_stream__()[1]


class Pool:
    """A pool of memory of one device. Options are those of tidepool_pool_create: Pool(device="cuda:0", budget="80%").

    Addresses and streams are integers; the stream 0 is the legacy default stream. Thread-safe. The pool lives until
    close() or, without it, as long as the process: frameworks free memory in any order at their end.
    """

    def __init__(self, **options):
        self._library = library()
        self._as_parameter_ = c_void_p()
        self._ending = None
        _check(self._library.tidepool_pool_create(text_of("options", options_text(options)), byref(self._as_parameter_)))

    @classmethod
    def of_handle(cls, handle):
        """Returns a Pool for a tidepool_pool* that another library made and keeps, given as an integer."""
        pool = cls.__new__(cls)
        pool._library = library()
        pool._as_parameter_ = c_void_p(handle)
        pool._ending = set()  # streams that may end, in a pool of a framework that keeps its own
        return pool

    def _name(self, stream):
        if self._ending is not None and stream not in self._ending:
            _check(self._library.tidepool_stream_may_end(self, stream))
            self._ending.add(stream)

    @property
    def handle(self):
        """The tidepool_pool* as an integer, for other libraries."""
        return self._as_parameter_.value

    def close(self):
        """Gives all memory back to the device. Every later call raises PoolError."""
        _check(self._library.tidepool_pool_destroy(self))

    def allocate(self, size, stream=0, owner=0):
        """Returns the address of at least `size` bytes for work on `stream` from now on; 0 for 0 bytes.

        With a number of owner(), the allocation is counted under that name.
        """
        address = c_void_p()
        self._name(stream)
        if owner == 0:
            _check(self._library.tidepool_allocate(self, size, stream, 0, byref(address)))
        else:
            _check(self._library.tidepool_allocate_for(self, owner, size, stream, 0, byref(address)))
        return address.value or 0

    def owner(self, name):
        """Returns the number of an owner of allocations, for allocate(). A name that is new becomes an owner."""
        owner = c_size_t()
        _check(self._library.tidepool_add_owner(self, text_of("name", name), byref(owner)))
        return owner.value

    def owners(self):
        """Returns the figures of the owners as dicts, by name. The rest of the pool has no owner."""
        owners = {}
        while True:
            figures = OwnerStatistics(struct_size=ctypes.sizeof(OwnerStatistics))
            if self._library.tidepool_get_owner_statistics(self, len(owners) + 1, byref(figures)) != _OK:
                return owners
            owners[figures.name.decode(errors="replace")] = figures.as_dict()

    def allocate_in(self, tag, size, stream=0, priority=0):
        """Returns the address of at least `size` bytes in the region of a tag, which the first call makes.

        With option `wait`, of the requests that wait those of the highest priority are served first.
        """
        address = c_void_p()
        self._name(stream)
        _check(self._library.tidepool_allocate_by_priority(self, text_of("tag", tag), priority, size, stream, 0, byref(address)))
        return address.value or 0

    def pause(self, tag, mode="host", stream=0, folder=None):
        """Puts a region to sleep after the work queued on `stream`: its memory is free for the rest of the pool.

        mode: "host" keeps its contents in page-locked memory, "compressed" compressed in other memory of the host, "disk" in a file of
        `folder`, which has no name and ends with the process; "discard" loses them. A region that shall keep its memory is not paused.
        tag: one, several, or a dict of tags and the mode of each. Of several regions all sleep or, after an error, none.
        """
        modes = list(tag.items()) if isinstance(tag, dict) else [(each, mode) for each in _tags(tag)]
        for _, each in modes:
            if each not in PAUSE_MODES:
                raise ValueError(f"mode {each!r}, expected one of {', '.join(PAUSE_MODES)}; do not pause a region that shall keep its memory")
        if any(each == "disk" for _, each in modes) != (folder is not None):
            raise ValueError(f"folder {folder!r} with mode {modes[0][1] if len(modes) == 1 else [each for _, each in modes]!r}, "
                             "expected a folder with mode 'disk' and only there")
        self._name(stream)
        values = (c_int * len(modes))(*[PAUSE_MODES[each] for _, each in modes])
        _check(self._library.tidepool_pause_regions(self, _tag_array([each for each, _ in modes]), values, len(modes),
                                                    None if folder is None else path_of("folder", folder), stream))

    def resume(self, tag, stream=0):
        """Gives a region memory at its addresses again, and its contents back on `stream`. Of several tags all regions wake or, after an
        error, none; contents come in their order.
        """
        tags = _tags(tag)
        self._name(stream)
        _check(self._library.tidepool_resume_regions(self, _tag_array(tags), len(tags), stream))

    def discard_contents(self, tag):
        """Loses the contents that a sleeping region kept: where they are not needed any more, or a file cannot be read."""
        _check(self._library.tidepool_discard_contents(self, text_of("tag", tag)))

    def await_contents(self, address, size, stream=0):
        """Makes `stream` wait for the contents of `size` bytes at an address, which the last resume() of their region copies, but not for
        contents at higher addresses.
        """
        self._name(stream)
        _check(self._library.tidepool_await_contents(self, address, size, stream))

    def limit_region(self, tag, least=0, most=None):
        """Bounds the memory of a region, which the first call with a tag makes: the rest of the pool leaves room for `least` bytes while
        it does not sleep, and it holds at most `most`; None is no bound.
        """
        if least < 0 or (most is not None and most < 0):
            raise ValueError(f"at least {least} and at most {most} bytes, expected 0 or more")
        _check(self._library.tidepool_limit_region(self, text_of("tag", tag), least, _NO_LIMIT if most is None else most))

    def begin_registration(self, address, size):
        """Says that others, such as NCCL, registered `size` bytes at an address: until end_registration() their region is not paused, nor
        the allocation freed.
        """
        _check(self._library.tidepool_begin_registration(self, address, size))

    def end_registration(self, address, size):
        """Ends one begin_registration() of the same bytes."""
        _check(self._library.tidepool_end_registration(self, address, size))

    def regions(self):
        """Returns the figures of the regions as dicts, by tag; without an upper bound most_bytes has the value None."""
        count = c_size_t()
        _check(self._library.tidepool_get_regions(self, None, 0, byref(count)))
        size = ctypes.sizeof(RegionStatistics)
        figures = (RegionStatistics * count.value)(*[RegionStatistics(struct_size=size)] * count.value)
        _check(self._library.tidepool_get_regions(self, figures, count.value, byref(count)))
        regions = {each.tag.decode(errors="replace"): each.as_dict() for each in figures if each.tag}
        for region in regions.values():
            if region["most_bytes"] == _NO_LIMIT:
                region["most_bytes"] = None
        return regions

    def free(self, address, stream=0):
        """Frees an allocation: work queued on `stream` from now on does not use it."""
        self._name(stream)
        _check(self._library.tidepool_free(self, address, stream))

    def free_late(self, address):
        """Frees an allocation after all work of the stream that it was allocated on, which may have been destroyed."""
        _check(self._library.tidepool_free_late(self, address))

    def record_use(self, address, stream):
        """Notes that work queued on `stream` before the free uses the allocation too."""
        self._name(stream)
        _check(self._library.tidepool_record_use(self, address, stream))

    def describe(self, address):
        """Returns a line that tells where an address is: in which allocation, at which distance, of which region, and whether that sleeps."""
        text = ctypes.create_string_buffer(4096)
        _check(self._library.tidepool_describe(self, address, text, len(text), byref(c_size_t())))
        return text.value.decode(errors="replace")

    def owns(self, address):
        owns = c_int()
        _check(self._library.tidepool_owns(self, address, byref(owns)))
        return bool(owns.value)

    @property
    def device(self):
        """The number of the CUDA device, or -1 for the host device."""
        ordinal = c_int()
        _check(self._library.tidepool_get_device(self, byref(ordinal)))
        return ordinal.value

    def forget_stream(self, stream):
        """Forgets a stream, before or after it is destroyed: CUDA reuses handles. The stream is not used."""
        if self._ending is not None:
            self._ending.discard(stream)
        _check(self._library.tidepool_stream_forget(self, stream))

    def begin_graph(self, stream):
        """Begins a graph before a capture: memory of the stream then belongs to the graph, until release_graph."""
        self._name(stream)
        _check(self._library.tidepool_begin_graph(self, stream))

    def end_graph(self, stream):
        """Ends the graph of a stream after its capture. Returns the graph's number."""
        number = c_size_t()
        _check(self._library.tidepool_end_graph(self, stream, byref(number)))
        return number.value

    def release_graph(self, number):
        """Gives the memory of a graph back, which is not launched again."""
        _check(self._library.tidepool_release_graph(self, number))

    def synchronize(self, stream=0):
        _check(self._library.tidepool_stream_synchronize(self, stream))

    def mark(self, name):
        _check(self._library.tidepool_mark(self, text_of("name", name)))

    def mark_iteration(self):
        _check(self._library.tidepool_mark_iteration(self))

    def await_plans(self):
        _check(self._library.tidepool_await_plans(self))

    def trim(self, keep=0):
        """Gives unused memory back to the device, and returns its bytes."""
        given_back = c_size_t()
        _check(self._library.tidepool_trim(self, keep, byref(given_back)))
        return given_back.value

    def take_wanted_by_others(self):
        """Returns the bytes that other pools of the shared budget wait for, or were refused since the last call, as far as is known."""
        wanted = c_size_t()
        _check(self._library.tidepool_take_wanted_by_others(self, byref(wanted)))
        return wanted.value

    def on_out_of_memory(self, function, tag=None):
        """Lets the pool call `function(request)` before it refuses a request for want of memory, in the region `tag`, or anywhere without one.

        The function frees memory of the pool, or pauses a region, and returns whether the pool tries again; the request has `bytes`,
        `tag` (None: no region), `stream` and `attempt`, which counts from 1. It runs on the thread of the request, so several threads may
        be in it. An exception is logged, and counts as False. With the option `wait` it is called before a request waits, again after
        10 ms and each time that the wait has doubled, and at its end. Requests of the function itself call nothing and do not wait, and
        requests of graphs call nothing. Several functions take turns. Returns a RoomMaker, which ends the calls.
        """
        return RoomMaker(self, function, tag)

    def allocate_pinned(self, size):
        """Returns the address of page-locked host memory; 0 for 0 bytes."""
        address = c_void_p()
        _check(self._library.tidepool_pinned_allocate(self, size, byref(address)))
        return address.value or 0

    def free_pinned(self, address):
        """Frees page-locked memory, which no work of the device uses any more."""
        _check(self._library.tidepool_pinned_free(self, address))

    def trim_pinned(self):
        given_back = c_size_t()
        _check(self._library.tidepool_pinned_trim(self, byref(given_back)))
        return given_back.value

    def statistics(self):
        statistics = Statistics(struct_size=ctypes.sizeof(Statistics))
        _check(self._library.tidepool_get_statistics(self, byref(statistics)))
        return statistics

    def reset_peaks(self):
        _check(self._library.tidepool_reset_peaks(self))

    def blocks(self):
        """Returns the blocks as dicts with address, offset, bytes, stream and live, in the order of offsets."""
        count = c_size_t()
        _check(self._library.tidepool_get_blocks(self, None, 0, byref(count)))
        while True:
            blocks = (_Block * count.value)()
            _check(self._library.tidepool_get_blocks(self, blocks, len(blocks), byref(count)))
            if count.value <= len(blocks):
                break
        return [{"address": block.address, "offset": block.offset, "bytes": block.bytes, "stream": block.stream or 0,
                 "live": bool(block.is_live)} for block in blocks[:count.value]]

    def write_snapshot(self, path):
        _check(self._library.tidepool_write_snapshot(self, path_of("path", path)))

    def start_trace(self, path):
        """Begins a trace of all requests. Needs the option recording=True."""
        _check(self._library.tidepool_start_trace(self, path_of("path", path)))

    def stop_trace(self):
        _check(self._library.tidepool_stop_trace(self))


class RoomMaker:
    """A function that a pool calls before it refuses a request (Pool.on_out_of_memory), until remove() or the end of a `with` block."""

    _keys = itertools.count(1)
    _functions = {}  # by key; the one that C calls finds them here, so that none is deleted while it runs

    def __init__(self, pool, function, tag):
        if not callable(function):
            raise TypeError(f"function is {function!r}, expected a function of the request")
        self._pool = pool
        self._key = next(self._keys)
        self._number = c_size_t()
        self._functions[self._key] = function
        try:
            _check(library().tidepool_begin_make_room(pool, None if tag is None else text_of("tag", tag), _make_room, self._key,
                                                      byref(self._number)))
        except BaseException:
            del self._functions[self._key]
            raise
        atexit.register(self.remove)  # a call after the interpreter's end would find no Python

    def remove(self):
        """Ends the calls: waits until other threads have left the function. The function itself may call it."""
        if self._functions.pop(self._key, None) is None:
            return
        atexit.unregister(self.remove)
        with contextlib.suppress(PoolError):  # the pool was closed
            _check(library().tidepool_end_make_room(self._pool, self._number))

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.remove()


@_MAKE_ROOM
def _make_room(tag, size, stream, attempt, key):
    function = RoomMaker._functions.get(key)
    if function is None:
        return 0  # removed meanwhile
    try:
        region = None if tag is None else tag.decode(errors="replace")
        return bool(function(types.SimpleNamespace(bytes=size, tag=region, stream=stream or 0, attempt=attempt)))
    except BaseException as error:
        logging.getLogger("tidepool").error("on_out_of_memory: %r failed, so the request is refused", function, exc_info=True)
        if isinstance(error, KeyboardInterrupt):
            _thread.interrupt_main()  # again, where an exception can leave
        return 0


class GraphMemory:
    """The memory of a graph in a pool: each launch writes to it, so no other request gets it before release().

    Made before a stream begins to capture. `with` ends it after the capture:

        with GraphMemory(pool, stream) as memory:
            ...  # begin the capture, allocate on the stream, end the capture
        memory.keep_for(graph)
    """

    def __init__(self, pool, stream):
        self.pool = pool
        self.stream = stream  # held, so that it exists at the end
        self._number = None  # until the capture has ended
        pool.begin_graph(stream_handle(stream))

    @property
    def has_ended(self):
        return self._number is not None

    def end(self):
        """Ends it after the capture. Raises PoolError while the stream captures."""
        if not self.has_ended:
            self._number = self.pool.end_graph(stream_handle(self.stream))
            self.stream = None

    def release(self):
        """Gives the memory back to the pool. The graph is not launched again."""
        self.end()
        number, self._number = self._number, 0
        if number:
            self.pool.release_graph(number)

    def keep_for(self, graph):
        """Releases the memory when an object that launches the graph is deleted. Returns the object."""
        weakref.finalize(graph, self.release).atexit = False
        return graph

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            self.end()
        except PoolError:
            if kind is None:
                raise  # otherwise the capture goes on, and the error of the block is told


def metrics() -> str:
    """Returns the figures of all pools of the process, and of their owners, as text that Prometheus reads.

    Pools of tidepool.Pool, on the host device, are not among them. Thread-safe.
    """
    size = c_size_t()
    capacity = 1 << 14
    while True:
        text = ctypes.create_string_buffer(capacity)
        _check(library().tidepool_get_metrics(text, capacity, byref(size)))
        if size.value < capacity:
            return text.value.decode()
        capacity = 2 * size.value


_shared = {}
_shared_lock = threading.Lock()
_source = None


def share_pools_of(source):
    """Lets shared_pool return `source(device)`: the pools of a framework that makes its own. Raises RuntimeError if
    other frameworks share a pool already.
    """
    global _source
    with _shared_lock:
        if _shared:
            raise RuntimeError(f"frameworks share a pool on device {min(_shared)} already; this one has to come first")
        _source = source


def shared_pool(device, **options):
    """Returns the pool that all frameworks of this process share on a CUDA device, so that memory which one of them frees
    is free for the others, under one budget. The first call makes it with the options; a later call with options raises
    ValueError, because the pool exists already.
    """
    with _shared_lock:
        pool = _shared.get(device)
        given = {key: value for key, value in options.items() if value is not None}
        if pool is None and _source is not None:
            pool = _shared[device] = _source(device)
        if pool is None:
            pool = _shared[device] = Pool(**{"device": f"cuda:{device}", **given})
        elif given:
            raise ValueError(f"the pool of device {device} exists already, so the options {sorted(given)} cannot be "
                             "changed: give them in the first call")
        return pool


def end_shared_pool(device):
    """Closes the pool of shared_pool before the device destroys its memory; the next call makes another one. A pool of
    share_pools_of is left to its framework.
    """
    with _shared_lock:
        pool = _shared.pop(device, None)
    if pool is not None and pool._ending is None:
        with contextlib.suppress(PoolError):  # the device may have failed
            pool.close()


def share(device, pool):
    """Makes a pool the one of shared_pool. Raises ValueError if there is another one."""
    with _shared_lock:
        if _shared.setdefault(device, pool) is not pool:
            raise ValueError(f"the pool of device {device} exists already")

# SPDX-License-Identifier: Apache-2.0
"""tidepool as the allocator of CuPy, for device memory and page-locked memory.

    import tidepool.cupy
    tidepool.cupy.enable(budget="80%")
    array = cupy.arange(1000)

CuPy passes no stream to an allocator. Memory is allocated on the stream that is current in the calling thread, and keeps
that stream alive. When it is freed, it goes back to that stream, after the work of the stream that is current then.
"""
import weakref

import cupy
from cupy.cuda import memory as _memory
from cupy.cuda import pinned_memory as _pinned

from ._c_api import GraphMemory, OutOfMemory, shared_pool

__all__ = ["OutOfMemoryError", "disable", "enable", "pool"]


class OutOfMemoryError(_memory.OutOfMemoryError):
    """CuPy's error, with the text of the pool."""

    def __init__(self, text):
        super().__init__(0, 0)
        self.text = text

    def __str__(self):
        return self.text


_DEFAULT_STREAMS = (0, 1, 2)  # the null stream, the legacy stream, and the thread's own


def _end_of(stream, pool):
    """Lets a pool forget a stream that CuPy destroys with its object: CUDA gives the handle out again. Returns the
    finalizer; None for a stream of others, which may end at any time."""
    if not isinstance(stream, cupy.cuda.Stream) or getattr(stream, "_foreign_stream_ref", None) is not None:
        return None
    ends = stream.__dict__.setdefault("_tidepool_ends", {})
    if id(pool) not in ends:
        ends[id(pool)] = weakref.finalize(stream, pool.forget_stream, stream.ptr)
        ends[id(pool)].atexit = False
    return ends[id(pool)]


class _Memory(_memory.BaseMemory):
    """Memory of a pool. CuPy's pointers hold it."""

    def __init__(self, size):
        self.size = size
        self.device_id = cupy.cuda.device.get_device_id()
        self.pool = shared_pool(self.device_id)
        self.stream = cupy.cuda.get_current_stream()  # held, so that it exists at the free
        self.ptr = 0
        self.end = None if self.stream.ptr in _DEFAULT_STREAMS else _end_of(self.stream, self.pool)
        try:
            self.ptr = self.pool.allocate(size, self.stream.ptr, self.pool.owner("cupy"))
        except OutOfMemory as error:
            raise OutOfMemoryError(str(error)) from None

    def __del__(self):
        if not self.ptr:
            return
        try:
            current = cupy.cuda.get_current_stream()
            if current.ptr != self.stream.ptr and cupy.cuda.device.get_device_id() == self.device_id:
                if current.ptr not in _DEFAULT_STREAMS:
                    _end_of(current, self.pool)
                self.pool.record_use(self.ptr, current.ptr)
        except Exception:  # the interpreter is ending: CuPy has no current stream any more
            pass
        # In a cycle of references the stream may be destroyed already.
        if self.stream.ptr in _DEFAULT_STREAMS or self.end is not None and self.end.alive:
            self.pool.free(self.ptr, self.stream.ptr)
        else:
            self.pool.free_late(self.ptr)
        self.ptr = 0


class _PinnedMemory:
    """Page-locked memory of a pool. Copies that CuPy queues hold it until they have finished."""

    def __init__(self, size):
        self.size = size
        self.ptr = 0
        self.pool = shared_pool(cupy.cuda.device.get_device_id())
        try:
            self.ptr = self.pool.allocate_pinned(size)
        except OutOfMemory as error:
            raise OutOfMemoryError(str(error)) from None

    def __del__(self):
        if self.ptr:
            self.pool.free_pinned(self.ptr)


class _GraphMemory(GraphMemory):
    """Memory that CuPy's graph holds, through the list of its host functions. A capture that fails ends with its stream."""

    def __del__(self):
        if self.has_ended:
            self.release()


_begin_capture = cupy.cuda.stream._BaseStream.begin_capture
_end_capture = cupy.cuda.stream._BaseStream.end_capture


def _begin_capture_in_pool(stream, mode=None):
    """Captures with memory that belongs to the graph: each launch writes to it."""
    if stream.ptr in _DEFAULT_STREAMS:
        return _begin_capture(stream, mode)
    device = cupy.cuda.device.get_device_id() if stream.device_id == -1 else stream.device_id
    pool = shared_pool(device)
    _end_of(stream, pool)
    memory = _GraphMemory(pool, stream.ptr)
    try:
        _begin_capture(stream, mode)
    except BaseException:
        memory.release()
        raise
    stream._tidepool_graph = memory
    stream._graph_host_funcargs.append(stream._tidepool_graph)


def _end_capture_in_pool(stream):
    memory = stream.__dict__.pop("_tidepool_graph", None)
    try:
        return _end_capture(stream)
    finally:
        if memory is not None:
            memory.end()


def _allocate(size):
    return _memory.MemoryPointer(_Memory(size), 0)


def _allocate_pinned(size):
    return _pinned.PinnedMemoryPointer(_PinnedMemory(max(size, 1)), 0)


def enable(devices=(0,), pinned=True, **options):
    """Makes pools CuPy's memory on these devices, with the options of tidepool_pool_create. Other devices get pools with
    default options when they are used.
    """
    for device in devices:
        shared_pool(device, **options)
    cupy.cuda.stream._BaseStream.begin_capture = _begin_capture_in_pool
    cupy.cuda.stream._BaseStream.end_capture = _end_capture_in_pool
    cupy.cuda.set_allocator(_allocate)
    if pinned:
        cupy.cuda.set_pinned_memory_allocator(_allocate_pinned)


def pool(device=0):
    """Returns the pool of a device, with statistics(), mark_iteration(), start_trace() and more."""
    return shared_pool(device)


def disable():
    """Gives CuPy its own pools back. Arrays that exist keep their memory."""
    cupy.cuda.stream._BaseStream.begin_capture = _begin_capture  # captures that have begun end as they began
    cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)
    cupy.cuda.set_pinned_memory_allocator(cupy.get_default_pinned_memory_pool().malloc)

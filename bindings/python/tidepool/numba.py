# SPDX-License-Identifier: Apache-2.0
"""tidepool as the memory manager of numba-cuda (External Memory Management).

    NUMBA_CUDA_MEMORY_MANAGER=tidepool.numba python program.py

or, before the first use of CUDA:

    import tidepool.numba
    tidepool.numba.enable(budget="80%")

Numba passes no stream, so memory is allocated and freed on the legacy default stream. Before freed memory is given out
again, that stream waits for all streams that Numba made, and they wait for it. So work that was queued before a free has
finished before the memory is used again. Streams of other libraries that are non-blocking take no part in that.
"""
import contextlib
import functools
import threading

from cuda.bindings import driver
from numba import cuda
from numba.cuda import HostOnlyCUDAMemoryManager, MemoryInfo, MemoryPointer

from ._c_api import PoolError, GraphMemory, end_shared_pool, shared_pool, stream_handle

__all__ = ["MemoryManager", "capture", "enable"]

_options = {}
_thread = threading.local()
_fence_lock = threading.Lock()


def _default_stream_ends_a_capture():
    """Returns whether a stream of Numba captures: no capture of such a stream survives work of the legacy stream."""
    error, _ = driver.cuStreamIsCapturing(driver.CUstream(driver.CU_STREAM_LEGACY))
    return error == driver.CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT


class MemoryManager(HostOnlyCUDAMemoryManager):
    """The memory manager of one CUDA context. Pinned and mapped memory stay Numba's own."""

    def initialize(self):
        super().initialize()
        self.pool

    def reset(self):
        """Ends the pool: Numba destroys the device's context next, and with it the memory of all frameworks."""
        super().reset()
        end_shared_pool(self.context.device.id)
        for name in ("pool", "_fence", "_held", "_has_freed"):
            self.__dict__.pop(name, None)

    @functools.cached_property
    def pool(self):
        return shared_pool(self.context.device.id, **_options)

    @functools.cached_property
    def _fence(self):
        return cuda.event(timing=False)

    def _order_streams(self):
        """Lets work from now on wait, on the device, for all work before the last free."""
        with _fence_lock:  # a thread that finds nothing freed comes after the wait of the one that did
            if self._has_freed:
                self._has_freed = False
                self._fence.record()
                self._fence.wait()

    _has_freed = False

    @functools.cached_property
    def _held(self):
        return []  # addresses that were freed while a stream of Numba captured

    def _free(self, address):
        if _default_stream_ends_a_capture():
            self._held.append(address)
            return
        self._has_freed = True  # before another thread can get the memory
        self.pool.free(address)

    def _allocate(self, size):
        if _default_stream_ends_a_capture():
            raise PoolError("a stream captures a graph, which would write to this memory at each launch: put the capture "
                            "into `with tidepool.numba.capture(stream):`, so that the graph keeps its memory")
        with contextlib.suppress(IndexError):  # where another thread takes them too
            for _ in range(len(self._held)):
                self._free(self._held.pop())
        address = self.pool.allocate(size, owner=self.pool.owner("numba"))
        self._order_streams()
        return address

    def memalloc(self, size):
        graph = getattr(_thread, "graph", None)
        pool = self.pool
        if graph is None or graph.has_ended or graph.pool is not pool:
            graph = None
            address = self._allocate(max(size, 1))
        else:
            address = pool.allocate(max(size, 1), stream_handle(graph.stream), pool.owner("numba"))

        def finalizer():
            if self.__dict__.get("pool") is not pool:
                return  # the memory ended with its pool
            stream = None if graph is None else graph.stream
            if stream is None:
                self._free(address)
            else:  # for later requests of the capture
                pool.free(address, stream_handle(stream))

        return MemoryPointer(self.context, address, size, finalizer=finalizer)

    def get_memory_info(self):
        statistics = self.pool.statistics()
        return MemoryInfo(free=statistics.max_bytes - statistics.live_bytes, total=statistics.max_bytes)

    def get_ipc_handle(self, memory):
        raise NotImplementedError("memory of a pool cannot be shared with other processes by CUDA IPC")

    @property
    def interface_version(self):
        return 1


# Numba's name for the class when it imports this module by NUMBA_CUDA_MEMORY_MANAGER.
_numba_memory_manager = MemoryManager


def capture(stream):
    """Gives the graph that a stream captures memory of its own, for the arrays that this thread makes in the block:

        with tidepool.numba.capture(stream) as memory:
            ...  # begin the capture, make arrays, launch kernels, end the capture
        ...      # launch the graph
        memory.release()

    The stream is one of Numba, or a stream or GraphBuilder of cuda.core.
    """
    graph = getattr(_thread, "graph", None)
    if graph is not None and not graph.has_ended:
        raise PoolError("this thread captures a graph already: end that capture first")
    _thread.graph = GraphMemory(cuda.current_context().memory_manager.pool, stream)
    return _thread.graph


def enable(**options):
    """Makes pools Numba's memory. Call it before Numba uses CUDA."""
    _options.update(options)
    cuda.set_memory_manager(MemoryManager)

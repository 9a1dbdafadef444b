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
import functools

from numba import cuda
from numba.cuda import HostOnlyCUDAMemoryManager, MemoryInfo, MemoryPointer

from ._c_face import shared_pool

__all__ = ["MemoryManager", "enable"]

_options = {}


class MemoryManager(HostOnlyCUDAMemoryManager):
    """The memory manager of one CUDA context. Pinned and mapped memory stay Numba's own."""

    def initialize(self):
        super().initialize()
        self.pool

    @functools.cached_property
    def pool(self):
        return shared_pool(self.context.device.id, **_options)

    @functools.cached_property
    def _fence(self):
        return cuda.event(timing=False)

    def _order_streams(self):
        """Lets work from now on wait, on the device, for all work before the last free."""
        if self._has_freed:
            self._has_freed = False
            self._fence.record()
            self._fence.wait()

    _has_freed = False

    def memalloc(self, size):
        pool = self.pool
        address = pool.allocate(max(size, 1), owner=pool.owner("numba"))
        self._order_streams()

        def finalizer():
            self._has_freed = True  # before another thread can get the memory
            pool.free(address)

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


def enable(**options):
    """Makes pools Numba's memory. Call it before Numba uses CUDA."""
    _options.update(options)
    cuda.set_memory_manager(MemoryManager)

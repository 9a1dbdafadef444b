# SPDX-License-Identifier: Apache-2.0
"""A memory resource for cuda.core (cuda-python), which nvmath and NVSHMEM4Py use too.

    from cuda.core import Device
    import tidepool.cuda_core
    resource = tidepool.cuda_core.MemoryResource(0, budget="80%")
    buffer = resource.allocate(1 << 20, stream=Device().create_stream())
"""
try:
    from cuda.core import Buffer
    from cuda.core import MemoryResource as _Base
except ImportError:  # before version 0.5
    from cuda.core.experimental import Buffer
    from cuda.core.experimental import MemoryResource as _Base

from ._c_api import GraphMemory, Pool, shared_pool, stream_handle

__all__ = ["MemoryResource"]


class MemoryResource(_Base):
    """A memory resource on the pool that all frameworks share on a device, or on a given pool."""

    def __init__(self, device=0, pool=None, **options):
        self.pool = pool if isinstance(pool, Pool) else shared_pool(device, **options)
        self._owner = self.pool.owner("cuda.core")
        self._device = device
        self._without_stream = set()  # addresses of buffers that do not know their stream

    def allocate(self, size, stream=None):
        """Returns a Buffer for work on `stream`. Raises MemoryError when memory is short."""
        address = self.pool.allocate(size, stream_handle(stream), self._owner)
        try:
            return Buffer.from_handle(address, size, mr=self, stream=stream)
        except TypeError:  # versions in which a buffer has no stream
            self._without_stream.add(address)
            return Buffer.from_handle(address, size, mr=self)

    def deallocate(self, ptr, size, stream=None):  # cuda.core.experimental passes it by position
        address = int(ptr)
        if address not in self._without_stream:
            self.pool.free(address, stream_handle(stream))
            return
        self._without_stream.discard(address)
        if stream is not None:
            self.pool.record_use(address, stream_handle(stream))
        self.pool.free_late(address)

    def capture(self, stream):
        """Gives the graph that a stream or a GraphBuilder captures memory of its own:

            with resource.capture(builder) as memory:
                builder.begin_building()
                buffer = resource.allocate(1 << 20, stream=builder)
                ...
                builder.end_building()
            graph = memory.keep_for(builder.complete())

        The memory goes back to the pool with the graph, or by memory.release().
        """
        return GraphMemory(self.pool, stream)

    @property
    def is_device_accessible(self):
        return True

    @property
    def is_host_accessible(self):
        return False

    @property
    def is_managed(self):
        return False

    @property
    def device_id(self):
        return self._device

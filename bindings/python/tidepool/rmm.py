# SPDX-License-Identifier: Apache-2.0
"""tidepool under RMM, and so under cuDF, cuML and everything else that allocates by RMM.

    import tidepool.rmm
    tidepool.rmm.enable(budget="80%")                     # the current resource of every device
    buffer = rmm.DeviceBuffer(size=100, mr=tidepool.rmm.MemoryResource(0))

A request goes through Python (RMM's CallbackMemoryResource), which costs a few microseconds. C++ programs include
tidepool/rmm_mr.h instead.
"""
import rmm.mr

from ._c_api import GraphMemory, Pool, shared_pool, stream_handle

__all__ = ["MemoryResource", "enable"]


class MemoryResource(rmm.mr.CallbackMemoryResource):
    """A memory resource on the pool that all frameworks share on a device, or on a given pool.

    Raises MemoryError when memory is short, which RMM passes on as such.
    """

    def __init__(self, device=0, pool=None, **options):
        self.pool = pool if isinstance(pool, Pool) else shared_pool(device, **options)
        self._owner = self.pool.owner("rmm")
        super().__init__(self._allocate_on, self._free_on)

    def _allocate_on(self, size, stream):
        return self.pool.allocate(size, stream_handle(stream), self._owner)

    def _free_on(self, address, size, stream):
        self.pool.free(address, stream_handle(stream))

    def capture(self, stream):
        """Gives the graph that a stream captures memory of its own:

            with resource.capture(stream) as memory:
                ...  # begin the capture, allocate on the stream, end the capture
            ...      # launch the graph
            memory.release()
        """
        return GraphMemory(self.pool, stream)


def enable(devices=(0,), **options):
    """Makes pools the current resources of RMM on these devices, and returns the resources by device."""
    resources = {device: MemoryResource(device, **options) for device in devices}
    for device, resource in resources.items():
        rmm.mr.set_per_device_resource(device, resource)
    return resources

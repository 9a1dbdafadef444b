# SPDX-License-Identifier: Apache-2.0
"""The operators of the written graphs that move data: offload, release, prefetch, arrive.

    host = offload(x, key)      begins a copy to the host
    release(x, key)             kernels after it run when that copy has ended, so x may be freed
    y = prefetch(host, size, stride, offset, device, key)   begins a copy back
    arrive(y, key)              kernels after it run when that copy has ended

A copy on the host has one dimension: the whole storage. A key names the copies of one datum of one plan. The host never waits.
Copies of each direction have a stream of their own. A copy for which the host has no pinned memory stays on the device.
In a capture into a CUDA graph these streams are forks of the captured one, and the pinned memory was there before.
Tensors of the CPU are copied at once: then they play the part of the device, for tests.
"""
import torch
from torch import fx

from . import _pinning

__all__ = ["arrive", "begin_capture", "bytes_of", "end_capture", "flat", "host_tensor", "join", "join_captured", "offload", "prefetch", "release",
           "statistics"]

statistics = {"bytes_out": 0, "bytes_in": 0, "copies_out": 0, "copies_in": 0, "stayed": 0}
stayed = set()  # keys of copies for which the host had no pinned memory


class _Copies:
    """The streams of copies of one device, and the last event of each key."""

    def __init__(self, device):
        self.out = torch.cuda.Stream(device)
        self.into = torch.cuda.Stream(device)
        self.events = {}

    def forget(self):
        """Waits on the host for all copies, after which no event of them is waited for."""
        for stream in (self.out, self.into):
            stream.synchronize()
        self.events.clear()

    def record(self, key, stream):
        # Two forward passes before a backward pass record a key twice. The later event serves both: a stream runs in order.
        self.events.setdefault((key, stream is self.out), torch.cuda.Event()).record(stream)

    def await_out(self, key, stream):
        self._await((key, True), stream)

    def await_in(self, key, stream):
        self._await((key, False), stream)

    def _await(self, name, stream):
        event = self.events.get(name)
        if event is not None:
            stream.wait_event(event)


_copies = {}


def _copies_of(device):
    if device.index not in _copies:
        _copies[device.index] = _Copies(device)
    return _copies[device.index]


def join(device):
    """Lets the current stream wait for all copies of a device, or for those in its capture into a CUDA graph."""
    copies = _copies.get(device.index)
    if copies is not None:
        is_captured = torch.cuda.is_current_stream_capturing()
        for stream in (copies.out, copies.into):
            if _is_captured(stream) == is_captured:
                torch.cuda.current_stream(device).wait_stream(stream)


def _is_captured(stream):
    with torch.cuda.stream(stream):
        return torch.cuda.is_current_stream_capturing()


def _all_of(x):
    """Returns the storage of a tensor as a tensor of one dimension."""
    return x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)


def flat(x, device, **options):
    """Returns a new tensor for the storage of a tensor."""
    return torch.empty(x.untyped_storage().nbytes() // x.element_size(), dtype=x.dtype, device=device, **options)


def _count_stayed(key):
    statistics["stayed"] += 1
    stayed.add(key)


def _host_tensor(x, key):
    """Returns memory of the host for the storage of a tensor, pinned for one of a GPU; None if there is no more of it."""
    if captured_hosts is not None and x.is_cuda:
        _captured_keys.add(key)
        if key not in captured_hosts:
            _count_stayed(key)
        return captured_hosts.get(key)
    try:
        return flat(x, "cpu", pin_memory=x.is_cuda)
    except RuntimeError as error:
        _pinning.warn_that_data_stays(x.untyped_storage().nbytes(), error)
        _count_stayed(key)
        return None


# The size, the strides and the storage offset of copies on the host, by their keys. Fake tensors have others for some operators.
_layouts = {}
_wholes = {}  # the elements of their storages, and the type of these

# In a capture into a CUDA graph: memory of the host by the keys of copies, and the keys that were in use.
captured_hosts = None
_captured_keys = set()


def host_tensor(key):
    """Returns pinned memory for a copy that has been made before."""
    count, dtype = _wholes[key]
    return torch.empty(count, dtype=dtype, pin_memory=True)


def bytes_of(key):
    """Returns the bytes of a copy; 0 for one that was never made."""
    count, dtype = _wholes.get(key, (0, torch.uint8))
    return count * dtype.itemsize


def begin_capture():
    """Prepares a capture into a CUDA graph, in which no earlier event may be waited for."""
    for copies in _copies.values():
        copies.forget()
    _captured_keys.clear()


def join_captured():
    """Lets the captured stream wait for the copies in its capture, which ends."""
    if torch.cuda.is_current_stream_capturing():
        join(torch.device("cuda", torch.cuda.current_device()))
    for copies in _copies.values():
        copies.events.clear()


def end_capture():
    """Returns the keys of the copies in the capture that has ended."""
    return set(_captured_keys)


def _offload(x, key):
    _layouts[key] = x.size(), x.stride(), x.storage_offset()
    _wholes[key] = x.untyped_storage().nbytes() // x.element_size(), x.dtype
    host = _host_tensor(x, key)
    if host is None:
        return _all_of(x).clone()  # an operator returns none of its arguments
    statistics["bytes_out"] += x.untyped_storage().nbytes()
    statistics["copies_out"] += 1
    if not x.is_cuda:
        return host.copy_(_all_of(x))
    copies = _copies_of(x.device)
    copies.out.wait_stream(torch.cuda.current_stream(x.device))
    copies.await_in(key, copies.out)  # of the copy before, which has the same memory in a capture
    with torch.cuda.stream(copies.out):
        host.copy_(_all_of(x), non_blocking=True)
    copies.record(key, copies.out)
    return host


def _release(x, key):
    if x.is_cuda:
        _copies_of(x.device).await_out(key, torch.cuda.current_stream(x.device))


def _prefetch(host, size, stride, offset, device, key):
    size, stride, offset = _layouts.get(key, (size, stride, offset))
    if host.device.type != "cpu":
        return host.clone().as_strided(size, stride, offset)
    statistics["bytes_in"] += host.untyped_storage().nbytes()
    statistics["copies_in"] += 1
    if device.type != "cuda":
        return host.clone().as_strided(size, stride, offset)
    copies = _copies_of(device)
    # Memory of the current stream, in use until now: the copy waits for the kernels there.
    y = flat(host, device)
    copies.into.wait_stream(torch.cuda.current_stream(device))
    copies.await_out(key, copies.into)
    with torch.cuda.stream(copies.into):
        y.copy_(host, non_blocking=True)
    copies.record(key, copies.into)
    return y.as_strided(size, stride, offset)


def _arrive(y, key):
    if y.is_cuda:
        _copies_of(y.device).await_in(key, torch.cuda.current_stream(y.device))


_library = torch.library.Library("tidepool", "DEF")  # a call takes a fifth of that of torch.library.custom_op


def _define(schema, function, fake):
    name = schema.partition("(")[0]
    _library.define(schema)
    _library.impl(name, function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"tidepool::{name}", fake, lib=_library)


_define("offload(Tensor x, int key) -> Tensor", _offload, lambda x, key: flat(x, "cpu"))
_define("release(Tensor x, int key) -> ()", _release, lambda x, key: None)
_define("prefetch(Tensor host, int[] size, int[] stride, int offset, Device device, int key) -> Tensor", _prefetch,
        lambda host, size, stride, offset, device, key: flat(host, device).as_strided(size, stride, offset))
_define("arrive(Tensor y, int key) -> ()", _arrive, lambda y, key: None)

offload = torch.ops.tidepool.offload.default
release = torch.ops.tidepool.release.default
prefetch = torch.ops.tidepool.prefetch.default
arrive = torch.ops.tidepool.arrive.default
for _operator in (release, arrive):
    fx.node.has_side_effect(_operator)

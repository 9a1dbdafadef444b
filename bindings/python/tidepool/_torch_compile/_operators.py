# SPDX-License-Identifier: Apache-2.0
"""The operators of the written graphs that move data: offload, release, prefetch, arrive.

    host = offload(x, key)      begins a copy to the host
    release(x, key)             kernels after it run when that copy has ended, so x may be freed
    y = prefetch(host, size, stride, offset, device, key)   begins a copy back
    arrive(y, key)              kernels after it run when that copy has ended

A copy on the host has one dimension: the whole storage. A key names the copies of one datum of one plan. The host never waits.
Copies of each direction have a stream of their own. A copy for which the host has no pinned memory stays on the device.
Tensors of the CPU are copied at once: then they play the part of the device, for tests.
"""
import torch
from torch import fx

from . import _pinning

__all__ = ["arrive", "flat", "join", "offload", "prefetch", "release", "statistics"]

statistics = {"bytes_out": 0, "bytes_in": 0, "copies_out": 0, "copies_in": 0, "stayed": 0}


class _Copies:
    """The streams of copies of one device, and the last event of each key."""

    def __init__(self, device):
        self.out = torch.cuda.Stream(device)
        self.into = torch.cuda.Stream(device)
        self._events = {}

    def record(self, key, stream):
        # Two forward passes before a backward pass record a key twice. The later event serves both: a stream runs in order.
        self._events.setdefault((key, stream is self.out), torch.cuda.Event()).record(stream)

    def await_out(self, key, stream):
        self._await((key, True), stream)

    def await_in(self, key, stream):
        self._await((key, False), stream)

    def _await(self, name, stream):
        event = self._events.get(name)
        if event is not None:
            stream.wait_event(event)


_copies = {}


def _copies_of(device):
    if device.index not in _copies:
        _copies[device.index] = _Copies(device)
    return _copies[device.index]


def join(device):
    """Lets the current stream wait for all copies of a device. For a graph that an error has ended."""
    copies = _copies.get(device.index)
    if copies is not None:
        for stream in (copies.out, copies.into):
            torch.cuda.current_stream(device).wait_stream(stream)


def _all_of(x):
    """Returns the storage of a tensor as a tensor of one dimension."""
    return x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)


def flat(x, device, **options):
    """Returns a new tensor for the storage of a tensor."""
    return torch.empty(x.untyped_storage().nbytes() // x.element_size(), dtype=x.dtype, device=device, **options)


def _host_tensor(x):
    """Returns memory of the host for the storage of a tensor, pinned for one of a GPU; None if there is no more of it."""
    try:
        return flat(x, "cpu", pin_memory=x.is_cuda)
    except RuntimeError as error:
        _pinning.warn_that_data_stays(x.untyped_storage().nbytes(), error)
        statistics["stayed"] += 1
        return None


# The size, the strides and the storage offset of copies on the host, by their keys. Fake tensors have others for some operators.
_layouts = {}


def _offload(x, key):
    _layouts[key] = x.size(), x.stride(), x.storage_offset()
    host = _host_tensor(x)
    if host is None:
        return _all_of(x).clone()  # an operator returns none of its arguments
    statistics["bytes_out"] += x.untyped_storage().nbytes()
    statistics["copies_out"] += 1
    if not x.is_cuda:
        return host.copy_(_all_of(x))
    copies = _copies_of(x.device)
    copies.out.wait_stream(torch.cuda.current_stream(x.device))
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

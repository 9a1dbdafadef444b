# SPDX-License-Identifier: Apache-2.0
"""Saved tensors of a stage that go to the host, and come back for its backward pass.

Copies of each direction have a stream of their own, and the host never waits. A tensor that was sent is freed once the
current stream has waited for its copy. Tensors of the CPU are copied at once: then they play the part of the device, for tests.
"""
from typing import Any, Collection, Dict, Iterable, List, Optional, Set

import torch

from .._torch_compile._pinning import warn_that_data_stays

__all__ = ["Bundle", "Streams", "addresses_of", "bytes_of"]


class Streams:
    """The streams of copies of a device. None do their work on the CPU."""

    def __init__(self, device: torch.device):
        self.device = device
        self.out, self.into = ((torch.cuda.Stream(device), torch.cuda.Stream(device)) if device.type == "cuda"
                               else (None, None))

    def current(self) -> Any:
        return torch.cuda.current_stream(self.device)

    def join(self) -> None:
        """Lets the current stream wait for all copies."""
        for stream in (self.out, self.into):
            if stream is not None:
                self.current().wait_stream(stream)


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage:
    """Returns the storage of a tensor; of a DTensor, as fully_shard makes parameters, that of its part on this rank."""
    local = getattr(tensor, "to_local", None)
    return (tensor if local is None else local()).untyped_storage()


def bytes_of(tensor: torch.Tensor) -> int:
    return _storage(tensor).nbytes()


def bytes_of_all(tensors: Iterable[torch.Tensor]) -> int:
    """Returns the bytes of the storages of tensors, each storage once: gradients may lie in one bucket, or be parts of one result."""
    return sum({storage.data_ptr(): storage.nbytes() for storage in map(_storage, tensors)}.values())


def addresses_of(module: torch.nn.Module) -> Set[int]:
    """Returns the addresses of the storages of a module's parameters and buffers."""
    return {_storage(tensor).data_ptr() for tensor in (*module.parameters(), *module.buffers())}


def _host_storage(size: int, is_pinned: bool) -> Optional[torch.UntypedStorage]:
    """Returns memory of the host; None if there is no more of it."""
    try:
        return torch.empty(size, dtype=torch.uint8, pin_memory=is_pinned).untyped_storage()
    except RuntimeError as error:
        warn_that_data_stays(size, error)
        return None


class _Sent:
    """A storage that goes to the host. Without pinned memory it stays on the device."""

    def __init__(self, tensor: torch.Tensor, is_pinned: bool):
        self.original: Optional[torch.Tensor] = tensor  # until the copy has ended
        self.version = tensor._version
        self.is_changed = False
        self.packs = self.unpacks = 0
        self.here: Optional[torch.UntypedStorage] = None  # after it has come back
        self.host = _host_storage(tensor.untyped_storage().nbytes(), is_pinned)

    def release(self) -> None:
        if self.original is not None:
            self.is_changed = self.original._version != self.version
            if self.host is not None:
                self.original = None

    def take(self) -> torch.UntypedStorage:
        """Returns the storage that has come back, for one of the tensors in it."""
        here = self.here
        self.unpacks += 1
        if self.unpacks == self.packs:  # another backward pass fetches it again
            self.unpacks, self.here = 0, None
        return here


class Bundle:
    """The saved tensors of one call of a stage, as hooks of torch.autograd.graph.saved_tensors_hooks.

    The copies of a direction run in order, so an event after the last one tells that all of them have ended.
    """

    def __init__(self, streams: Streams, stays: Collection[int]):
        self._streams = streams
        self._stays = stays  # addresses of storages that others hold, such as parameters
        self._sent: List[_Sent] = []
        self._last: Dict[int, _Sent] = {}  # by the address of the storage, which is live until release
        self._is_held = False  # whether what was sent still takes memory of the device
        self._arrived: Any = None  # the stream that has waited for the copies back
        if streams.out is not None:
            self._ready, self._out, self._in = torch.cuda.Event(), torch.cuda.Event(), torch.cuda.Event()

    def bytes(self) -> int:
        return sum(sent.host.nbytes() for sent in self._sent if sent.host is not None)

    def pack(self, tensor: torch.Tensor) -> Any:
        if type(tensor) not in _TYPES or tensor.device != self._streams.device or tensor.layout != torch.strided:
            return tensor
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address in self._stays or storage.nbytes() == 0:
            return tensor
        sent = self._last.get(address)
        if sent is None or sent.original is None or sent.version != tensor._version:
            # A detached tensor, since the data must not keep the graph that keeps it.
            sent = self._last[address] = self._send(tensor.detach())
        sent.packs += 1
        return sent, tensor.dtype, tensor.size(), tensor.stride(), tensor.storage_offset()

    def _send(self, tensor: torch.Tensor) -> _Sent:
        out = self._streams.out
        sent = _Sent(tensor, is_pinned=out is not None)
        self._sent.append(sent)
        self._is_held = True
        if sent.host is None:
            return sent
        if out is None:
            sent.host.copy_(tensor.untyped_storage())
            return sent
        self._ready.record(self._streams.current())
        out.wait_event(self._ready)
        with torch.cuda.stream(out):
            sent.host.copy_(tensor.untyped_storage(), non_blocking=True)
        self._out.record(out)
        return sent

    def release(self) -> None:
        """Frees the device's memory once the copies have ended."""
        if not self._is_held:
            return
        self._is_held = False
        if self._streams.out is not None:
            self._streams.current().wait_event(self._out)
        for sent in self._sent:
            sent.release()

    def unpack(self, packed: Any) -> torch.Tensor:
        if isinstance(packed, torch.Tensor):
            return packed
        sent, dtype, size, stride, offset = packed
        self.release()
        if sent.is_changed:
            raise RuntimeError("one of the variables needed for gradient computation has been modified by an inplace operation "
                               "after it was saved; tidepool has sent it to the host")
        self._fetch([sent])
        self.arrive()
        return torch.empty(0, dtype=dtype, device=self._streams.device).set_(sent.take(), offset, size, stride)

    def fetch(self) -> None:
        """Begins the copies back."""
        self._fetch(self._sent)

    def _fetch(self, sent: Iterable[_Sent]) -> None:
        coming = [one for one in sent if one.here is None]
        if not coming:
            return
        back = [one for one in coming if one.host is not None]
        for one in coming:
            one.here = one.original.untyped_storage() if one.host is None else torch.UntypedStorage(one.host.nbytes(), device=self._streams.device)
        into = self._streams.into
        if into is None:
            for one in back:
                one.here.copy_(one.host)
            return
        self._ready.record(self._streams.current())
        into.wait_event(self._ready)
        into.wait_event(self._out)
        with torch.cuda.stream(into):
            for one in back:
                one.here.copy_(one.host, non_blocking=True)
        self._in.record(into)
        self._arrived = None

    def arrive(self) -> None:
        """Lets the current stream wait for the copies back."""
        if self._streams.into is None:
            return
        current = self._streams.current()
        if current != self._arrived:
            current.wait_event(self._in)
            self._arrived = current


_TYPES: "List[type]" = [torch.Tensor, torch.nn.Parameter]

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


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the storage of a tensor as bytes."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def _host_tensor(size: int, is_pinned: bool) -> Optional[torch.Tensor]:
    """Returns memory of the host; None if there is no more of it."""
    try:
        return torch.empty(size, dtype=torch.uint8, pin_memory=is_pinned)
    except RuntimeError as error:
        warn_that_data_stays(size, error)
        return None


class _Sent:
    """A storage that goes to the host. Without pinned memory it stays on the device."""

    def __init__(self, tensor: torch.Tensor, streams: Streams):
        self.streams = streams
        self.original: Optional[torch.Tensor] = tensor  # until the copy has ended
        self.version = tensor._version
        self.is_changed = False
        self.packs = self.unpacks = 0
        self.here: Optional[torch.Tensor] = None  # after it has come back
        flat = _flat(tensor)
        self.host = _host_tensor(flat.numel(), is_pinned=streams.out is not None)
        if self.host is None:
            return
        if streams.out is None:
            self.host.copy_(flat)
            return
        streams.out.wait_stream(streams.current())
        with torch.cuda.stream(streams.out):
            self.host.copy_(flat, non_blocking=True)
        self.out_event = streams.out.record_event()

    def release(self) -> None:
        """Frees the device's memory once the copy has ended."""
        if self.original is None:
            return
        self.is_changed = self.original._version != self.version
        if self.host is None:
            return
        if self.streams.out is not None:
            self.streams.current().wait_event(self.out_event)
        self.original = None

    def fetch(self) -> None:
        """Begins the copy back."""
        if self.here is not None:
            return
        if self.host is None:
            self.here = _flat(self.original)
            return
        if self.streams.into is None:
            self.here = self.host.clone()
            return
        self.here = torch.empty(self.host.numel(), dtype=torch.uint8, device=self.streams.device)
        self.streams.into.wait_stream(self.streams.current())
        self.streams.into.wait_event(self.out_event)
        with torch.cuda.stream(self.streams.into):
            self.here.copy_(self.host, non_blocking=True)
        self.in_event = self.streams.into.record_event()

    def arrive(self) -> None:
        if self.here is not None and self.host is not None and self.streams.into is not None:
            self.streams.current().wait_event(self.in_event)

    def take(self) -> torch.Tensor:
        """Returns the storage on the device, for one of the tensors in it."""
        self.release()
        if self.is_changed:
            raise RuntimeError("one of the variables needed for gradient computation has been modified by an inplace operation "
                               "after it was saved; tidepool has sent it to the host")
        self.fetch()
        self.arrive()
        here = self.here
        self.unpacks += 1
        if self.unpacks == self.packs:  # another backward pass fetches it again
            self.unpacks, self.here = 0, None
        return here


class Bundle:
    """The saved tensors of one call of a stage, as hooks of torch.autograd.graph.saved_tensors_hooks."""

    def __init__(self, streams: Streams, stays: Collection[int]):
        self._streams = streams
        self._stays = stays  # addresses of storages that others hold, such as parameters
        self._sent: Dict[int, _Sent] = {}  # by the address of the storage, which is live until release

    def bytes(self) -> int:
        return sum(sent.host.numel() for sent in self._sent.values() if sent.host is not None)

    def pack(self, tensor: torch.Tensor) -> Any:
        if (tensor.device != self._streams.device or tensor.layout != torch.strided or type(tensor) not in _TYPES
                or bytes_of(tensor) == 0 or tensor.untyped_storage().data_ptr() in self._stays):
            return tensor
        address = tensor.untyped_storage().data_ptr()
        sent = self._sent.get(address)
        if sent is None or sent.original is None or sent.version != tensor._version:
            # A detached tensor, since the data must not keep the graph that keeps it.
            sent = _Sent(tensor.detach(), self._streams)
            self._sent[address] = sent
        sent.packs += 1
        layout = (tensor.dtype, tensor.size(), tensor.stride(), tensor.storage_offset())
        return sent, layout

    def unpack(self, packed: Any) -> torch.Tensor:
        if isinstance(packed, torch.Tensor):
            return packed
        sent, (dtype, size, stride, offset) = packed
        storage = sent.take().untyped_storage()
        return torch.empty(0, dtype=dtype, device=self._streams.device).set_(storage, offset, size, stride)

    def release(self) -> None:
        for sent in self._sent.values():
            sent.release()

    def fetch(self) -> None:
        for sent in self._sent.values():
            sent.fetch()

    def arrive(self) -> None:
        """Lets the current stream wait for copies back."""
        for sent in self._sent.values():
            sent.arrive()


_TYPES: "List[type]" = [torch.Tensor, torch.nn.Parameter]

# SPDX-License-Identifier: Apache-2.0
"""Pinned memory of the host: the bytes that the program asks PyTorch for. The stand-in runtime knows those that PyTorch takes."""
import contextlib
import functools
import threading
import weakref


class Pinned:
    """Counts the tensors that the program pins. Memory that other functions pin (`torch.empty(pin_memory=True)`) is known from
    PyTorch's statistics, with the rounded size. Thread-safe."""

    def __init__(self, torch):
        self.torch = torch
        self.lock = threading.RLock()  # a finalizer may run at any line
        self.live = [0, 0]  # bytes asked for, and rounded
        self.peak = [0, 0]
        self.count = 0  # of requests
        torch.Tensor.pin_memory = self._counted(torch.Tensor.pin_memory)  # storages call it

    def _counted(self, pin):
        @functools.wraps(pin)
        def call(tensor, *arguments, **named):
            pinned = pin(tensor, *arguments, **named)
            if pinned is not tensor:
                with contextlib.suppress(NotImplementedError, RuntimeError):  # a tensor without a storage of its own
                    self._add(pinned.untyped_storage())
            return pinned
        return call

    def _add(self, storage):
        bytes_ = storage.nbytes()
        if bytes_ == 0 or storage.device.type != "cpu":
            return
        sizes = bytes_, 1 << (bytes_ - 1).bit_length()
        weakref.finalize(storage, self._change, -sizes[0], -sizes[1]).atexit = False
        self._change(*sizes)
        self.count += 1

    def _change(self, bytes_, rounded):
        with self.lock:
            self.live = [self.live[0] + bytes_, self.live[1] + rounded]
            self.peak = max(self.peak, self.live)

    def _others(self, rounded):
        """Returns the bytes of blocks that no counted tensor explains."""
        statistics = getattr(self.torch._C, "_cuda_hostMemoryStats", dict)()
        if statistics.get("active_requests", {}).get("allocated", 0) <= self.count:
            return 0
        return max(0, statistics["allocated_bytes"]["peak"] - rounded)

    def answer(self):
        with self.lock:
            bytes_, rounded = self.peak
        return {"peak_bytes": bytes_ + self._others(rounded)}

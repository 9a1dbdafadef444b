# SPDX-License-Identifier: Apache-2.0
"""The memory that optimizers take in their first step: their state, and temporary tensors.

It does not exist when the first step is planned. PyTorch does not tell it, so the sizes are those of its own optimizers.
"""
import functools
import gc
import weakref
from typing import Any, Callable, Iterator, List, Tuple

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook

__all__ = ["after_steps", "bytes_to_come", "state_to_come", "steps", "temporary_bytes", "watch"]

_steps = 0
_begun: "weakref.WeakSet[Optimizer]" = weakref.WeakSet()  # that have made a step
_called: List[Callable[[Optimizer], bool]] = []


def _count(optimizer: Optimizer, *_: Any) -> None:
    global _steps
    _steps += 1
    _called[:] = [function for function in _called if not function(optimizer)]


def _make_room_for_state(optimizer: Optimizer, *_: Any) -> None:
    """Gives free blocks back before an optimizer makes its state: that lasts, and is not to divide large blocks of the backward pass or a loss."""
    is_first = optimizer not in _begun
    _begun.add(optimizer)
    if is_first and not optimizer.state and torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
        torch.cuda.empty_cache()


def after_steps(function: Callable[[Optimizer], bool]) -> None:
    """Calls a function with the optimizer after each step of one, until it returns True."""
    watch()
    _called.append(function)


@functools.lru_cache(maxsize=None)
def watch() -> None:
    """Counts the steps of all optimizers from now on, and makes room for their state."""
    register_optimizer_step_pre_hook(_make_room_for_state)
    register_optimizer_step_post_hook(_count)


def steps() -> int:
    """Returns how many steps optimizers have made since `watch`."""
    return _steps


def _tensors_of_state(optimizer: Optimizer, group: Any) -> int:
    """Returns how many tensors like each parameter the state of a group has. For other optimizers it is Adam's."""
    if isinstance(optimizer, torch.optim.SGD):
        return int(bool(group.get("momentum")))
    if isinstance(optimizer, (torch.optim.Adagrad, torch.optim.RMSprop)):
        return 1 + int(bool(group.get("momentum"))) + int(bool(group.get("centered")))
    return 2 + int(bool(group.get("amsgrad")))


def _temporary_tensors(group: Any) -> int:
    """Returns how many tensors like each parameter a step takes for a time: by default it updates all of them at once."""
    return 0 if group.get("fused") or group.get("foreach") is False else 1


def _needs(device: torch.device, has_state: bool = True, has_temporary: bool = True) -> Iterator[int]:
    """Returns the bytes that each trained parameter needs for state that is to come, and for temporary tensors."""
    for optimizer in gc.get_objects():
        if not issubclass(type(optimizer), Optimizer):
            continue
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.device == device and parameter.requires_grad:
                    state = _tensors_of_state(optimizer, group) if has_state and not optimizer.state.get(parameter) else 0
                    temporary = _temporary_tensors(group) if has_temporary else 0
                    yield (state + temporary) * parameter.untyped_storage().nbytes()


def bytes_to_come(device: torch.device, trained_bytes: int) -> Tuple[int, bool]:
    """Returns the bytes that the first step of the optimizers will take beside gradients, and whether they exist already.

    trained_bytes: of the parameters, which count where there is no optimizer yet.
    """
    needs = list(_needs(device))
    return (sum(needs), True) if needs else (2 * trained_bytes, False)


def state_to_come(device: torch.device) -> int:
    """Returns the bytes of the state that the first step of the optimizers will make, of those that exist already."""
    return sum(_needs(device, has_temporary=False))


def temporary_bytes(device: torch.device) -> int:
    """Returns the bytes that a step of the optimizers takes for a time."""
    return sum(_needs(device, has_state=False))

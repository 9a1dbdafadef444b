# SPDX-License-Identifier: Apache-2.0
"""Memory that sleeps, with interfaces that engines of inference call: that of the package torch_memory_saver, and the sleep levels of
vLLM. Both are regions of `tidepool.torch`, which must be PyTorch's allocator.

    import tidepool.memory_saver, tidepool.torch
    tidepool.torch.enable(budget="90%")
    tidepool.memory_saver.install()                        # for programs that import torch_memory_saver
    from torch_memory_saver import torch_memory_saver

    with torch_memory_saver.region("kv_cache"):
        cache = make_cache()
    torch_memory_saver.pause("kv_cache")
    torch_memory_saver.resume("kv_cache")

Calls concern the current device.
"""
import contextlib
import sys
from typing import Any, Callable, Iterator, List, Optional, Sequence, Union

from . import torch as _torch

_Tags = Union[str, Sequence[str]]  # one tag, or several
_WITHOUT_BACKUP = " (no backup)"  # follows the tag in the name of a region that loses its contents


def _pause_all(names: Sequence[str], is_kept: Callable[[str], bool]) -> None:
    _torch.pause({name: "host" if is_kept(name) else "discard" for name in names})


def _has_backup(name: str) -> bool:
    return not name.endswith(_WITHOUT_BACKUP)


def _tag_of(name: str) -> str:
    return name if _has_backup(name) else name[:-len(_WITHOUT_BACKUP)]


def _list_of(tags: _Tags) -> List[str]:
    return [tags] if isinstance(tags, str) else list(tags)


def _regions_of(prefix: str, tags: Optional[_Tags], is_asleep: bool) -> List[str]:
    """Returns the regions of the tags, or of all with the prefix, that sleep or do not."""
    wanted = None if tags is None else [prefix + tag for tag in _list_of(tags)]
    return [name for name, figure in _torch.regions().items()
            if figure["is_asleep"] == is_asleep and name.startswith(prefix) and (wanted is None or _tag_of(name) in wanted)]


def _check_some(prefix: str, tag: Optional[str], names: Sequence[str], text: str) -> None:
    """Raises RuntimeError where no region is left to change. A call for a tag that no memory has does nothing, as in torch_memory_saver."""
    if tag is not None and not names and prefix + tag in map(_tag_of, _torch.regions()):
        raise RuntimeError(text)


class MemorySaver:
    """The interface of `torch_memory_saver.torch_memory_saver`. Regions nest, and pauses are in the order of the current stream. The memory
    of a paused region serves this process; `torch.cuda.empty_cache()` gives it to others. The names of its regions begin
    with `prefix`, so that several engines of one process have savers of their own."""

    enabled = True
    hook_mode: Any = None  # any is taken: tidepool needs no LD_PRELOAD

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    @contextlib.contextmanager
    def region(self, tag: str = "default", enable_cpu_backup: bool = False) -> Iterator[None]:
        """Puts the tensors that this thread makes in its block under a tag. With `enable_cpu_backup` they outlast a pause."""
        if tag.endswith(_WITHOUT_BACKUP):
            raise ValueError(f"tag {tag!r}, expected one that does not end in {_WITHOUT_BACKUP!r}")
        name = self._prefix + tag
        with _torch.region(name if enable_cpu_backup else name + _WITHOUT_BACKUP):
            yield

    @contextlib.contextmanager
    def disable(self, dispose_mem_pool_after_use: bool = True) -> Iterator[None]:
        """Puts the tensors of its block under no tag, in a block of region()."""
        with _torch.no_region():
            yield

    def cuda_graph(self, *_: Any, **__: Any) -> None:
        """Raises NotImplementedError: the memory of a graph does not sleep."""
        raise NotImplementedError("tidepool takes the memory of a CUDA graph from the graph, which does not sleep: use torch.cuda.graph")

    def pause(self, tag: Optional[str] = None) -> None:
        """Lets the memory of a tag, or of all, sleep. RuntimeError if all of it sleeps already. After an error it is awake,
        with its contents."""
        names = _regions_of(self._prefix, tag, False)
        _check_some(self._prefix, tag, names, f"all memory of the tag {tag!r} sleeps already: resume it before you pause it again")
        _pause_all(names, _has_backup)

    def resume(self, tag: Optional[str] = None) -> None:
        """Wakes the memory of a tag, or of all. RuntimeError if none of it sleeps. After an error it sleeps on."""
        names = _regions_of(self._prefix, tag, True)
        _check_some(self._prefix, tag, names, f"no memory of the tag {tag!r} sleeps: pause it before you resume it")
        _torch.resume(names)


TorchMemorySaver = MemorySaver  # the name of the class in torch_memory_saver
torch_memory_saver = MemorySaver()


@contextlib.contextmanager
def configure_subprocess() -> Iterator[None]:
    """Does nothing: tidepool needs no LD_PRELOAD."""
    yield


def install() -> None:
    """Puts this module in the place of the package torch_memory_saver, for programs that import it from now on."""
    if "torch_memory_saver" in sys.modules and sys.modules["torch_memory_saver"] is not sys.modules[__name__]:
        raise RuntimeError("torch_memory_saver is imported already: call tidepool.memory_saver.install() before")
    sys.modules["torch_memory_saver"] = sys.modules[__name__]


def sleep(level: int = 1, weights: _Tags = ("weights",), prefix: str = "") -> None:
    """Lets all regions that are awake sleep, as vLLM does: level 1 keeps the contents of `weights` in page-locked memory and loses those of
    others, such as a KV cache; level 2 loses all. With `prefix` only regions sleep that begin with it, and so do those of `weights`. After an error all of them are awake, with
    their contents."""
    if level not in (1, 2):
        raise ValueError(f"level {level!r}, expected 1 or 2")
    kept = [prefix + tag for tag in _list_of(weights)] if level == 1 else []
    _pause_all(_regions_of(prefix, None, False), lambda name: _tag_of(name) in kept)


def wake_up(tags: Optional[_Tags] = None, prefix: str = "") -> None:
    """Wakes the regions with this tag or these, or all, after the prefix. Contents that sleep() kept are back in the order of the current stream. After an error
    those that it named sleep on."""
    _torch.resume(_regions_of(prefix, tags, True))

# SPDX-License-Identifier: Apache-2.0
"""tidepool as PyTorch's allocator of CUDA memory.

    import torch, tidepool.torch
    tidepool.torch.enable(placement="planned")        # before CUDA is used
    for batch in loader:
        tidepool.torch.mark_iteration()
        ...

The allocator is a class in C++ that derives from PyTorch's own. It is compiled for the installed version of
PyTorch on first use, which takes about 10 seconds, and kept in a cache. It needs a C++ compiler and
the headers of the CUDA Toolkit. Without them a CUDAPluggableAllocator takes its place: graphs,
snapshots and torch.OutOfMemoryError are lost then, and statistics are answered here.

MemPool() puts the memory of a part of a program into a pool, also without enable().

compile() trains a model in less memory, with or without enable():

    model = tidepool.torch.compile(model, budget="23GiB")
"""

import contextlib
import ctypes
import gzip
import importlib.metadata
import os
import pathlib
import warnings
from typing import TYPE_CHECKING

import torch

from . import _c_api, _torch_build
from ._torch_compile import _options as _training_options
from ._torch_compile._options import BudgetError

if TYPE_CHECKING:
    from ._torch_compile._plans import Plan

__all__ = ["BudgetError", "MemPool", "Plan", "await_contents", "compile", "describe", "discard_contents", "enable", "fallbacks", "is_enabled", "limit_region", "mark", "mark_iteration", "no_region", "offload", "on_out_of_memory", "owners", "pause", "plans", "pool", "record", "region", "regions", "registered", "resume", "statistics", "trim"]

_backend = None  # after enable()


# Options ------------------------------------------------------------------------------------------


def _text(value):
    """Returns an option's value as the library reads it."""
    if isinstance(value, bool):
        return "1" if value else "0"
    text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    if '"' in text:
        raise ValueError(f"the value {text!r} has a double quote, which options cannot hold")
    return f'"{text}"' if any(c in text for c in ",;\n ") else text


def _options(values):
    return ",".join(f"{key}={_text(value)}" for key, value in values.items() if value is not None)


# The library of pools -----------------------------------------------------------------------------


def _c():
    return _c_api.library()


def _check(status):
    if status != 0:
        raise RuntimeError("tidepool: " + _c().tidepool_last_error().decode(errors="replace"))


def _check_options(options):
    """Raises ValueError for options that no pool accepts, before PyTorch's allocator is replaced."""
    # A device that is large enough for any budget.
    trial = ",".join(filter(None, [options, "device=host,device_memory=1TiB"]))
    if _c().tidepool_check_options(_c_api.text_of("options", trial)) != 0:
        raise ValueError("tidepool: " + _c().tidepool_last_error().decode(errors="replace"))


# The compiled allocator ---------------------------------------------------------------------------


class _Compiled:
    """The class that derives from PyTorch's allocator."""

    def __init__(self, options):
        self.library = ctypes.CDLL(str(_torch_build.compiled("allocator")))
        for name in ("enable", "enable_pinned", "pool", "has_pool", "region", "time_pairs"):
            getattr(self.library, f"tidepool_torch_{name}").restype = ctypes.c_char_p
        self.library.tidepool_torch_region.argtypes = [ctypes.c_char_p, ctypes.c_int]
        self.library.tidepool_torch_time_pairs.argtypes = [ctypes.c_size_t, ctypes.c_long,
                                                           ctypes.POINTER(ctypes.c_double)]
        _torch_build.check(self.library.tidepool_torch_enable(_c_api.text_of("options", options)))

    def enable_pinned(self):
        _torch_build.check(self.library.tidepool_torch_enable_pinned())

    def pool(self, device):
        """Returns the pool of a device, or None if it has none yet."""
        has_pool = ctypes.c_int()
        _torch_build.check(self.library.tidepool_torch_has_pool(device, ctypes.byref(has_pool)))
        return self.make_pool(device) if has_pool.value else None

    @contextlib.contextmanager
    def in_region(self, tag, priority=0):
        """Lets this thread's requests in its block go to the region of a tag, or with "" to none."""
        _torch_build.check(self.library.tidepool_torch_region(_c_api.text_of("tag", tag), priority))
        try:
            yield
        finally:
            _torch_build.check(self.library.tidepool_torch_region(None, 0))

    def make_pool(self, device):
        pool = ctypes.c_void_p()
        _torch_build.check(self.library.tidepool_torch_pool(device, ctypes.byref(pool)))
        return pool


# The pluggable allocator --------------------------------------------------------------------------


def _pluggable_path():
    named = os.environ.get("TIDEPOOL_TORCH_LIBRARY")
    pools = _torch_build.pools_library().parent
    candidates = [pathlib.Path(named)] if named else [
        pools / "libtidepool_torch.so", pools.parent / "torch" / "libtidepool_torch.so"]
    for path in candidates:
        if path.exists():
            return path
    raise ImportError("libtidepool_torch.so was not found beside libtidepool_c.so; set "
                      "TIDEPOOL_TORCH_LIBRARY to its path")


def _make_pluggable(options, allocate):
    """Returns the library, and an allocator of PyTorch that calls it."""
    path = _pluggable_path()
    library = ctypes.CDLL(str(path))
    library.tidepool_pluggable_set_options(_c_api.text_of("options", options))
    return library, torch.cuda.memory.CUDAPluggableAllocator(str(path), allocate,
                                                             "tidepool_pluggable_free")


class _Pluggable:
    """A CUDAPluggableAllocator with all of its functions, and answers for statistics."""

    SETTERS = {"set_init_fn": "init", "set_reset_fn": "reset", "set_base_alloc_fn": "base",
               "set_memory_fraction_fn": "memory_fraction", "set_record_stream_fn": "record_stream",
               "set_begin_allocate_to_pool": "begin"}

    def __init__(self, options):
        self.library, self.allocator = _make_pluggable(options, "tidepool_pluggable_alloc")
        inside = self.allocator.allocator()
        for setter, name in self.SETTERS.items():
            function = getattr(self.library, f"tidepool_pluggable_{name}")
            getattr(inside, setter)(ctypes.cast(function, ctypes.c_void_p).value)
        torch.cuda.memory.change_current_allocator(self.allocator)
        self._answer()

    def enable_pinned(self):
        warnings.warn("tidepool.torch: pinned memory stays PyTorch's, it needs the compiled allocator",
                      stacklevel=4)

    def pool(self, device):
        """Returns the pool of a device, or None if it has none yet."""
        pool = ctypes.c_void_p()
        self.library.tidepool_pluggable_pool(device, ctypes.byref(pool))
        return pool if pool.value else None

    def make_pool(self, device):
        torch.empty(1, dtype=torch.uint8, device=f"cuda:{device}")
        return self.pool(device)

    def _answer(self):
        """Replaces functions of torch.cuda that the pluggable allocator refuses."""
        memory = torch.cuda.memory
        memory.memory_stats_as_nested_dict = _nested_stats
        for module in (memory, torch.cuda):
            module.reset_peak_memory_stats = _reset_peaks
            module.get_allocator_backend = lambda: "tidepool"


def _nested_stats(device=None):
    """Returns the dict of torch.cuda.memory_stats_as_nested_dict, as far as the pool knows it."""
    if not torch.cuda.is_initialized():
        return {}
    figures = statistics(device)

    def stat(current=0, peak=0, allocated=0, freed=0):
        both = {"current": current, "peak": peak, "allocated": allocated, "freed": freed}
        none = dict.fromkeys(both, 0)
        return {"all": both, "small_pool": none, "large_pool": none}

    count = stat(figures["live_count"], 0, figures["allocations"], figures["frees"])
    live = stat(figures["live_bytes"], figures["peak_live_bytes"])
    none = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
    return {"allocation": count, "active": count, "allocated_bytes": live, "active_bytes": live,
            "requested_bytes": live, "segment": stat(),
            "reserved_bytes": stat(figures["reserved_bytes"], figures["peak_reserved_bytes"]),
            "inactive_split": stat(), "inactive_split_bytes": stat(figures["free_bytes"]),
            "num_alloc_retries": 0, "num_ooms": figures["failures"], "num_sync_all_streams": 0,
            "num_device_alloc": figures["growths"], "num_device_free": 0, "max_split_size": 0,
            "oversize_allocations": none, "oversize_segments": none}


def _reset_peaks(device=None):
    _check(_c().tidepool_reset_peaks(_pool(device)))


_region = None  # the options, the library and the allocator of MemPool()


def MemPool(*, budget=None, placement=None, growth=None, **options):
    """Returns a torch.cuda.MemPool with memory from a tidepool pool of its own.

        pool = tidepool.torch.MemPool(budget="4GiB")
        with torch.cuda.use_mem_pool(pool):
            ...

    PyTorch's allocator stays, and asks the pool for segments. All pools of a process have one budget:
    RuntimeError for options that differ from those of the first call. Options are those of enable().
    """
    global _region
    given = _options({"budget": budget, "placement": placement, "growth": growth, **options})
    if _region is None:
        if isinstance(_backend, _Pluggable):
            raise RuntimeError("tidepool.torch.MemPool() needs PyTorch's or the compiled allocator")
        _check_options(given)
        _region = given, *_make_pluggable(given, "tidepool_pluggable_segment")
    if _region[0] != given:
        raise RuntimeError(f"tidepool.torch.MemPool() was called before with options '{_region[0]}', and "
                           f"now with '{given}': all regions of a process share one pool")
    return torch.cuda.MemPool(_region[2].allocator())


# The module's functions ---------------------------------------------------------------------------


def is_enabled():
    """Returns whether tidepool is PyTorch's allocator in this process."""
    return _backend is not None


def _require_time_to_enable():
    if _backend is not None:
        raise RuntimeError("tidepool.torch.enable() was called already, and PyTorch keeps its allocator")
    if torch.cuda.is_initialized():
        raise RuntimeError("tidepool.torch.enable() came too late: PyTorch has used CUDA already. Call it "
                           "before the first tensor is made on a GPU")
    if torch.version.cuda is None:
        raise RuntimeError("this PyTorch was built without CUDA")
    if torch.cuda.device_count() == 0:
        raise RuntimeError("tidepool.torch.enable(): no CUDA device was found")


def _warn_of_settings():
    settings = ",".join(os.environ.get(name, "") for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"))
    if "expandable_segments:true" in settings.lower().replace(" ", ""):
        warnings.warn("expandable_segments:True has no effect: it is a setting of PyTorch's own allocator, and tidepool takes its "
                      "place", stacklevel=3)


def _make_backend(method, options):
    if method == "pluggable":
        return _Pluggable(options)
    try:
        return _Compiled(options)
    except ImportError as error:
        raise ImportError(f"{error}\nenable(method=\"pluggable\") needs no compiler, and has no graphs, no snapshots "
                          "and no torch.OutOfMemoryError") from error


def enable(budget=None, placement=None, growth=None, plan=None, trace=None, *, recording=None,
           pinned=None, method=None, **options):
    """Makes tidepool PyTorch's allocator of CUDA memory, for the whole process.

    budget: bytes of each device, or text such as "20GiB" or "80%"; the default is the whole device.
    placement: the policy that chooses memory: "best-fit" (default), "planned", ...
    growth: the least growth of the pool, as a part of its size.
    plan: a plan file for the first iterations, made by `tidepool plan`.
        It may hold several steps: marks of iterations within it are passed over as long as it is followed.
        A plan of another model does no harm, and the second mark warns of it.
    trace: the beginning of the path of a trace of all requests.
    recording: whether record() may be called; it costs some time in each request.
    pinned: a limit in bytes, or True. Then page-locked memory comes from tidepool too, with exact sizes
        where PyTorch's own rounds up to powers of two.
    method: "compiled" (default), PyTorch's own class, which a C++ compiler makes once for each version of PyTorch, or
        "pluggable", which needs no compiler and has no graphs, no snapshots and no torch.OutOfMemoryError.
    shared_budget: the beginning of the path of a file, as "/dev/shm/tidepool", by which several processes share the budget of each device.
    Other options are those of tidepool_pool_create in c_api.h: initial, memory, remap, ...

    RuntimeError after CUDA was used, for a second call, after another framework made a pool, and without a
    CUDA device; ValueError for wrong options; ImportError where the method does not work.
    """
    global _backend, _given
    _require_time_to_enable()
    if method not in (None, "compiled", "pluggable"):
        raise ValueError(f"method {method!r}, expected 'compiled' or 'pluggable'")
    if torch.cuda.device_count() > 1:
        # A device reads memory of another only where that was not mapped piece by piece.
        options.setdefault("memory", "segments")
    options.setdefault("streams", "stay")  # PyTorch never destroys its streams, and the allocator tells those of others
    values = {"budget": budget, "placement": placement, "growth": growth, "plan": plan, "trace": trace,
              "recording": recording, "pinned": None if pinned in (True, False) else pinned, **options}
    given = _options(values)
    _check_options(given)
    _c_api.share_pools_of(pool)
    try:
        _backend = _make_backend(method, given)
    except BaseException:
        _c_api.share_pools_of(None)
        raise
    _warn_of_settings()
    _given = None if plan is None else _GivenPlan(plan)
    if pinned not in (None, False):
        _backend.enable_pinned()


def _pool(device=None):
    """Returns the pool of a device, made if need be."""
    if _backend is None:
        raise RuntimeError("tidepool is not PyTorch's allocator: call tidepool.torch.enable() first")
    torch.cuda.init()
    index = torch.cuda._utils._get_device_index(device, optional=True)
    return _backend.pool(index) or _backend.make_pool(index)


def pool(device=None):
    """Returns the pool of a device, for other frameworks: tidepool.rmm, tidepool.cupy and others take it by
    themselves, and have one budget with PyTorch.
    """
    return _c_api.Pool.of_handle(_pool(device).value)


def _used_pools():
    """Returns the pools of all devices that have one."""
    if _backend is None:
        raise RuntimeError("tidepool is not PyTorch's allocator: call tidepool.torch.enable() first")
    if not torch.cuda.is_initialized():
        return []
    pools = [_backend.pool(device) for device in range(torch.cuda.device_count())]
    return [pool for pool in pools if pool is not None]


class _GivenPlan:
    """The plan file of enable()."""

    def __init__(self, path):
        self.path = os.fspath(path)
        with open(self.path, "rb") as file:
            is_compressed = file.read(2) == b"\x1f\x8b"
        with (gzip.open if is_compressed else open)(self.path, "rb") as file:
            self.requests = sum(not line.startswith(b"#") for line in file) - 1  # less the header
        self.marks = 0

    def is_followed(self, figures):
        """Returns whether all requests so far were those of the plan, and it has more."""
        return figures.deviations == 0 and figures.planned == figures.allocations < self.requests

    def check(self, figures):
        """Warns if the first step was not that of the plan. Called at each mark."""
        self.marks += 1
        if self.marks == 2 and 2 * figures.planned < figures.allocations:
            warnings.warn(f"the plan {self.path} serves {figures.planned} of the first {figures.allocations} "
                          "requests: it is of another model or of other steps. Make it again from a trace of "
                          "this program", RuntimeWarning, stacklevel=3)


_given = None  # the plan of enable()


def _figures(pool):
    figures = _c_api.Statistics(struct_size=ctypes.sizeof(_c_api.Statistics))
    _check(_c().tidepool_get_statistics(pool, ctypes.byref(figures)))
    return figures


def mark_iteration():
    """Says that a training step begins that is similar to earlier ones.

    With placement "planned" the pools then plan the step. Call it at the same place of each step. Before
    the first steps and those with a new plan, memory that the plan does not use goes back to the device.
    That waits for the device.
    """
    for pool in _used_pools():
        figures = _figures(pool)
        if _given is not None:
            _given.check(figures)
            if _given.is_followed(figures):
                continue
        _check(_c().tidepool_mark_iteration(pool))


def mark(name):
    """Says that a phase called `name` begins, for traces and for policies that use it."""
    for pool in _used_pools():
        _check(_c().tidepool_mark(pool, _c_api.text_of("name", name)))


def await_plans():
    """Waits until all plans that were begun are made. Only tests and measurements need it."""
    for pool in _used_pools():
        _check(_c().tidepool_await_plans(pool))


def statistics(device=None):
    """Returns the figures of a device's pool as a dict; sizes are bytes."""
    return _figures(_pool(device)).as_dict()


def owners(device=None):
    """Returns how much of a device's pool each framework has, as dicts by name; sizes are bytes.

    "torch" has the live bytes and the live count that no other framework has.
    """
    shared = pool(device)
    figures = shared.owners()
    whole = shared.statistics()
    rest = {key: getattr(whole, key) - sum(each[key] for each in figures.values())
            for key in ("live_bytes", "live_count", "allocations", "frees")}
    return {"torch": rest, **figures}


def trim(keep_bytes=0, device=None):
    """Gives unused memory back to the device, and returns its bytes."""
    given_back = ctypes.c_size_t()
    _check(_c().tidepool_trim(_pool(device), keep_bytes, ctypes.byref(given_back)))
    return given_back.value


def take_wanted_by_others(device=None):
    """Returns the bytes of requests that other pools of the shared budget wait for, or were refused since the last call, as far as is known.

    A loop that asks can give memory back for them: pause(tag) and then trim(). 0 without enable(shared_budget=).
    """
    wanted = ctypes.c_size_t()
    _check(_c().tidepool_take_wanted_by_others(_pool(device), ctypes.byref(wanted)))
    return wanted.value


@contextlib.contextmanager
def record(path, device=None):
    """Writes a trace of all requests to a file while its block runs.

    Needs enable(recording=True). The command `tidepool info PATH` reads it.
    """
    pool = _pool(device)
    _check(_c().tidepool_start_trace(pool, _c_api.path_of("path", path)))
    try:
        yield
    finally:
        _check(_c().tidepool_stop_trace(pool))


# Memory that sleeps -------------------------------------------------------------------------------


@contextlib.contextmanager
def region(tag, priority=0):
    """Puts the tensors that this thread makes in its block into the region of a tag, such as "weights".

    Regions nest: the inner one counts. Tensors that autograd makes in its own threads belong to no region.
    priority: after enable(wait=...), of the requests that wait those of the highest priority are served first.
    """
    if not 0 < len(tag.encode()) < 256:
        raise ValueError(f"tag {tag!r}, expected 1 to 255 bytes")
    if not -2**31 <= priority < 2**31:
        raise ValueError(f"priority {priority}, expected a number of 32 bits")
    with _compiled().in_region(tag, priority):
        yield


@contextlib.contextmanager
def no_region():
    """Puts the tensors that this thread makes in its block into no region, also inside of blocks of region()."""
    with _compiled().in_region(""):
        yield


def _compiled():
    if _backend is None:
        raise RuntimeError("tidepool is not PyTorch's allocator: call tidepool.torch.enable() first")
    if not isinstance(_backend, _Compiled):
        raise RuntimeError("regions need the compiled allocator: call tidepool.torch.enable() without "
                           "method=\"pluggable\"")
    return _backend


@contextlib.contextmanager
def _on_stream(device):
    """Gives its block the pool of a device and the current stream, and PyTorch's errors to callers."""
    shared = pool(device)
    try:
        yield shared, torch.cuda.current_stream(device).cuda_stream
    except _c_api.OutOfMemory as error:
        raise torch.OutOfMemoryError(f"tidepool: {error}") from None
    except (_c_api.PoolError, FileNotFoundError) as error:
        raise RuntimeError(f"tidepool: {error}") from None


def pause(tag, mode="host", device=None, folder=None):
    """Puts a region to sleep after the work of the current stream: its memory is free for other tensors.

    The tensors keep their addresses, and must not be used until resume(). Work of other streams that writes to them
    comes before. mode: "host" keeps the contents in page-locked memory, "discard" loses them. "compressed" keeps them
    compressed in other memory of the host, "disk" in a file without a name in `folder`; pause() and resume() then wait
    for the copies. There is no mode to keep the memory: a region that shall keep it is not paused. After an error the region is awake.
    tag: one, several, or a dict of tags and the mode of each: pause({"weights": "host", "kv_cache": "discard"}). Of several regions all
    sleep or, after an error, none, and no other thread changes one of them meanwhile.
    """
    with _on_stream(device) as (shared, stream):
        shared.pause(tag, mode, stream, folder)


def resume(tag, device=None):
    """Gives a region memory at its addresses again, and its contents back in the order of the current stream.

    Where the current stream is one of its own, others may begin before all contents are there: see await_contents().
    torch.OutOfMemoryError where the memory does not fit. After an error the region sleeps on and no contents are lost. Of several tags all
    regions wake or, after an error, none; contents come in their order.
    """
    with _on_stream(device) as (shared, stream):
        shared.resume(tag, stream)


def discard_contents(tag, device=None):
    """Loses the contents that a sleeping region kept, as if it had been paused with mode "discard".

    For contents that are not needed any more, or that a bad disk cannot read: each resume() would fail.
    """
    with _on_stream(device) as (shared, _):
        shared.discard_contents(tag)


def await_contents(tensors):
    """Makes the current stream wait for the contents of tensors, which the last resume() of their region copies, but not for contents at
    higher addresses.

    So the first layer of a model runs while the others come back:

        with torch.cuda.stream(side):
            tidepool.torch.resume("weights")
        for module in model.modules():
            module.register_forward_pre_hook(lambda module, _: tidepool.torch.await_contents(module.parameters(recurse=False)))

    Tensors of no region need no wait. A resume() of compressed contents or of a file returns when all are back: another thread may call
    it, and this one then waits here until its part is copied.
    """
    for tensor in tensors:
        if tensor.is_cuda:
            memory = tensor.untyped_storage()
            with _on_stream(tensor.device) as (shared, stream):
                shared.await_contents(memory.data_ptr(), memory.nbytes(), stream)


def limit_region(tag, least=0, most=None, device=None):
    """Bounds the memory of a region, such as that of a cache beside activations: other tensors leave room for `least` while it does not
    sleep, and it holds at most `most`.

    Sizes are bytes, or texts such as "4GiB"; at first they are 0 and None, which is no bound. The region gives unused memory back for them.
    torch.OutOfMemoryError where other tensors leave no room for `least`; RuntimeError where the region sleeps or uses more than `most`.
    """
    from ._torch_compile import _options

    _compiled()
    bytes_of = _options.size_bytes
    with _on_stream(device) as (shared, _):
        shared.limit_region(tag, least and bytes_of("least", least), most and bytes_of("most", most))


@contextlib.contextmanager
def registered(tensors):
    """Keeps the memory of tensors in place while its block runs, because others registered it: NCCL, a network card, or a process that
    shares it.

        with tidepool.torch.registered([buffer]):
            handle = backend.register(buffer)
            ...
            backend.deregister(handle)

    pause() of their regions raises RuntimeError meanwhile, before it touches anything. The tensors are kept alive. Tensors of no region
    stay in place anyway. RuntimeError where a region sleeps.
    """
    memory = [tensor.untyped_storage() for tensor in tensors if tensor.is_cuda and tensor.numel() > 0]
    with contextlib.ExitStack() as ends:
        for storage in memory:
            with _on_stream(storage.device) as (shared, _):
                shared.begin_registration(storage.data_ptr(), storage.nbytes())
            ends.callback(shared.end_registration, storage.data_ptr(), storage.nbytes())
        yield


def on_out_of_memory(function, tag=None, device=None):
    """Lets tidepool call `function(request)` before it refuses memory, for tensors of the region `tag`, or for all without one.

        def give_back(request):           # bytes, tag (None: no region), stream, attempt
            return cache.evict(request.bytes)   # whether tidepool tries again

        with tidepool.torch.on_out_of_memory(give_back):
            ...

    The function deletes tensors, or calls pause() or limit_region(). It runs on the thread that makes the tensor, and several threads may
    be in it. An exception is logged, and counts as False. After enable(wait=...) it is called before a tensor waits, again while it
    waits, and at the end. Tensors that it makes itself call nothing and do not wait; those of a graph that is captured call nothing.
    PyTorch may ask twice before torch.OutOfMemoryError. Several functions take turns. Returns an object with remove(), which waits until
    other threads have left the function.
    """
    return pool(device).on_out_of_memory(function, tag)


def describe(address, device=None):
    """Returns a line that tells where an address is: in which allocation, at which distance, of which region, and whether that sleeps.

    address: the number in an error of a kernel or of compute-sanitizer, or a tensor, which stands for its first byte. The pool asks CUDA nothing for it.
    """
    if isinstance(address, torch.Tensor):
        address, device = address.data_ptr(), address.device
    return pool(device).describe(address)


def regions(device=None):
    """Returns the figures of a device's regions as dicts, by tag; sizes are bytes."""
    return pool(device).regions()


# Training in less memory --------------------------------------------------------------------------

def _training():
    """Returns the backend of torch.compile. Its import takes a second, since it imports torch._dynamo."""
    from ._torch_compile import _backend, _private

    _private.register("tidepool", _backend.backend)
    return _backend


def _has_entry_point():
    """Returns whether torch.compile finds the backend by itself: in an installed package, but not in a source tree."""
    points = importlib.metadata.entry_points()
    of_group = points.select(group=_GROUP) if hasattr(points, "select") else points.get(_GROUP, ())
    return any(point.name == "tidepool" for point in of_group)


_GROUP = "torch_dynamo_backends"
if not _has_entry_point():
    _training()


def __getattr__(name):
    if name == "Plan":
        return _training().Plan
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def compile(model, *, budget, fullgraph=False, **options):
    """Returns torch.compile(model) for training steps in which PyTorch reserves at most `budget` bytes, or "23GiB".

    The budget counts all of the process, weights and optimizer state too. Operators run again in the backward
    pass, and data leaves for the host, where that costs least; losses and gradients stay the same, with eager kernels to the last bit.
    Each shape of inputs has a plan of its own. torch.compile(model, backend="tidepool", options={"budget": budget})
    is the same with PyTorch's choice about shapes.

    slab: whether tensors of the step have planned addresses, which needs a C++ compiler once. Without them the budget
        limits the bytes of tensors, and PyTorch reserves more.
    link: bytes a second between the device and the host, or "25GB/s"; by default it is measured. With "none" nothing is sent to the host, as
        by default where the GPU shares its memory.
    time_limit: seconds of a search, 8 by default.
    kernels: "eager" for those of PyTorch, by default, or "inductor": operators of elements and reductions that follow each other are fused, with
        the small differences in the last bits that Inductor makes, and with its random numbers.

    ValueError for wrong options. The first step, and a later one that finds more tensors, raises BudgetError if the
    budget is too small: at compile time inside of PyTorch's BackendCompilerFailed.
    """
    given = {"budget": budget, **options}
    _training_options.check(given)
    _training()
    from ._torch_compile import _expected

    _expected.expect_graphs(model)
    return torch.compile(model, backend="tidepool", options=given, dynamic=False, fullgraph=fullgraph)


def graph(step, path, example_inputs=None, *, loss=None, targets=(), optimizer=None, gpu="h100"):
    """Writes the task graph of a training step into a file (.gz: compressed), which `tidepool schedule` and other commands take.

        tidepool.torch.graph(step, "step.json")                                                  # on the current GPU
        tidepool.torch.graph(model, "step.json", (x,), loss=criterion, targets=(y,), optimizer=torch.optim.AdamW)   # without a GPU

    A function is called once: one training step with its optimizer. The graph is that of `tidepool dryrun --graph`, with the times of events.
    Call it after a first step, which makes the state of the optimizer. All that the step does not free counts as held by the program. A
    recording of PyTorch's memory history that the program began ends.

    A torch.nn.Module, a torch.fx.GraphModule or a torch.export.ExportedProgram does not run. Its operators, those of the backward pass and
    those of the optimizer are noted on tensors without memory, as they would run on `gpu`, a name that `tidepool dryrun --gpu` knows.
    example_inputs: the arguments of the model, a tuple, or a dict of named ones. Their sizes and types alone count.
    loss: a function of the model's result and `targets`. Without it the result is the loss, or its `loss`, or its first part.
    optimizer: a function that gets the parameters and returns an optimizer. Without it the step ends after the backward pass.
    Times are the roofline of that GPU. Workspaces of cuDNN and most other memory that operators take for themselves are left out. Hooks of
    tensors are not called.

    Returns a dict with `file`, `tasks`, `data`, `seconds`, `peak_bytes` and `notes`. Raises tidepool.Error where the step has no graph, and
    ValueError for a result that is no loss, or an unknown GPU.
    """
    from . import _dryrun  # needs the compiled module

    if not isinstance(step, (torch.nn.Module, torch.export.ExportedProgram)):
        return _dryrun.write_graph("live", step, path)
    if example_inputs is None:
        raise ValueError("a model without example_inputs, expected a tuple of its arguments")
    return _dryrun.write_graph("model", step, path, example_inputs, loss, targets, optimizer, gpu)


def plans():
    """Returns the plans that compile() and the backend have made in this process, oldest first."""
    return list(_training().plans)


def fallbacks():
    """Returns how many graphs run without a schedule, as a dict by reason."""
    return dict(_training().fallbacks)


def offload(model, *, budget, link=None):
    """Returns a context in which training steps of a model that is not compiled take at most `budget` bytes, or "23GiB".

        with tidepool.torch.offload(model, budget="23GiB") as training:
            for x, y in loader:
                loss = criterion(model(x), y)
                loss.backward()
                ...

    Stages are the members of the model's outermost torch.nn.ModuleLists and Sequentials. Each keeps its data, sends it to
    the host, or runs again in the backward pass. The first step of each shape of inputs is measured; `training.prediction`
    then has `peak_bytes` and `seconds`, and `training.modes` the mode of each stage. The budget counts all tensors of the
    process between the start of the forward pass and the end of the backward pass.

    link: bytes a second between the device and the host, or "25GB/s"; by default it is measured. With "none" nothing is sent to the host, as
        by default where the GPU shares its memory.

    ValueError for wrong options. The second step, and a later one that finds more tensors, raises BudgetError if the
    budget is too small.
    """
    from ._torch_offload._training import offload as begin

    return begin(model, budget, link)


if __name__ == "__main__":
    import sys

    from tidepool._torch_offload import _run

    _run.main(sys.argv[1:])

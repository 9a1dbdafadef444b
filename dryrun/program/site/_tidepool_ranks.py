# SPDX-License-Identifier: Apache-2.0
"""The part of `tidepool dryrun` inside the ranks of a job: the objects that they send each other, and their end."""
import contextlib
import ctypes
import functools
import glob
import importlib
import os
import sys
import time

import _tidepool_imports as imports

# Functions of torch.distributed that send pickles through device memory and read their sizes back.
OBJECT_FUNCTIONS = ("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list",
                    "send_object_list", "recv_object_list")
ZERO = "torch.distributed.optim.zero_redundancy_optimizer"
SECONDS_FOR_OTHERS = 10


def group_of():
    """Returns torch.distributed if this process is a rank of a group, or else None."""
    distributed = sys.modules.get("torch.distributed")
    return distributed if distributed is not None and distributed.is_available() and distributed.is_initialized() else None


def rank_of():
    """Returns the rank of this process, or None outside of a group."""
    group = group_of()
    if group is not None:
        return group.get_rank()
    rank = os.environ.get("RANK", os.environ.get("LOCAL_RANK"))
    return int(rank) if rank is not None else None


def failed_rank(error):
    """Returns the rank and the status of the process that torchrun's error tells of, or None for other errors."""
    errors = sys.modules.get("torch.distributed.elastic.multiprocessing.errors")
    if errors is None or not isinstance(error, errors.ChildFailedError):
        return None
    rank, failure = error.get_first_failure()
    return {"rank": rank, "status": failure.exitcode}


def wait_for_others(folder):
    """Waits until all ranks have answered, so that none misses this one in a collective. One that never answers is not
    waited for long."""
    group = group_of()
    ranks = group.get_world_size() if group is not None else 1
    end = time.monotonic() + SECONDS_FOR_OTHERS
    while len(glob.glob(os.path.join(folder, "process-*.json"))) < ranks and time.monotonic() < end:
        time.sleep(0.05)


def hold_data(torch):
    """Returns the function of the stand-in for the CUDA runtime that lets kernels leave known data alone."""
    return ctypes.CDLL("libcudart.so." + torch.version.cuda.split(".")[0]).cudartHostHoldData


def on_host_too(torch):
    """Returns a mode in which small computations on the device are done on the host too, for their values."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    def to_host(value):
        if isinstance(value, torch.device) and value.type == "cuda":
            return torch.device("cpu")
        return value.cpu() if isinstance(value, torch.Tensor) and value.is_cuda else value

    class OnHostToo(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            on_host = None
            has_values = not any(word in function.name() for word in ("empty", "set_"))
            if function.namespace == "aten" and not function.is_view and has_values:
                on_host = function(*tree_map(to_host, args), **tree_map(to_host, kwargs))
            result = function(*args, **kwargs)
            if isinstance(on_host, torch.Tensor) and isinstance(result, torch.Tensor) and result.is_cuda:
                result.copy_(on_host)
            return result

    return OnHostToo()


def send_objects_exactly(torch, world):
    """Lets the functions that send objects find their values, which kernels compute among others. `world` is that of a rank without
    peers, or None."""
    distributed = torch.distributed
    if not distributed.is_available():
        return
    hold = hold_data(torch)

    def exact(function, mode):
        @functools.wraps(function)
        def call(*args, **kwargs):
            hold(1)
            try:
                with mode(), world.objects(function.__name__) if world else contextlib.nullcontext():
                    return function(*args, **kwargs)
            finally:
                hold(0)
        return call

    for name in OBJECT_FUNCTIONS:
        function = exact(getattr(distributed.distributed_c10d, name), lambda: on_host_too(torch))
        for module in (distributed, distributed.distributed_c10d):
            setattr(module, name, function)
    # It only copies.
    imports.watch(ZERO, lambda zero: setattr(zero, "_broadcast_object", exact(zero._broadcast_object, contextlib.nullcontext)))


def watch_processes(run, process):
    """Notes the failure and the end of a function that a process of multiprocessing runs: Python's hook is not called for its errors, and a
    forked process calls no functions at its exit. `process` is the module multiprocessing.process."""
    bootstrap = process.BaseProcess._bootstrap

    @functools.wraps(bootstrap)
    def watched(self, *args, **kwargs):
        call = self.run

        def noted():
            try:
                call()
            except Exception as error:
                if run.recording is not None:  # the process uses PyTorch
                    run.failed(error, error.__traceback__)
                raise
            finally:
                run.write("end")

        self.run = noted
        return bootstrap(self, *args, **kwargs)

    process.BaseProcess._bootstrap = watched


def watch_spawned(run):
    """Notes the index and the failure of a function that torch.multiprocessing.spawn runs."""
    spawn = importlib.import_module("torch.multiprocessing.spawn")  # the package has a function of that name
    wrap = spawn._wrap

    @functools.wraps(wrap)
    def watched(function, index, args, error_file):
        def call(*args):
            run.index = index
            try:
                return function(*args)
            except Exception as error:
                run.failed(error, error.__traceback__)
                raise
        wrap(call, index, args, error_file)

    spawn._wrap = watched

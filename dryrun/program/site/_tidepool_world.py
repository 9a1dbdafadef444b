# SPDX-License-Identifier: Apache-2.0
"""One rank of a world in which other ranks have no processes. The stand-in for NCCL answers for them on the device; here are the
stores in which ranks meet, groups on the host, and the few values that a rank must have from another one: objects, and small numbers
that mostly are sizes. A process of that other rank sends these: it is started when its first value is needed.

The environment has TIDEPOOL_DRYRUN_WORLD and _RANK, and _HELPS for a rank that only sends values.
"""
import contextlib
import ctypes
import functools
import hashlib
import importlib
import inspect
import itertools
import json
import os
import re
import sys
import threading
import time

import _tidepool_checkpoints as checkpoints
import _tidepool_imports as imports

SECONDS_BETWEEN_LOOKS = 0.02
MOST_NUMBERS = 512  # of a tensor that is taken for sizes; tokens are more
# Keys of a store that ranks read when they make a communicator, for an ID that is any text here.
ID_OF_NCCL = re.compile(r"(^|/)([0-9]+|[0-9]+:[0-9]+|UniqueNCCLID:[0-9]+)$")
BYTES_OF_ID = 128
STAGE = "torch.distributed.pipelining.stage"
LAUNCHER = "torch.distributed.launcher.api"
SYMMETRIC_MEMORY = "torch.distributed._symmetric_memory"


def of_environment(run):
    """Returns the World of this process, or None."""
    return World(run) if "TIDEPOOL_DRYRUN_WORLD" in os.environ else None


class World:
    def __init__(self, run):
        self.run = run
        self.folder = run.folder
        self.size = int(os.environ["TIDEPOOL_DRYRUN_WORLD"])
        self.rank = int(os.environ["TIDEPOOL_DRYRUN_RANK"])
        self.helps = "TIDEPOOL_DRYRUN_HELPS" in os.environ
        self.has_group = False
        self.inside = threading.local()  # `objects`: the name of the function for objects that runs; `batch`: its open messages
        self.counts = {}

    def __str__(self):
        return f"rank {self.rank} of {self.size}"

    def enter(self, torch):
        if not torch.distributed.is_available():
            return
        self.torch = torch
        self.c10d = torch.distributed.distributed_c10d
        self._replace_stores()
        self._replace_gloo()
        self._replace_splits()
        self._wrap("init_process_group", self._init_group)
        for name, values in (("all_reduce", own_sum), ("gather", own_gathered), ("all_to_all_single", own_exchanged),
                             ("scatter", own_scattered), ("recv", no_message), ("irecv", no_message)):
            self._wrap(name, functools.partial(self._with_own_values, values))
        for name in ("broadcast", "scatter", "send", "isend", "recv", "irecv", "batch_isend_irecv"):  # around these values
            self._wrap(name, getattr(self, "_" + name))
        self._wrap("monitored_barrier", lambda own, *_, **__: None)
        self._refuse_own_processes()
        imports.watch(SYMMETRIC_MEMORY, self._refuse_symmetric_memory)
        imports.watch(STAGE, self._note_stages)
        checkpoints.Checkpoints(self.folder, self.rank, self.helps)

    def _wrap(self, name, replacement):
        """Replaces a function of torch.distributed, also where PyTorch has imported it: `replacement` gets its own function and the
        arguments."""
        own = getattr(self.c10d, name, None)
        if own is None:
            return

        @functools.wraps(own)
        def call(*arguments, **named):  # a function, into which compilers of code look
            return replacement(own, *arguments, **named)

        for module in [one for path, one in sys.modules.items() if path.startswith("torch.distributed")]:
            if vars(module).get(name) is own:
                setattr(module, name, call)

    # Groups

    def _init_group(self, own, *arguments, **named):
        own(*arguments, **named)
        size, rank = self.c10d.get_world_size(), self.c10d.get_rank()
        if (size, rank) != (self.size, self.rank):
            self.run.refuse(f"the program made a group of {size} ranks as rank {rank} of it, expected {self}: it has to take RANK and "
                            "WORLD_SIZE from the environment, and to start no ranks of its own")
        self.has_group = True

    def _refuse_own_processes(self):
        def refuse(*_, **__):
            self.run.refuse(f"the program starts ranks of its own, but runs as {self}, expected the program of one rank, or a job of all "
                            "ranks without --world")

        for name in ("spawn", "start_processes"):
            for module in (importlib.import_module("torch.multiprocessing.spawn"), self.torch.multiprocessing):
                if callable(getattr(module, name, None)):
                    setattr(module, name, refuse)
        imports.watch(LAUNCHER, lambda launcher: setattr(launcher, "launch_agent", refuse))

    def _refuse_symmetric_memory(self, module):
        """The ranks of a rendezvous open the memory of each other."""
        def rendezvous(*_, **__):
            self.run.refuse(f"the program makes symmetric memory of all ranks, but runs as {self}, expected a job of all ranks without --world")

        module.rendezvous = rendezvous

    def _replace_stores(self):
        rank = self.rank
        made = []  # PyTorch keeps its own part of a store alone

        class Store(LocalStore, self.torch.distributed.Store):
            def __init__(self, *arguments, **named):
                self.torch_init()
                LocalStore.__init__(self, rank, *arguments, **named)
                made.append(self)

            torch_init = self.torch.distributed.Store.__init__

        rendezvous = importlib.import_module("torch.distributed.rendezvous")  # the package has a function of that name
        for name in ("TCPStore", "FileStore"):
            for module in (self.torch.distributed, self.c10d, rendezvous):
                if hasattr(module, name):
                    setattr(module, name, Store)

    def _replace_gloo(self):
        """Groups on the host connect all ranks when they are made. PyTorch has one that connects none."""
        own = getattr(self.c10d, "ProcessGroupGloo", None)
        fake = getattr(self.torch._C._distributed_c10d, "FakeProcessGroup", None)
        if own is None or fake is None:
            return
        make = getattr(fake, "_create_internal", fake)
        fake._set_sequence_number_for_group = lambda group: None
        fake._get_sequence_number_for_group = lambda group: 0
        fake._set_default_timeout = lambda group, timeout: None

        class Kind(type(own)):
            def __instancecheck__(cls, one):
                return isinstance(one, fake)

            def __call__(cls, store, rank, size, *_, **__):
                return make(rank, size)

        class Gloo(metaclass=Kind):
            Options = getattr(own, "Options", None)
            create_device = getattr(own, "create_device", None)
            create_default_device = getattr(own, "create_default_device", None)

        for module in (self.c10d, self.torch.distributed):
            if hasattr(module, "ProcessGroupGloo"):
                module.ProcessGroupGloo = Gloo

    def _replace_splits(self):
        """Only the peers of a rank know in which part of a communicator they are, so parts are made like other groups."""
        if hasattr(self.c10d, "_get_split_source"):
            self.c10d._get_split_source = lambda group: None
        self._wrap("split_group", self._split_group)

    def _split_group(self, own, *arguments, **named):
        found = inspect.signature(own).bind(*arguments, **named).arguments
        parent = found.get("parent_pg") or self.c10d._get_default_group()
        of_parent = self.c10d.get_process_group_ranks(parent)
        parts = [[of_parent[one] for one in part] for part in found["split_ranks"]]
        part = next((sorted(one) for one in parts if self.rank in one), None)
        if part is None:
            return None
        return self.c10d.new_group(part, timeout=found.get("timeout"), backend=self.c10d.get_backend_config(parent),
                                   use_local_synchronization=True, group_desc=found.get("group_desc"))

    def _note_stages(self, module):
        """Notes the ranks of a pipeline, one for each stage of this rank's. Stages tell each other their shapes one after the other, so
        all before this one are started together."""
        own = module._PipelineStageBase.__init__
        infer = getattr(module.PipelineStage, "_shape_inference", None)
        world = self

        @functools.wraps(own)
        def init(stage, *arguments, **named):
            own(stage, *arguments, **named)
            path = os.path.join(world.folder, "stages")
            if not os.path.exists(path):
                write(path, json.dumps(world._ranks_of_stages(stage)).encode())

        module._PipelineStageBase.__init__ = init
        if infer is None:
            return

        @functools.wraps(infer)
        def infer_shapes(stage, *arguments, **named):
            for rank in itertools.takewhile(lambda one: one != world.rank, world._ranks_of_stages(stage)):
                world._need(rank)
            return infer(stage, *arguments, **named)

        module.PipelineStage._shape_inference = infer_shapes

    def _ranks_of_stages(self, stage):
        return self.c10d.get_process_group_ranks(stage.group or self.c10d._get_default_group())

    # Values of other ranks

    @contextlib.contextmanager
    def objects(self, name):
        """In this context every message of small size is one of objects."""
        self.inside.objects = name
        try:
            yield
        finally:
            self.inside.objects = None

    def _carries(self, tensor):
        """Returns whether the values of a message are those of the rank that sends it."""
        if getattr(self.inside, "objects", None):
            return True
        integers = (self.torch.int32, self.torch.int64)
        return isinstance(tensor, self.torch.Tensor) and tensor.dtype in integers and 0 < tensor.numel() <= MOST_NUMBERS

    def _path(self, kind, group, source, target=""):
        """Returns the file of the next message of a kind from one rank, to another one or to all of a group."""
        ranks = ",".join(map(str, self.c10d.get_process_group_ranks(group)))
        place = f"{kind}-{hashlib.sha256(f'{group.group_name} {ranks}'.encode()).hexdigest()[:16]}-{source}-{target}"
        self.counts[place] = self.counts.get(place, 0) + 1
        return os.path.join(self.folder, f"value-{place}-{self.counts[place]}")

    def _publish(self, path, tensor):
        on_host = tensor.detach().cpu().contiguous()
        write(path, ctypes.string_at(on_host.data_ptr(), on_host.numel() * on_host.element_size()) if on_host.numel() else b"")

    def _fill(self, path, tensor, source, name):
        """Waits until the rank has sent its values, and writes them."""
        data = self._await_value(path, source, getattr(self.inside, "objects", None) or name)
        if data and len(data) == tensor.numel() * tensor.element_size():
            with self.torch.no_grad():
                tensor.copy_(self.torch.frombuffer(bytearray(data), dtype=tensor.dtype).view(tensor.shape))

    def _await_value(self, path, source, name):
        ended = os.path.join(self.folder, f"ended-{source}")
        if not os.path.exists(path):
            self._need(source)
        waits = os.path.join(self.folder, f"waits-{self.rank}")
        write(waits, f"rank {self.rank} waits in {name} for a value of rank {source}".encode())
        while not os.path.exists(path):
            if os.path.exists(ended) and not os.path.exists(path):
                raise RuntimeError(f"{name} waits for a value of rank {source}, which has ended without it (tidepool runs {self}, and "
                                   "a process of each rank of which it needs values)")
            time.sleep(SECONDS_BETWEEN_LOOKS)
        os.remove(waits)
        with open(path, "rb") as file:
            return file.read()

    def _need(self, rank):
        write(os.path.join(self.folder, f"need-{rank}"), b"")

    def _source(self, found, group, name="src"):
        """Returns the rank in the world of the root or the peer of a call, or None."""
        if found.get("group_" + name) is not None:
            return self.c10d.get_global_rank(group, found["group_" + name])
        return found.get(name)

    def _arguments(self, own, arguments, named):
        found = inspect.signature(own).bind(*arguments, **named).arguments
        return found, found.get("group") or self.c10d._get_default_group()

    def _is_member(self, group):
        return group is not self.c10d.GroupMember.NON_GROUP_MEMBER and not self.c10d._rank_not_in_group(group)

    def _broadcast(self, own, *arguments, **named):
        found, group = self._arguments(own, arguments, named)
        tensor, source = found["tensor"], self._source(found, group)
        if not self._is_member(group) or not self._carries(tensor):
            return own(*arguments, **named)
        path = self._path("broadcast", group, source)
        if source == self.rank:
            self._publish(path, tensor)
            return own(*arguments, **named)
        work = own(*arguments, **named)
        if work is not None:
            work.wait()
        self._fill(path, tensor, source, "broadcast")
        return work

    def _scatter(self, own, *arguments, **named):
        found, group = self._arguments(own, arguments, named)
        tensor, source, parts = found["tensor"], self._source(found, group), found.get("scatter_list")
        if not self._is_member(group) or not self._carries(tensor):
            return own(*arguments, **named)
        source = 0 if source is None else source
        if source != self.rank:
            work = own(*arguments, **named)
            if work is not None:
                work.wait()
            self._fill(self._path("scatter", group, source, self.rank), tensor, source, "scatter")
            return work
        for rank, part in zip(self.c10d.get_process_group_ranks(group), parts):
            self._publish(self._path("scatter", group, source, rank), part)
        return own(*arguments, **named)

    def _send(self, own, *arguments, **named):
        found, group = self._arguments(own, arguments, named)
        target = self._source(found, group, "dst")
        if self._is_member(group) and self._carries(found["tensor"]):
            self._publish(self._path("message", group, self.rank, target), found["tensor"])
        return own(*arguments, **named)

    _isend = _send

    def _recv(self, own, *arguments, **named):
        found, group = self._arguments(own, arguments, named)
        source = self._source(found, group)
        work = own(*arguments, **named)
        if source is None or not self._is_member(group) or not self._carries(found["tensor"]):
            return work
        message = self._path("message", group, source, self.rank), found["tensor"], source, own.__name__
        batch = getattr(self.inside, "batch", None)
        if batch is not None:  # no message ends before the batch
            batch.append(message)
            return work
        if hasattr(work, "wait"):
            work.wait()
        self._fill(*message)
        return work

    _irecv = _recv

    def _batch_isend_irecv(self, own, *arguments, **named):
        self.inside.batch = batch = []
        try:
            works = own(*arguments, **named)
        finally:
            self.inside.batch = None
        if batch:
            for work in works:
                work.wait()
            for message in batch:
                self._fill(*message)
        return works

    def _with_own_values(self, values, own, *arguments, **named):
        """Calls a function with the values that all ranks have if they bring the same as this one, where nothing else answers for them:
        on the host, and for gathered objects, which NCCL takes as messages."""
        found, group = self._arguments(own, arguments, named)
        work = own(*arguments, **named)
        tensor = found.get("tensor", found.get("input"))
        if self._is_member(group) and not (tensor.is_cuda and not getattr(self.inside, "objects", None)):
            if hasattr(work, "wait"):
                work.wait()
            values(found, self.c10d.get_world_size(group), self.c10d.get_rank(group), self.torch.distributed.ReduceOp)
        return work


def own_sum(found, size, rank, ops):
    if not found["tensor"].is_cuda and found.get("op", ops.SUM) == ops.SUM:
        found["tensor"].mul_(size)


def own_gathered(found, size, rank, ops):
    for one in found.get("gather_list") or ():
        one.copy_(found["tensor"])


def own_scattered(found, size, rank, ops):
    if found.get("scatter_list"):
        found["tensor"].copy_(found["scatter_list"][rank])
    else:
        no_message(found, size, rank, ops)


def no_message(found, size, rank, ops):
    if not found["tensor"].is_cuda:  # there the stand-in has zeros
        found["tensor"].zero_()


def own_exchanged(found, size, rank, ops):
    if not (found.get("output_split_sizes") or found.get("input_split_sizes")):
        for part in found["output"].chunk(size):
            part.copy_(found["input"].chunk(size)[rank])


class LocalStore:
    """A store of torch.distributed that waits for no rank. It answers for the keys of other ranks with those of this one."""

    def __init__(self, rank, *_, **__):
        self.rank = rank
        self.values = {}
        self.lock = threading.RLock()
        self.host, self.port = os.environ.get("MASTER_ADDR", "localhost"), int(os.environ.get("MASTER_PORT", "0"))

    def set(self, key, value):
        with self.lock:
            self.values[key] = value.encode() if isinstance(value, str) else bytes(value)

    def get(self, key):
        with self.lock:
            if key in self.values:
                return self.values[key]
            if ID_OF_NCCL.search(key):
                return b"i" * BYTES_OF_ID
            return self._own_of(key)

    def _own_of(self, key):
        """Returns this rank's value of a key that differs from its own in numbers alone."""
        pattern = without_numbers(key)
        alike = [one for one in self.values if without_numbers(one) == pattern]
        if not alike:
            raise RuntimeError(f"the program waits for the key '{key}' of a store, which another rank sets (tidepool runs rank "
                               f"{self.rank} alone), expected one that this rank sets too")
        return self.values[alike[-1]]

    def add(self, key, amount):
        with self.lock:
            value = int(self.values.get(key, b"0")) + amount
            self.values[key] = str(value).encode()
            return value

    def append(self, key, value):
        with self.lock:
            self.values[key] = self.values.get(key, b"") + bytes(value)

    def compare_set(self, key, expected, desired):
        with self.lock:
            now = self.values.get(key)
            wanted = expected.encode() if isinstance(expected, str) else bytes(expected)
            if now is None and not wanted or now == wanted:
                self.set(key, desired)
            return self.values.get(key, wanted)

    def multi_get(self, keys):
        return [self.get(key) for key in keys]

    def multi_set(self, keys, values):
        for key, value in zip(keys, values):
            self.set(key, value)

    def check(self, keys):
        with self.lock:
            return all(key in self.values for key in keys)

    def delete_key(self, key):
        with self.lock:
            return self.values.pop(key, None) is not None

    def num_keys(self):
        return len(self.values)

    def wait(self, *_):
        pass

    def set_timeout(self, *_):
        pass

    def clone(self):
        return self


def without_numbers(key):
    return re.sub("[0-9]+", "#", key)


def write(path, data):
    """Writes a file that others see whole."""
    new = f"{path}.{os.getpid()}.{threading.get_ident()}"
    with open(new, "wb") as file:
        file.write(data)
    os.replace(new, path)

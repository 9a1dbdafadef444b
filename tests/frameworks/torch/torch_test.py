# SPDX-License-Identifier: Apache-2.0
"""tidepool as the allocator of an unmodified PyTorch, on the stand-in CUDA runtime."""
import bisect
import contextlib
import ctypes
import gc
import inspect
import json
import logging
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1])]
import torch

import isolated
import models
import tidepool.memory_saver
import tidepool.torch as tidepool_torch

warnings.filterwarnings("ignore")
MIB = 1 << 20
TOOL = os.environ.get("TIDEPOOL_TOOL")


def raises(error, part, body):
    """Checks that `body` raises an error with a text in it."""
    try:
        body()
    except error as raised:
        assert part in str(raised), f"{part!r} is not in {raised}"
    else:
        raise AssertionError(f"no error with {part!r}")


def empty(count, **options):
    return torch.empty(count, dtype=torch.uint8, device="cuda", **options)


# Training -----------------------------------------------------------------------------------------

RUNS = [("mlp", False), ("resnet18", False), ("gpt", False), ("gpt", True), ("gpt-recomputed", False),
        ("lstm", False)]


def _train_all():
    """Trains all models, and returns the allocations and frees of each."""
    counts = []
    for name, autocast in RUNS:
        models.train(name, 3, autocast=autocast)
        gc.collect()
        stats = torch.cuda.memory_stats()
        counts.append({f"{kind}.{pool}.{key}": stats[f"{kind}.{pool}.{key}"]
                       for kind in ("allocation", "requested_bytes")
                       for pool in ("all", "small_pool", "large_pool")
                       for key in ("allocated", "freed", "current", "peak")})
        torch.cuda.reset_peak_memory_stats()
        if name == "gpt":
            torch.cuda.reset_accumulated_memory_stats()
    return counts


def in_child(body):
    """Returns the result of `body` in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, json.dumps(body()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        result = json.loads(pipe.read())
    assert os.waitpid(child, 0)[1] == 0
    return result


def training_makes_the_requests_that_it_makes_natively():
    native = in_child(_train_all)
    tidepool_torch.enable()
    ours = _train_all()
    for (name, _), theirs, mine in zip(RUNS, native, ours):
        assert theirs == mine, f"{name}: native {theirs}, tidepool {mine}"


def planned_training_makes_them_too():
    tidepool_torch.enable(placement="planned")

    def before(_):
        tidepool_torch.await_plans()
        tidepool_torch.mark_iteration()

    models.train("gpt", 5, before_step=before)
    figures = tidepool_torch.statistics()
    assert figures["plans"] > 0 and figures["planned"] > 0, figures
    assert figures["iterations"] == 4, figures


def planned_training_reserves_little_from_the_third_step_on():
    tidepool_torch.enable(placement="planned")
    live, reserved = [], []

    def before(_):
        tidepool_torch.await_plans()
        tidepool_torch.mark_iteration()
        torch.cuda.reset_peak_memory_stats()

    def after(_):
        live.append(torch.cuda.max_memory_allocated())
        reserved.append(torch.cuda.max_memory_reserved())

    models.train("gpt", 8, before_step=before, after_step=after)
    assert max(reserved[2:]) <= 1.05 * max(live[2:]), (live, reserved)


def make_plan(model, steps, folder):
    """Returns a plan file of the first steps of a model."""
    def record():
        tidepool_torch.enable(recording=True)
        with tidepool_torch.record(f"{folder}/steps.tide"):
            models.train(model, steps, before_step=lambda i: tidepool_torch.mark_iteration())
        return tidepool_torch.statistics()["allocations"]

    requests = in_child(record)
    subprocess.run([TOOL, "plan", f"{folder}/steps.tide", "-o", f"{folder}/plan.csv", "--time-limit", "1s"],
                   check=True, env={}, capture_output=True)
    return f"{folder}/plan.csv", requests


def plans_of_several_steps_are_followed_across_marks():
    if not TOOL:
        return
    with tempfile.TemporaryDirectory() as folder:
        plan, requests = make_plan("mlp", 3, folder)
        tidepool_torch.enable(plan=plan)
        tidepool_torch.statistics()  # makes the pool, which reads the plan
    served = []

    def before(_):
        tidepool_torch.mark_iteration()
        figures = tidepool_torch.statistics()
        served.append([figures["planned"], figures["allocations"], figures["deviations"]])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        models.train("mlp", 3, before_step=before)
    figures = tidepool_torch.statistics()
    assert all(planned == made and deviations == 0 for planned, made, deviations in served), served
    assert figures["planned"] == figures["allocations"] == requests, figures
    assert figures["reserved_bytes"] < 1.05 * figures["peak_live_bytes"], figures


def a_plan_of_another_model_is_told():
    if not TOOL:
        return
    with tempfile.TemporaryDirectory() as folder:
        plan, _ = make_plan("mlp", 1, folder)
        raises(ValueError, "the plan needs", lambda: tidepool_torch.enable(plan=plan, budget="8MiB"))
        raises(ValueError, "steps.tide", lambda: tidepool_torch.enable(plan=f"{folder}/steps.tide"))
        tidepool_torch.enable(plan=plan)
        tidepool_torch.statistics()  # makes the pool, which reads the plan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        models.train("gpt", 4, before_step=lambda i: tidepool_torch.mark_iteration())
    told = [str(warning.message) for warning in caught if "another model" in str(warning.message)]
    assert len(told) == 1 and plan in told[0], told


def check_no_overlap(trace):
    """Checks that no allocation of a trace lies in another that is live."""
    begins, ends = [], {}
    for entry in trace:
        address, size = entry["addr"], entry["size"]
        if entry["action"] == "alloc":
            at = bisect.bisect(begins, address)
            assert at == 0 or ends[begins[at - 1]] <= address, "the previous block reaches into it"
            assert at == len(begins) or address + size <= begins[at], "it reaches into the next block"
            begins.insert(at, address)
            ends[address] = address + size
        elif entry["action"] == "free_completed" and address in ends:
            begins.remove(address)
            del ends[address]


def live_memory_does_not_overlap():
    tidepool_torch.enable()
    torch.cuda.memory._record_memory_history(max_entries=1000000, stacks="python")
    models.train("gpt", 2)
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    assert sum(entry["action"] == "alloc" for entry in trace) > 500
    check_no_overlap(trace)


def data_survives():
    tidepool_torch.enable()
    numbers = torch.arange(100000.)
    kept = [(numbers + i).cuda() for i in range(20)]
    del kept[::3]
    kept += [(numbers - i).cuda() for i in range(20)]
    for tensor in kept:
        copied = tensor.cpu()
        assert torch.equal(copied - copied[0], numbers)
    loader = torch.utils.data.DataLoader(torch.arange(100.).reshape(50, 2), batch_size=5, pin_memory=True)
    rows = []
    for batch in loader:
        assert batch.is_pinned()
        rows.append(batch.to("cuda", non_blocking=True))
    assert torch.equal(torch.cat([row.cpu() for row in rows]), torch.arange(100.).reshape(50, 2))


# Statistics and snapshots -------------------------------------------------------------------------


def statistics_are_those_of_the_pool():
    tidepool_torch.enable(budget="1GiB")
    kept = [empty(n * 1000) for n in range(1, 200)]
    del kept[::2]
    stats, figures = torch.cuda.memory_stats(), tidepool_torch.statistics()
    assert stats["allocation.all.allocated"] == figures["allocations"] == 199
    assert stats["allocation.all.freed"] == figures["frees"] == 100
    assert stats["allocation.all.current"] == figures["live_count"] == len(kept)
    assert stats["allocated_bytes.all.current"] == figures["live_bytes"]
    assert stats["allocated_bytes.all.peak"] == figures["peak_live_bytes"]
    assert stats["reserved_bytes.all.current"] == figures["reserved_bytes"]
    assert stats["requested_bytes.all.current"] == sum(tensor.numel() for tensor in kept)
    assert stats["allocation.small_pool.current"] == len(kept)
    assert figures["max_bytes"] == 1 << 30
    assert torch.cuda.memory_allocated() == figures["live_bytes"]
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == figures["live_bytes"]
    assert tidepool_torch.statistics()["peak_live_bytes"] == figures["live_bytes"]
    torch.cuda.reset_accumulated_memory_stats()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == 0
    assert "Active memory" in torch.cuda.memory_summary()
    assert torch.cuda.get_allocator_backend() == "tidepool"
    kept.clear()
    assert torch.cuda.memory_allocated() == 0
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0


def snapshots_hold_blocks_and_history():
    tidepool_torch.enable()
    torch.cuda.memory._record_memory_history(max_entries=100, stacks="python")
    kept = [empty(n * MIB) for n in range(1, 9)]
    del kept[2]
    snapshot = torch.cuda.memory._snapshot()
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    live = [block for block in blocks if block["state"] == "active_allocated"]
    assert sorted(block["requested_size"] for block in live) == sorted(t.numel() for t in kept)
    assert {block["address"] for block in live} == {tensor.data_ptr() for tensor in kept}
    assert all(block["frames"] for block in live)
    assert any("torch_test.py" in frame["filename"] for frame in live[0]["frames"])
    actions = [entry["action"] for entry in snapshot["device_traces"][0]]
    assert actions.count("alloc") == 8 and actions.count("free_completed") == 1
    assert sum(segment["total_size"] for segment in snapshot["segments"]) == torch.cuda.memory_reserved()
    torch.cuda.memory._record_memory_history(max_entries=3)
    del kept[:]
    assert len(torch.cuda.memory._snapshot()["device_traces"][0]) == 3, "a full history forgets"
    torch.cuda.memory._record_memory_history(enabled=None)
    empty(5)
    assert torch.cuda.memory._snapshot()["device_traces"][0] == []


def notes_on_memory_are_in_the_history():
    tidepool_torch.enable()
    torch.cuda.memory._record_memory_history(max_entries=100, stacks="python")
    torch.cuda.memory._set_memory_metadata("the weights")
    kept = empty(1000)
    torch.cuda.memory._set_memory_metadata("")
    if hasattr(torch.cuda.memory, "_annotate_memory"):  # PyTorch 2.15
        assert torch._C._cuda_memoryMetadataSupported()
        torch._C._cuda_annotateMemory(kept.data_ptr(), "noted later")
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    assert trace[0]["user_metadata"] == "the weights", trace
    if hasattr(torch.cuda.memory, "_annotate_memory"):
        assert trace[1]["action"] == "annotate" and trace[1]["user_metadata"] == "noted later", trace


def tools_read_snapshots_and_traces():
    tidepool_torch.enable(recording=True)
    with tempfile.TemporaryDirectory() as folder:
        torch.cuda.memory._record_memory_history(max_entries=100000, stacks="python")
        with tidepool_torch.record(f"{folder}/trace.tide"):
            tidepool_torch.mark("training")
            models.train("mlp", 2)
            count = tidepool_torch.statistics()["allocations"]
        torch.cuda.memory._dump_snapshot(f"{folder}/snapshot.pickle")
        for file in ("snapshot.pickle", "trace.tide") if TOOL else ():
            done = subprocess.run([TOOL, "info", "--json", f"{folder}/{file}"], capture_output=True,
                                  text=True, check=True, env={})
            assert json.loads(done.stdout)["trace"]["allocations"] == count, done.stdout
        assert os.path.getsize(f"{folder}/trace.tide") > 1000


# Streams ------------------------------------------------------------------------------------------


def busy_streams_keep_their_memory():
    os.environ["CUDART_HOST_KERNEL_NANOSECONDS"] = "100000000"
    tidepool_torch.enable(budget="64MiB", memory="segments")
    side = torch.cuda.Stream()
    shared = empty(8 * MIB)
    address = shared.data_ptr()
    with torch.cuda.stream(side):
        shared.fill_(1)  # busy
    shared.record_stream(side)
    del shared
    after = empty(8 * MIB)
    waits = tidepool_torch.statistics()["stream_waits"]
    assert after.data_ptr() != address or waits > 0, "the default stream has to wait for the kernel"
    torch.cuda.synchronize()


def threads_share_the_pool():
    tidepool_torch.enable()

    def work(index):
        with torch.cuda.stream(torch.cuda.Stream()):
            for i in range(100):
                x = torch.empty((index + 1) * 100003 + i, device="cuda")
                y = x + 1
                y.record_stream(torch.cuda.default_stream())

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 800
    assert torch.cuda.memory_allocated() == tidepool_torch.statistics()["live_bytes"] == 0


def _new_stream():
    """Returns a stream of another library."""
    stream = ctypes.c_void_p()
    assert ctypes.CDLL("libcudart.so.13").cudaStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
    return torch.cuda.ExternalStream(stream.value)


def destroy(stream):
    assert ctypes.CDLL("libcudart.so.13").cudaStreamDestroy(ctypes.c_void_p(stream.cuda_stream)) == 0


def streams_of_others_may_end():
    tidepool_torch.enable(budget="64MiB")

    def allocate_and_free(stream):
        with torch.cuda.stream(stream):
            return empty(40 * MIB).data_ptr()

    def allocate_raw(stream):
        torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(40 * MIB, 0, stream))

    def allocate_raw_by_number(stream):
        torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(40 * MIB, 0, stream.cuda_stream))

    def record(stream):
        empty(40 * MIB).record_stream(stream)

    for use in (allocate_and_free, allocate_raw, allocate_raw_by_number, record):
        stream = _new_stream()
        use(stream)
        destroy(stream)
        assert empty(40 * MIB).numel() == 40 * MIB
        with torch.cuda.stream(torch.cuda.Stream()):
            assert empty(40 * MIB).numel() == 40 * MIB


def two_devices():
    os.environ["CUDART_HOST_DEVICES"] = "2"
    tidepool_torch.enable()
    a = torch.arange(1000., device="cpu").to("cuda:1")
    assert torch.cuda.memory_allocated(0) == 0 and torch.cuda.memory_allocated(1) == 4096
    b = a.to("cuda:0")
    assert torch.equal(b.cpu(), torch.arange(1000.))
    with torch.cuda.device(1):
        del a
        c = empty(5)
    assert c.device.index == 1
    assert tidepool_torch.statistics(1)["frees"] == 1 and tidepool_torch.statistics(0)["frees"] == 0
    raises(RuntimeError, "", lambda: torch.empty(1, device="cuda:2"))


# Pinned memory ------------------------------------------------------------------------------------


def pinned_memory_has_exact_sizes():
    tidepool_torch.enable(pinned="64MiB")
    torch.cuda.init()
    a = torch.empty(5 * MIB + 1, dtype=torch.uint8, pin_memory=True)
    assert a.is_pinned()
    stats = torch.cuda.host_memory_stats()
    assert stats["active_bytes.current"] == 5 * MIB + 1 and stats["active_requests.current"] == 1, stats
    raises(RuntimeError, "tidepool", lambda: torch.empty(100 * MIB, dtype=torch.uint8, pin_memory=True))
    del a
    assert torch.cuda.host_memory_stats()["active_bytes.current"] == 0
    numbers = torch.arange(100000.)
    for batch in torch.utils.data.DataLoader(numbers, batch_size=1000, pin_memory=True):
        assert batch.is_pinned() and torch.equal(batch.cuda(non_blocking=True).cpu(), batch)
    del batch
    torch._C._host_emptyCache()
    assert torch.cuda.host_memory_stats()["allocated_bytes.current"] == 0


def pinned_memory_is_in_snapshots():
    record = torch.cuda.memory._record_memory_history_impl
    if "record_pinned_host_memory" not in inspect.signature(record).parameters:
        return  # an older PyTorch
    tidepool_torch.enable(pinned="1GiB")
    torch.cuda.init()
    torch.cuda.memory._record_memory_history(max_entries=100, stacks="python", record_pinned_host_memory=True)
    kept = [torch.empty(n * 1000, dtype=torch.uint8, pin_memory=True) for n in range(1, 6)]
    freed = kept.pop(2).data_ptr()
    snapshot = torch.cuda.memory._snapshot()
    segments = {segment["address"]: segment for segment in snapshot["host_segments"]}
    assert set(segments) == {tensor.data_ptr() for tensor in kept}, segments
    assert all(segments[tensor.data_ptr()].get("total_size", segments[tensor.data_ptr()].get("size")) == tensor.numel()
               for tensor in kept), segments
    entries = [entry for entry in snapshot["host_traces"] if entry["addr"] == freed]
    assert [entry["action"] for entry in entries] == ["alloc", "free_requested", "free_completed"], entries
    assert any("torch_test.py" in frame["filename"] for frame in entries[0]["frames"]), entries[0]
    assert len(snapshot["host_traces"]) == 7
    torch.cuda.memory._record_memory_history(enabled=None)
    del kept[:]
    snapshot = torch.cuda.memory._snapshot()
    assert len(snapshot["host_traces"]) in (0, 7) and snapshot["host_segments"] == []


def pinned_memory_waits_for_copies():
    os.environ["CUDART_HOST_COPY_BYTES_PER_SECOND"] = "1e7"
    tidepool_torch.enable(pinned=True)
    source = torch.full((MIB,), 7, dtype=torch.uint8).pin_memory()
    address = source.data_ptr()
    target = source.to("cuda", non_blocking=True)  # takes a tenth of a second
    del source
    other = torch.full((MIB,), 9, dtype=torch.uint8).pin_memory()
    assert other.data_ptr() != address, "the copy still reads it"
    assert target.cpu()[MIB - 1] == 7
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        target.copy_(other, non_blocking=True)
    kept = other.data_ptr()
    del other
    fresh = [torch.empty(MIB, dtype=torch.uint8).pin_memory() for _ in range(5)]
    assert kept not in {tensor.data_ptr() for tensor in fresh}, "the graph reads it at each launch"
    graph.replay()
    torch.cuda.synchronize()
    assert target.cpu()[0] == 9


def pinned_memory_waits_for_copies_of_other_devices():
    os.environ["CUDART_HOST_DEVICES"] = "2"
    os.environ["CUDART_HOST_COPY_BYTES_PER_SECOND"] = "1e7"
    tidepool_torch.enable(pinned=True)
    stand_in = ctypes.CDLL("libcudart.so.13")
    stream = torch.cuda.Stream("cuda:1")
    for faulty in (None, b"cudaEventCreateWithFlags", b"cudaEventRecord"):
        for current in (stream, torch.cuda.default_stream("cuda:1")):
            source = torch.full((MIB,), 7, dtype=torch.uint8).pin_memory()
            with torch.cuda.device(1), torch.cuda.stream(current):
                target = source.to("cuda:1", non_blocking=True)  # takes a tenth of a second
            stand_in.cudartHostFailCall(faulty, ctypes.c_longlong(0 if faulty is None else 1), 2)
            del source
            other = torch.full((MIB,), 9, dtype=torch.uint8).pin_memory()
            torch.cuda.synchronize(1)
            assert (target.cpu() == 7).all(), (faulty, current)
            del other


# Out of memory ------------------------------------------------------------------------------------


def memory_runs_out_and_comes_back():
    tidepool_torch.enable(budget="256MiB")
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *values: seen.append(values))
    kept = [empty(100 * MIB)]
    raises(torch.OutOfMemoryError, "CUDA out of memory. Tried to allocate 200.00 MiB",
           lambda: empty(200 * MIB))
    raises(torch.OutOfMemoryError, "tidepool", lambda: empty(1 << 40))
    assert [values[1] for values in seen] == [200 * MIB, 1 << 40], seen  # the bytes asked for, as PyTorch passes them
    stats = torch.cuda.memory_stats()
    assert stats["num_ooms"] == 2 and stats["num_alloc_retries"] == 2
    kept.clear()
    kept.append(empty(200 * MIB))
    assert torch.cuda.memory_allocated() == 200 * MIB


def memory_is_awaited_once():
    tidepool_torch.enable(budget="64MiB", wait="1s")
    kept = [empty(40 * MIB)]
    begin = time.monotonic()
    raises(torch.OutOfMemoryError, "CUDA out of memory", lambda: empty(40 * MIB))
    assert 0.9 < time.monotonic() - begin < 1.9
    assert tidepool_torch.statistics()["failures"] == 1 and torch.cuda.memory_stats()["num_ooms"] == 1
    # There is a second try with the memory that a MemPool gives back.
    kept.clear()
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        empty(40 * MIB)
    del pool
    assert empty(40 * MIB).numel() == 40 * MIB


def a_step_that_runs_out_can_be_repeated_smaller():
    tidepool_torch.enable(budget="64MiB")
    raises(torch.OutOfMemoryError, "CUDA out of memory", lambda: models.train("resnet18", 1))
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() == torch.cuda.memory_reserved() == 0
    models.train("mlp", 2)


def fractions_limit_memory():
    tidepool_torch.enable(budget="1GiB")
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(100 * MIB / total)
    assert abs(torch.cuda.get_per_process_memory_fraction() - 100 * MIB / total) < 1e-9
    kept = empty(90 * MIB)
    raises(torch.OutOfMemoryError, "memory fraction", lambda: empty(20 * MIB))
    torch.cuda.set_per_process_memory_fraction(1.0)
    del kept
    empty(200 * MIB)


# Graphs and pools of memory -----------------------------------------------------------------------


def graphs_keep_their_memory():
    tidepool_torch.enable()
    x = torch.arange(1000.).cuda()
    warm = [torch.empty(n * 1000, device="cuda") for n in range(5)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inside = torch.empty(1000, device="cuda")
        inside.copy_(x)
        again = inside.clone()
        del inside
        later = again.clone()
        del warm  # memory of before, freed in the capture
    address = later.data_ptr()
    others = [torch.empty(1000, device="cuda") for _ in range(100)]
    assert address not in {tensor.data_ptr() for tensor in others}
    for value in (1., 2.):
        x.copy_(torch.full((1000,), value))
        graph.replay()
        torch.cuda.synchronize()
        assert later.cpu()[7] == value
    pools = {segment["segment_pool_id"] for segment in torch.cuda.memory._snapshot()["segments"]}
    assert len(pools) == 2, pools
    reserved = torch.cuda.memory_reserved()
    del graph, again, later, others
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < reserved


def graphs_of_training_steps_share_a_pool():
    tidepool_torch.enable()
    pool = torch.cuda.graph_pool_handle()
    x = torch.arange(4096.).cuda()
    graphs = []
    for _ in range(3):
        graphs.append(torch.cuda.CUDAGraph())
        side = torch.cuda.Stream()
        with torch.cuda.graph(graphs[-1], pool=pool):
            y = x.clone()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                z = y.clone()
                y.record_stream(side)
            torch.cuda.current_stream().wait_stream(side)
            del y
            w = z.clone()
            z.record_stream(torch.cuda.current_stream())
            del z
    for graph in graphs:
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(w.cpu(), torch.arange(4096.))
    module = torch.nn.Linear(64, 64).cuda()
    called = torch.cuda.make_graphed_callables(module, (torch.randn(8, 64).cuda(),))
    called(torch.randn(8, 64).cuda()).sum().backward()


def checkpoints_of_graph_pools_go_back():
    tidepool_torch.enable()
    pool = torch.cuda.graph_pool_handle()
    stream = torch.cuda.Stream()
    device = torch.cuda.current_device()

    def addresses(tensors):
        return [tensor.untyped_storage()._cdata for tensor in tensors]

    with torch.cuda.stream(stream):
        torch._C._cuda_beginAllocateCurrentStreamToPool(device, pool)
        first = [empty(1000), empty(3 * MIB)]
        state = torch._C._cuda_getCheckpointState(device, pool)
        live = {tensor.data_ptr() for tensor in first}
        assert torch._C._cuda_checkPoolLiveAllocations(device, pool, live)
        second = empty(5000)
        assert not torch._C._cuda_checkPoolLiveAllocations(device, pool, live)
        assert second.data_ptr() not in live
        torch._C._cuda_setCheckpointPoolState(device, state, addresses([*first, second]), [])
        assert torch._C._cuda_checkPoolLiveAllocations(device, pool, live)
        again = empty(5000)
        assert again.data_ptr() == second.data_ptr(), "its memory was free in the checkpoint"
        torch._C._cuda_endAllocateToPool(device, pool)
    torch._C._cuda_releasePool(device, pool)
    os._exit(0)  # the tensors of before the checkpoint no longer own their memory


def mem_pools_keep_their_memory():
    tidepool_torch.enable()
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = [empty(n * MIB) for n in (1, 30, 4)]
    outside = empty(5 * MIB)
    segments = pool.snapshot()
    ranges = [(s["address"], s["address"] + s["total_size"]) for s in segments]
    assert all(any(a <= t.data_ptr() < b for a, b in ranges) for t in inside)
    assert not any(a <= outside.data_ptr() < b for a, b in ranges)
    addresses = {tensor.data_ptr() for tensor in inside}
    inside.clear()
    with torch.cuda.use_mem_pool(pool):
        assert empty(30 * MIB).data_ptr() in addresses
    assert pool.use_count() == 1
    reserved = torch.cuda.memory_reserved()
    del pool
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < reserved


def mem_pools_of_other_devices_keep_their_memory():
    os.environ["CUDART_HOST_DEVICES"] = "2"
    tidepool_torch.enable()
    stand_in = ctypes.CDLL("libcudart.so.13")
    stream = torch.cuda.Stream("cuda:1")
    pool = torch.cuda.MemPool()

    def use():
        with torch.cuda.use_mem_pool(pool, device="cuda:1"):
            tensors = [torch.empty(MIB, dtype=torch.uint8, device="cuda:1") for _ in range(4)]
            for tensor in tensors:
                tensor.record_stream(stream)
            addresses = {tensor.data_ptr() for tensor in tensors}
            del tensors, tensor
        torch.cuda.synchronize(1)
        return addresses

    addresses = use()
    assert use() == addresses, "the memory is given out again"
    # An event cannot be recorded: a later call frees the memory.
    for call in (b"cudaEventCreateWithFlags", b"cudaEventRecord"):
        stand_in.cudartHostFailCall(call, ctypes.c_longlong(2), 2)
        use()
        torch.cuda.synchronize(1)
        use()
    assert use() == addresses, "nothing is lost"


def streams_end_after_their_work_in_a_mem_pool():
    """The stand-in ends a process that names a destroyed stream."""
    tidepool_torch.enable(budget="256MiB")
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        made_on, recorded = _new_stream(), _new_stream()
        with torch.cuda.stream(made_on):
            tensor = empty(30 * MIB)
        tensor.record_stream(recorded)
        tensor.record_stream(torch.cuda.default_stream())
        address = tensor.data_ptr()
        del tensor
        destroy(recorded)
        destroy(made_on)
        assert empty(30 * MIB).data_ptr() != address, "memory of another stream"
        torch.cuda.synchronize()
        assert empty(MIB).numel() == MIB
    del pool
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0


def streams_end_after_frees_in_a_capture():
    tidepool_torch.enable()
    made_on, captures = _new_stream(), torch.cuda.Stream()
    with torch.cuda.stream(made_on):
        tensor = empty(30 * MIB)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(captures):
        graph.capture_begin()
        tensor.record_stream(captures)
        del tensor
        destroy(made_on)
        graph.capture_end()
    graph.replay()
    assert tidepool_torch.statistics()["live_bytes"] < MIB


@contextlib.contextmanager
def captured(mode="global"):
    """A capture on a stream of its own. torch.cuda.graph would give all free memory back before."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin(capture_error_mode=mode)
        yield graph
        graph.capture_end()


def captures_outlive_streams_that_end():
    """Only a record of all streams can hand over the memory of a destroyed one, and no capture survives that."""
    tidepool_torch.enable(budget="64MiB")
    stream = _new_stream()
    with torch.cuda.stream(stream):
        empty(40 * MIB)
    destroy(stream)
    with captured() as graph:
        inside = empty(40 * MIB)
    graph.replay()
    assert inside.numel() == 40 * MIB


def captures_outlive_a_lack_of_memory():
    """Memory of graphs that are gone goes back after a wait for the device, which no capture survives."""
    tidepool_torch.enable(budget="100MiB", pinned=True)
    pinned = torch.empty(MIB, dtype=torch.uint8).pin_memory()
    target = empty(MIB)
    with captured() as gone:
        inside = empty(40 * MIB)
        target.copy_(pinned, non_blocking=True)
    del inside, pinned
    with captured() as graph:
        del gone
        raises(torch.OutOfMemoryError, "CUDA out of memory", lambda: empty(80 * MIB))
        torch.cuda.empty_cache()
        target.zero_()
    graph.replay()
    assert empty(80 * MIB).numel() == 80 * MIB
    torch._C._host_emptyCache()
    assert torch.cuda.host_memory_stats()["allocated_bytes.current"] == 0


def captures_outlive_pinned_memory_of_other_threads():
    tidepool_torch.enable(pinned="64MiB")
    torch.cuda.init()
    target = empty(MIB)

    def pin():
        assert torch.empty(MIB, dtype=torch.uint8, pin_memory=True).is_pinned()

    with captured():
        for work in (pin, torch._C._host_emptyCache):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        target.zero_()


def benchmarks_of_cudnn_ask_for_the_largest_block():
    tidepool_torch.enable(budget="1GiB")
    torch.backends.cudnn.benchmark = True
    models.train("resnet18", 1)
    assert torch._C._cuda_getAllocatorBackend() == "tidepool"


def regions_have_a_pool_of_their_own():
    pool = tidepool_torch.MemPool(budget="256MiB")
    with torch.cuda.use_mem_pool(pool):
        inside = [empty(n * MIB) for n in (1, 30, 50)]
        raises(torch.OutOfMemoryError, "", lambda: empty(400 * MIB))
    outside = empty(400 * MIB)
    ranges = [(s["address"], s["address"] + s["total_size"]) for s in pool.snapshot()]
    assert all(any(a <= t.data_ptr() < b for a, b in ranges) for t in inside)
    assert outside.numel() == 400 * MIB and not tidepool_torch.is_enabled()
    raises(RuntimeError, "was called before", lambda: tidepool_torch.MemPool(budget="1GiB"))
    assert tidepool_torch.MemPool(budget="256MiB").id != pool.id


def errors_of_regions_are_told():
    pool = tidepool_torch.MemPool(budget="256MiB")
    empty(1)
    graph = torch.cuda.CUDAGraph()

    def capture():
        with torch.cuda.graph(graph), torch.cuda.use_mem_pool(pool):
            empty(MIB)

    raises(RuntimeError, "tidepool: the stream captures a graph", capture)


# Memory that sleeps -------------------------------------------------------------------------------


def contents_and_addresses_outlast_a_sleep():
    tidepool_torch.enable(budget="64MiB")
    numbers = torch.arange(6 * MIB, dtype=torch.float32)
    with tidepool_torch.region("weights"):
        weights = numbers.cuda()
        with tidepool_torch.region("scratch"):
            scratch = empty(MIB)
        bias = (numbers[:1000] + 1).cuda()
    outside = (numbers[:1000] + 2).cuda()
    address = weights.data_ptr()
    assert set(tidepool_torch.regions()) == {"weights", "scratch"}
    assert tidepool_torch.statistics()["live_count"] == 1
    assert torch.cuda.memory_stats()["allocation.all.current"] == 4
    tidepool_torch.pause("weights")
    raises(RuntimeError, "sleeps already", lambda: tidepool_torch.pause("weights"))
    figures = tidepool_torch.regions()["weights"]
    assert figures["is_asleep"] and figures["reserved_bytes"] == 0, figures
    assert figures["host_bytes"] >= 24 * MIB, figures
    cache = torch.zeros(12 * MIB, dtype=torch.float32).cuda()
    raises(torch.OutOfMemoryError, "sleeps on", lambda: tidepool_torch.resume("weights"))
    del cache
    tidepool_torch.resume("weights")
    assert weights.data_ptr() == address
    assert torch.equal(weights.cpu(), numbers) and torch.equal(bias.cpu(), numbers[:1000] + 1)
    assert torch.equal(outside.cpu(), numbers[:1000] + 2)
    figures = tidepool_torch.regions()["weights"]
    assert not figures["is_asleep"] and figures["copied_in_bytes"] > 0, figures
    del weights, bias, scratch
    assert tidepool_torch.regions()["weights"]["live_bytes"] == 0
    tidepool_torch.pause("scratch", "discard")
    tidepool_torch.resume("scratch")
    raises(RuntimeError, "no region", lambda: tidepool_torch.pause("cache"))
    raises(ValueError, "expected one of host, discard, compressed, disk; do not pause a region that shall keep its memory",
           lambda: tidepool_torch.pause("weights", "keep"))
    raises(ValueError, "1 to 255 bytes", lambda: tidepool_torch.region("").__enter__())


def a_graph_reads_a_region_that_slept():
    tidepool_torch.enable(budget="64MiB")
    numbers = torch.arange(5 * MIB, dtype=torch.float32)
    with tidepool_torch.region("weights"):
        weights = numbers.cuda()
    result = torch.zeros(5 * MIB, dtype=torch.float32).cuda()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result.copy_(weights)
        raises(RuntimeError, "captures a graph: pause it before the capture or after it", lambda: tidepool_torch.pause("weights"))
    for mode, folder in (("host", None), ("compressed", None), ("disk", tempfile.gettempdir())):
        tidepool_torch.pause("weights", mode, folder=folder)
        other = torch.full((10 * MIB,), 3, dtype=torch.float32).cuda()  # in the memory of the weights
        del other
        tidepool_torch.resume("weights")
        result.zero_()
        graph.replay()
        assert torch.equal(result.cpu(), numbers), mode
    assert tidepool_torch.regions()["weights"]["copied_in_bytes"] >= 30 * MIB


def layers_await_their_contents():
    tidepool_torch.enable(budget="64MiB")
    with tidepool_torch.region("weights"):
        model = torch.nn.Sequential(*[torch.nn.Linear(1000, 1000) for _ in range(6)]).cuda()
    before = [parameter.detach().cpu() for parameter in model.parameters()]
    tidepool_torch.pause("weights")
    cache = torch.zeros(15 * MIB, dtype=torch.float32).cuda()
    del cache
    raises(RuntimeError, "sleeps: resume it", lambda: tidepool_torch.await_contents(model.parameters()))
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        tidepool_torch.resume("weights")
    after = []
    for module in model.modules():
        module.register_forward_pre_hook(lambda module, _: tidepool_torch.await_contents(module.parameters(recurse=False)))
        module.register_forward_pre_hook(lambda module, _: after.extend(p.detach().clone() for p in module.parameters(recurse=False)))
    model(torch.zeros(1, 1000, device="cuda"))
    assert all(torch.equal(a, b.cpu()) for a, b in zip(before, after)) and len(after) == 12
    tidepool_torch.await_contents([torch.zeros(1), torch.zeros(1, device="cuda")])
    side.synchronize()


def regions_have_bounds():
    tidepool_torch.enable(budget="64MiB")
    tidepool_torch.limit_region("cache", least="16MiB", most="32MiB")
    figures = tidepool_torch.regions()["cache"]
    assert (figures["least_bytes"], figures["most_bytes"]) == (16 * MIB, 32 * MIB), figures
    with tidepool_torch.region("cache"):
        cache = empty(8 * MIB)
        raises(torch.OutOfMemoryError, "tidepool_limit_region", lambda: empty(32 * MIB))
    weights = empty(44 * MIB)
    raises(torch.OutOfMemoryError, "it keeps room for their least", lambda: empty(8 * MIB))
    with tidepool_torch.region("cache"):
        more = empty(8 * MIB)
    raises(RuntimeError, "was not limited: it holds", lambda: tidepool_torch.limit_region("cache", most="8MiB"))
    raises(torch.OutOfMemoryError, "was not limited", lambda: tidepool_torch.limit_region("cache", least="40MiB"))
    raises(ValueError, "most: ", lambda: tidepool_torch.limit_region("cache", most="many"))
    del cache, more, weights
    tidepool_torch.limit_region("cache")
    assert tidepool_torch.regions()["cache"]["most_bytes"] is None
    with tidepool_torch.region("cache"):
        assert empty(60 * MIB).numel() > 0


# An engine of another process, which has the device's memory until it sees that others want some.
ENGINE = """
import sys, torch, tidepool.torch
tidepool.torch.enable(budget="64MiB", shared_budget=sys.argv[1])
with tidepool.torch.region("kv_cache"):
    cache = torch.ones(48 << 20, dtype=torch.uint8).cuda()
print("has", flush=True)
while tidepool.torch.take_wanted_by_others() == 0:
    pass
tidepool.torch.pause("kv_cache")
tidepool.torch.trim()
sys.stdin.readline()
tidepool.torch.resume("kv_cache")
assert cache.cpu().eq(1).all()
"""


def processes_share_a_budget():
    path = tempfile.mkdtemp() + "/budget"
    with subprocess.Popen([sys.executable, "-c", ENGINE, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as engine:
        assert engine.stdout.readline() == "has\n"
        tidepool_torch.enable(budget="64MiB", shared_budget=path, wait="60s")
        states = empty(40 * MIB)  # waits until the engine sleeps
        raises(torch.OutOfMemoryError, "raise option 'budget'", lambda: empty(80 * MIB))
        assert tidepool_torch.take_wanted_by_others() == 0
        del states
        tidepool_torch.trim()
        engine.communicate("\n")
    assert engine.returncode == 0


def functions_make_room_before_a_refusal():
    tidepool_torch.enable(budget="64MiB")
    kept, asked, outside = [empty(20 * MIB), empty(20 * MIB)], [], []

    def give_back(request):
        asked.append((request.bytes, request.tag, request.attempt))
        kept[:] = kept[1:]
        return True

    with tidepool_torch.on_out_of_memory(give_back):
        with tidepool_torch.region("states"):
            states = empty(30 * MIB)
    assert asked == [(30 * MIB, "states", 1)] and len(kept) == 1, asked
    # On a thread of autograd.
    parameter = torch.zeros(MIB, device="cuda", requires_grad=True)
    loss = (parameter * torch.ones(MIB, device="cuda")).sum()
    filled = []
    with contextlib.suppress(torch.OutOfMemoryError):
        while True:
            filled.append(empty(MIB))
    asked.clear()
    with tidepool_torch.on_out_of_memory(give_back):
        loss.grad_fn.register_prehook(lambda gradients: outside.append(threading.get_ident()))
        loss.backward()
    assert asked == [(4 * MIB, None, 1)] and outside[0] != threading.get_ident(), (asked, outside)
    assert parameter.grad is not None and len(filled) > 0 and states.numel() == 30 * MIB
    asked.clear()
    raises(torch.OutOfMemoryError, "tidepool", lambda: empty(60 * MIB))
    assert not asked


def functions_make_room_for_tensors_that_would_wait():
    tidepool_torch.enable(budget="64MiB", wait="inf")
    kept, asked = [empty(20 * MIB), empty(20 * MIB)], []

    def give_back(request):
        raises(torch.OutOfMemoryError, "tidepool", lambda: empty(60 * MIB))  # it does not wait
        asked.append(request.attempt)
        if len(asked) > 1:
            del kept[0]
        return len(asked) > 1

    with tidepool_torch.on_out_of_memory(give_back), tidepool_torch.region("states"):
        states = empty(60 * MIB)
    assert asked[0] == 1 and len(asked) == 3 and not kept, asked
    assert states.numel() == 60 * MIB


def a_function_of_one_region_may_begin_others():
    tidepool_torch.enable(budget="64MiB")
    with tidepool_torch.region("weights"):
        weights = empty(40 * MIB)

    def give_back(request):
        assert request.tag == "kv_cache", request
        with contextlib.ExitStack() as regions:
            for tag in "abcdefgh":
                regions.enter_context(tidepool_torch.region(tag))
            small = empty(1)
            tidepool_torch.pause("weights")
        return small.numel() == 1

    torch.cuda.memory._record_memory_history()
    with tidepool_torch.on_out_of_memory(give_back, tag="kv_cache"), tidepool_torch.region("kv_cache"):
        cache = empty(40 * MIB)
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    assert [event["user_metadata"] for event in events if event["size"] == 40 * MIB] == ['region "kv_cache"'], events
    assert tidepool_torch.regions()["kv_cache"]["live_bytes"] == 40 * MIB
    raises(torch.OutOfMemoryError, "tidepool", lambda: empty(60 * MIB))
    del cache
    tidepool_torch.resume("weights")
    assert weights.numel() == 40 * MIB


def functions_that_fail_or_end_make_no_room():
    tidepool_torch.enable(budget="64MiB")
    logged, kept = [], empty(40 * MIB)
    handler = logging.Handler()
    handler.emit = logged.append
    logging.getLogger("tidepool").addHandler(handler)

    def fail(request):
        raises(torch.OutOfMemoryError, "tidepool", lambda: empty(50 * MIB))  # which does not call it again
        raise KeyError("no cache")

    with tidepool_torch.on_out_of_memory(fail):
        raises(torch.OutOfMemoryError, "tidepool", lambda: empty(40 * MIB))
    assert logged and all(record.exc_info[0] is KeyError for record in logged), logged
    assert "is refused" in logged[0].getMessage()

    maker = tidepool_torch.on_out_of_memory(lambda request: maker.remove() or True)
    raises(torch.OutOfMemoryError, "tidepool", lambda: empty(40 * MIB))
    maker.remove()

    inside, may_leave, order = threading.Event(), threading.Event(), []

    def wait(request):
        inside.set()
        may_leave.wait()
        order.append("left")
        return False

    maker = tidepool_torch.on_out_of_memory(wait)
    asking = threading.Thread(target=lambda: raises(torch.OutOfMemoryError, "tidepool", lambda: empty(40 * MIB)))
    asking.start()
    inside.wait()
    ending = threading.Thread(target=lambda: (maker.remove(), order.append("ended")))
    ending.start()
    may_leave.set()
    asking.join()
    ending.join()
    assert order in (["left", "ended"], ["left", "left", "ended"]), order
    raises(TypeError, "expected a function", lambda: tidepool_torch.on_out_of_memory(7))
    raises(ValueError, "a tag of 0 bytes", lambda: tidepool_torch.on_out_of_memory(fail, tag=""))
    assert kept.numel() == 40 * MIB


def reserved_memory_and_its_peak_count_regions():
    tidepool_torch.enable(budget="64MiB")
    with tidepool_torch.region("kv"):
        cache = empty(30 * MIB)
    assert (torch.cuda.memory_reserved(), torch.cuda.max_memory_reserved()) == (30 * MIB, 30 * MIB)
    tidepool_torch.pause("kv", "discard")
    assert (torch.cuda.memory_reserved(), torch.cuda.max_memory_reserved()) == (0, 30 * MIB)
    tidepool_torch.resume("kv")
    outside = empty(20 * MIB)
    del outside
    torch.cuda.empty_cache()
    assert (torch.cuda.memory_reserved(), torch.cuda.max_memory_reserved()) == (30 * MIB, 50 * MIB)
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_reserved() == 30 * MIB and cache.numel() == 30 * MIB


def a_memory_fraction_counts_regions_that_are_awake():
    tidepool_torch.enable(budget="128MiB")
    with tidepool_torch.region("kv"):
        cache = empty(30 * MIB)
    torch.cuda.set_per_process_memory_fraction(32 * MIB / torch.cuda.mem_get_info()[1])
    raises(torch.OutOfMemoryError, "memory fraction", lambda: empty(30 * MIB))
    with tidepool_torch.region("kv"):
        raises(torch.OutOfMemoryError, "memory fraction", lambda: empty(30 * MIB))
    tidepool_torch.pause("kv", "discard")
    assert empty(30 * MIB).numel() == cache.numel()


def a_refusal_counts_regions():
    tidepool_torch.enable(budget="64MiB")
    with tidepool_torch.region("kv"):
        cache = empty(30 * MIB)
        raises(torch.OutOfMemoryError, "tidepool holds 30.00 MiB, of which 30.00 MiB are in use", lambda: empty(40 * MIB))
    assert cache.numel() == 30 * MIB


def contents_of_a_file_may_be_awaited_while_another_thread_resumes_them():
    tidepool_torch.enable(budget="64MiB")
    numbers = torch.arange(8 * MIB, dtype=torch.float32)  # 8 blocks of a file
    with tidepool_torch.region("weights"):
        weights = numbers.cuda()
    tidepool_torch.pause("weights", "disk", folder=tempfile.gettempdir())
    empty(64 * MIB).fill_(255)

    failed = []

    def resume():
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                tidepool_torch.resume("weights")
        except RuntimeError as error:
            failed.append(error)

    thread = threading.Thread(target=resume)
    thread.start()
    while True:
        try:
            tidepool_torch.await_contents([weights])
            break
        except RuntimeError as error:
            assert "sleeps: resume it" in str(error) and not failed, (error, failed)  # it has not begun
    assert torch.equal(weights.cpu(), numbers)
    thread.join()


def contents_sleep_compressed_and_on_a_disk():
    tidepool_torch.enable(budget="64MiB")
    numbers = torch.arange(6 * MIB, dtype=torch.float32)
    with tidepool_torch.region("weights"):
        weights = numbers.cuda()
    for mode, folder in (("compressed", None), ("disk", tempfile.gettempdir())):
        tidepool_torch.pause("weights", mode, folder=folder)
        figures = tidepool_torch.regions()["weights"]
        assert 0 < figures["stored_bytes"] <= 24 * MIB, figures
        assert figures["host_bytes"] < 24 * MIB, figures
        del figures
        cache = torch.zeros(15 * MIB, dtype=torch.float32).cuda()
        del cache
        tidepool_torch.resume("weights")
        assert torch.equal(weights.cpu(), numbers), mode
        assert tidepool_torch.regions()["weights"]["stored_bytes"] == 0
    tidepool_torch.pause("weights", "disk", folder=tempfile.gettempdir())
    tidepool_torch.discard_contents("weights")
    assert tidepool_torch.regions()["weights"]["stored_bytes"] == 0
    tidepool_torch.resume("weights")
    raises(RuntimeError, "does not sleep", lambda: tidepool_torch.discard_contents("weights"))
    raises(ValueError, "expected a folder with mode 'disk'", lambda: tidepool_torch.pause("weights", "disk"))
    raises(ValueError, "and only there", lambda: tidepool_torch.pause("weights", "host", folder="/tmp"))
    raises(ValueError, "the folder /missing takes no file", lambda: tidepool_torch.pause("weights", "disk", folder="/missing"))
    assert not tidepool_torch.regions()["weights"]["is_asleep"]


def an_optimizer_sleeps_while_a_model_generates():
    tidepool_torch.enable(budget="192MiB")
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).cuda()  # 32 MiB
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    x = torch.randn(16, 1024).cuda()

    def step():
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    with tidepool_torch.region("optimizer"):
        step()  # makes the states
    held = tidepool_torch.regions()["optimizer"]["live_bytes"]
    assert held >= 64 * MIB, held
    states = [value for state in optimizer.state.values() for value in state.values() if value.is_cuda]
    expected = [value.cpu() for value in states]
    addresses = [value.data_ptr() for value in states]
    for _ in range(3):
        tidepool_torch.pause("optimizer")
        with torch.no_grad():
            cache = [empty(MIB) for _ in range(150)]  # has no room beside the states
            model(x)
        cache.clear()
        tidepool_torch.resume("optimizer")
        assert all(torch.equal(value.cpu(), old) for value, old in zip(states, expected))
        step()
        expected = [value.cpu() for value in states]
    assert [value.data_ptr() for value in states] == addresses
    assert tidepool_torch.regions()["optimizer"]["pauses"] == 3


def threads_have_regions_of_their_own():
    tidepool_torch.enable(budget="64MiB")
    made = []
    with tidepool_torch.region("weights"):
        thread = threading.Thread(target=lambda: made.append(empty(MIB)))
        thread.start()
        thread.join()
        made.append(empty(MIB))
    made.append(empty(MIB))
    assert tidepool_torch.regions()["weights"]["live_count"] == 1
    raises(RuntimeError, "sleeps: resume it", _sleeping_request)


def _sleeping_request():
    tidepool_torch.pause("weights", "discard")
    with tidepool_torch.region("weights"):
        empty(MIB)


def waiting_tensors_are_served_by_priority():
    tidepool_torch.enable(budget="64MiB", wait="inf")
    with tidepool_torch.region("kv"):
        held = [empty(40 * MIB)]
    served = []

    def take(priority):
        with tidepool_torch.region("kv", priority=priority):
            tensor = empty(40 * MIB)
        served.append(priority)
        del tensor

    threads = []
    for waiting, priority in enumerate((0, 2, 1)):
        threads.append(threading.Thread(target=take, args=(priority,)))
        threads[-1].start()
        while tidepool_torch.regions()["kv"]["blocked"] == waiting:
            pass
    held.clear()
    for thread in threads:
        thread.join()
    assert served == [2, 1, 0], served
    raises(ValueError, "number of 32 bits", lambda: tidepool_torch.region("kv", priority=1 << 31).__enter__())


def a_snapshot_names_regions():
    tidepool_torch.enable(budget="64MiB")
    torch.cuda.memory._record_memory_history(max_entries=100, stacks="python")
    with tidepool_torch.region("weights"):
        weights = empty(1000)
        torch.cuda.memory._set_memory_metadata("of the model")
        bias = empty(1000)
    outside = empty(1000)
    del weights, bias, outside
    allocated = [entry["user_metadata"] for entry in torch.cuda.memory._snapshot()["device_traces"][0] if entry["action"] == "alloc"]
    assert allocated == ['region "weights"', 'of the model, region "weights"', "of the model"], allocated


def registered_tensors_stay_in_place():
    tidepool_torch.enable(budget="64MiB")
    with tidepool_torch.region("comm"):
        buffer = torch.arange(1000).cuda()
    address = hex(buffer.data_ptr())
    with tidepool_torch.registered([buffer, empty(5), torch.empty(3)]):
        with tidepool_torch.registered([buffer[10:20]]):
            raises(RuntimeError, f"7.8 KiB (8000 bytes) at {address}", lambda: tidepool_torch.pause("comm"))
        raises(RuntimeError, "registered by others", lambda: tidepool_torch.pause("comm", "discard"))
        del buffer  # lives until the end of the block
    assert tidepool_torch.regions()["comm"]["live_count"] == 0
    with tidepool_torch.region("comm"):
        buffer = torch.arange(1000).cuda()
    tidepool_torch.pause("comm")
    raises(RuntimeError, "sleeps: resume it", lambda: tidepool_torch.registered([buffer]).__enter__())
    tidepool_torch.resume("comm")
    assert torch.equal(buffer.cpu(), torch.arange(1000))


def an_address_is_described():
    tidepool_torch.enable(budget="64MiB")
    with tidepool_torch.region("weights"):
        weights = empty(4096)
    outside = empty(4096)
    tidepool_torch.pause("weights")
    text = tidepool_torch.describe(weights.data_ptr() + 128)
    assert "is 128 bytes inside an allocation of 4.0 KiB" in text and text.endswith('which sleeps: resume it before work uses it'), text
    assert "0 bytes inside an allocation" in tidepool_torch.describe(outside) and "region" not in tidepool_torch.describe(outside)
    assert "not in this pool" in tidepool_torch.describe(1 << 20)


def regions_need_the_compiled_allocator():
    raises(RuntimeError, "call tidepool.torch.enable() first", lambda: tidepool_torch.region("weights").__enter__())
    tidepool_torch.enable(method="pluggable")
    raises(RuntimeError, "compiled allocator", lambda: tidepool_torch.region("weights").__enter__())


def programs_of_torch_memory_saver_run_unchanged():
    tidepool_torch.enable(budget="64MiB")
    tidepool.memory_saver.install()
    from torch_memory_saver import configure_subprocess, torch_memory_saver as saver

    numbers = torch.arange(4 * MIB, dtype=torch.float32)
    with configure_subprocess(), saver.region("weights", enable_cpu_backup=True):
        weights = numbers.cuda()
        with tidepool_torch.region("inner"), saver.disable():
            outside = (numbers[:1000] + 3).cuda()
        with saver.region("kv_cache"):
            cache = empty(20 * MIB)
        bias = (numbers[:1000] + 1).cuda()
    with saver.region("weights"):
        buffer = empty(MIB)  # the same tag, without a backup
    figures = tidepool_torch.regions()
    assert {name: figure["live_count"] for name, figure in figures.items()} == {
        "weights": 2, "kv_cache (no backup)": 1, "weights (no backup)": 1}, figures
    addresses = [tensor.data_ptr() for tensor in (weights, cache, bias, buffer)]
    saver.pause("weights")
    raises(RuntimeError, "sleeps already", lambda: saver.pause("weights"))
    saver.pause()  # the rest
    assert all(figure["is_asleep"] for figure in tidepool_torch.regions().values())
    assert torch.equal(outside.cpu(), numbers[:1000] + 3)
    other = empty(40 * MIB)
    # Nothing wakes where not all fits.
    raises(torch.OutOfMemoryError, "sleep on", saver.resume)
    assert all(figure["is_asleep"] for figure in tidepool_torch.regions().values())
    del other
    saver.resume("kv_cache")
    raises(RuntimeError, "no memory of the tag 'kv_cache' sleeps", lambda: saver.resume("kv_cache"))
    saver.resume()
    saver.pause("cuda_graph")  # no memory has the tag
    saver.resume("cuda_graph")
    raises(ValueError, "does not end in", lambda: saver.region("x (no backup)").__enter__())
    raises(NotImplementedError, "does not sleep", lambda: saver.cuda_graph(None).__enter__())
    assert addresses == [tensor.data_ptr() for tensor in (weights, cache, bias, buffer)]
    assert torch.equal(weights.cpu(), numbers) and torch.equal(bias.cpu(), numbers[:1000] + 1)


def engines_sleep_by_levels():
    tidepool_torch.enable(budget="64MiB")
    numbers = torch.arange(6 * MIB, dtype=torch.float32)
    with tidepool_torch.region("weights"):
        weights = numbers.cuda()
    with tidepool_torch.region("kv_cache"):
        cache = empty(30 * MIB)
    address = cache.data_ptr()
    for _ in range(3):
        tidepool.memory_saver.sleep(level=1)
        figures = tidepool_torch.regions()
        assert all(figure["is_asleep"] for figure in figures.values())
        assert figures["weights"]["host_bytes"] >= 24 * MIB and figures["kv_cache"]["host_bytes"] == 0, figures
        trained = empty(60 * MIB)
        raises(torch.OutOfMemoryError, "sleep on", tidepool.memory_saver.wake_up)
        del trained
        tidepool.memory_saver.wake_up(["weights"])
        assert torch.equal(weights.cpu(), numbers)
        tidepool.memory_saver.wake_up()
        assert cache.data_ptr() == address
    tidepool.memory_saver.sleep(level=2)
    tidepool.memory_saver.wake_up()
    weights.copy_(numbers)  # loaded again
    assert torch.equal(weights.cpu(), numbers)
    raises(ValueError, "expected 1 or 2", lambda: tidepool.memory_saver.sleep(level=3))


def one_tag_is_no_list_of_its_letters():
    tidepool_torch.enable(budget="64MiB")
    kept = {}
    for tag in ("weights", "w"):
        with tidepool_torch.region(tag):
            kept[tag] = empty(MIB)
    tidepool.memory_saver.sleep(weights="weights")
    assert [figures["host_bytes"] for figures in tidepool_torch.regions().values()] == [MIB, 0]
    tidepool.memory_saver.wake_up("weights")
    assert [figures["is_asleep"] for figures in tidepool_torch.regions().values()] == [False, True]
    tidepool.memory_saver.wake_up("w")
    assert not tidepool_torch.regions()["w"]["is_asleep"]


def a_wake_up_that_fails_keeps_no_contents_that_were_lost():
    tidepool_torch.enable(budget="64MiB")
    kept = {}
    for tag, mib in (("first", 20), ("second", 30)):
        with tidepool_torch.region(tag):
            kept[tag] = empty(mib * MIB)
    tidepool_torch.pause("first")  # leaves page-locked memory
    tidepool_torch.resume("first")
    tidepool.memory_saver.sleep(level=2)
    other = empty(40 * MIB)
    raises(torch.OutOfMemoryError, "sleep on", tidepool.memory_saver.wake_up)
    first = tidepool_torch.regions()["first"]
    assert other.numel() and first["is_asleep"] and first["copied_out_bytes"] == 20 * MIB, first


def _three_regions():
    """Makes two regions that sleep() keeps and one that it loses. Returns their tensors."""
    numbers = torch.arange(2 * MIB, dtype=torch.float32)
    tensors = {}
    for value, tag in enumerate(("first", "second", "cache")):
        with tidepool_torch.region(tag):
            tensors[tag] = (numbers + value).cuda()
    return tensors


def a_sleep_that_fails_leaves_all_awake():
    tidepool_torch.enable(budget="64MiB")
    tensors = _three_regions()
    for tag in tensors:
        with tidepool_torch.registered([tensors[tag]]):
            raises(RuntimeError, "registered by others", lambda: tidepool.memory_saver.sleep(weights=("first", "second")))
        figures = tidepool_torch.regions()
        assert not any(each["is_asleep"] or each["pauses"] or each["copied_out_bytes"] for each in figures.values()), figures
        for value, tensor in enumerate(tensors.values()):
            assert torch.equal(tensor.cpu(), torch.arange(2 * MIB, dtype=torch.float32) + value), tag
    tidepool.memory_saver.sleep()
    tidepool.memory_saver.wake_up()


def several_regions_sleep_and_wake_together():
    tidepool_torch.enable(budget="64MiB")
    tensors = _three_regions()
    asleep = lambda: [tag for tag, figures in tidepool_torch.regions().items() if figures["is_asleep"]]
    raises(RuntimeError, "no region", lambda: tidepool_torch.pause(["first", "third"]))
    raises(ValueError, "in the list twice", lambda: tidepool_torch.pause(["first", "second", "first"]))
    raises(ValueError, "mode 'keep', expected", lambda: tidepool_torch.pause({"first": "host", "second": "keep"}))
    raises(ValueError, "folder None", lambda: tidepool_torch.pause({"first": "host", "second": "disk"}))
    raises(RuntimeError, "does not sleep", lambda: tidepool_torch.resume(["first"]))
    tidepool_torch.pause([])
    tidepool_torch.resume([])
    assert asleep() == []
    tidepool_torch.pause({"first": "disk", "second": "compressed", "cache": "discard"}, folder=tempfile.gettempdir())
    assert asleep() == ["first", "second", "cache"]
    other = empty(60 * MIB)
    raises(torch.OutOfMemoryError, 'regions "second", "cache" sleep on', lambda: tidepool_torch.resume(["second", "cache"]))
    del other
    tidepool_torch.resume(("cache", "first"))
    assert asleep() == ["second"]
    raises(RuntimeError, 'region "second" sleeps already', lambda: tidepool_torch.pause(["first", "second"]))
    assert asleep() == ["second"]
    tidepool_torch.resume(["second"])
    for value, tag in enumerate(("first", "second")):
        assert torch.equal(tensors[tag].cpu(), torch.arange(2 * MIB, dtype=torch.float32) + value), tag


def two_engines_share_one_budget():
    tidepool_torch.enable(budget="64MiB")
    saver = tidepool.memory_saver
    weights, caches = {}, {}
    for value, engine in enumerate(("chat/", "draft/")):
        tidepool_torch.limit_region(engine + "kv_cache", least=4 * MIB, most=24 * MIB)
        with tidepool_torch.region(engine + "weights"):
            weights[engine] = torch.full((8 * MIB,), value, dtype=torch.uint8).cuda()
        with tidepool_torch.region(engine + "kv_cache"):
            caches[engine] = [empty(20 * MIB)]
    with tidepool_torch.region("chat/kv_cache"):
        raises(torch.OutOfMemoryError, "that it may hold", lambda: empty(8 * MIB))
    saver.sleep(prefix="chat/")
    asleep = lambda: [tag for tag, figures in tidepool_torch.regions().items() if figures["is_asleep"]]
    assert sorted(asleep()) == ["chat/kv_cache", "chat/weights"]
    assert tidepool_torch.regions()["chat/weights"]["kept_bytes"] == 8 * MIB and tidepool_torch.regions()["chat/kv_cache"]["kept_bytes"] == 0
    # The other engine has the memory for a while, in its bounds.
    tidepool_torch.limit_region("draft/kv_cache", least=4 * MIB, most=52 * MIB)
    with tidepool_torch.region("draft/kv_cache"):
        caches["draft/"].append(empty(30 * MIB))
    raises(torch.OutOfMemoryError, "sleep on", lambda: saver.wake_up(prefix="chat/"))
    assert sorted(asleep()) == ["chat/kv_cache", "chat/weights"]
    caches["draft/"].pop()
    saver.wake_up("weights", prefix="chat/")
    assert asleep() == ["chat/kv_cache"]
    saver.wake_up(prefix="chat/")
    assert asleep() == [] and tidepool_torch.regions()["draft/weights"]["pauses"] == 0
    for value, engine in enumerate(weights):
        assert torch.equal(weights[engine].cpu(), torch.full((8 * MIB,), value, dtype=torch.uint8)), engine


def memory_savers_with_prefixes_pause_their_own_regions():
    tidepool_torch.enable(budget="64MiB")
    savers = {prefix: tidepool.memory_saver.MemorySaver(prefix) for prefix in ("chat/", "draft/")}
    kept = []
    for saver in savers.values():
        with saver.region("weights", enable_cpu_backup=True):
            kept.append(empty(MIB))
        with saver.region("kv_cache"):
            kept.append(empty(MIB))
    savers["chat/"].pause("kv_cache")
    savers["draft/"].pause()
    assert {tag for tag, figures in tidepool_torch.regions().items() if not figures["is_asleep"]} == {"chat/weights"}
    raises(RuntimeError, "'kv_cache' sleeps already", lambda: savers["chat/"].pause("kv_cache"))
    for saver in savers.values():
        saver.resume()
    assert not any(figures["is_asleep"] for figures in tidepool_torch.regions().values())


def programs_make_a_memory_saver_of_their_own():
    tidepool_torch.enable(budget="64MiB")
    tidepool.memory_saver.install()
    from torch_memory_saver import TorchMemorySaver

    saver = TorchMemorySaver()
    with saver.region("kv_cache"):
        cache = empty(MIB)
    saver.pause("kv_cache")
    saver.resume("kv_cache")
    assert cache.numel() == MIB and tidepool_torch.regions()["kv_cache (no backup)"]["resumes"] == 1


# Other frameworks ---------------------------------------------------------------------------------


def rmm_and_pytorch_have_one_budget():
    if not os.environ.get("TIDEPOOL_RMM_PACKAGES"):
        return  # the script names the folder
    sys.path.append(os.environ["TIDEPOOL_RMM_PACKAGES"])
    import rmm
    import tidepool.rmm

    tidepool_torch.enable(budget="64MiB")
    resource = tidepool.rmm.MemoryResource(0)
    tensor = empty(40 * MIB)
    raises(MemoryError, "", lambda: rmm.DeviceBuffer(size=40 * MIB, mr=resource))
    address = tensor.data_ptr()
    del tensor
    buffer = rmm.DeviceBuffer(size=40 * MIB, mr=resource)
    assert buffer.ptr == address, "it gets the memory that PyTorch freed"
    raises(torch.OutOfMemoryError, "", lambda: empty(40 * MIB))
    other = empty(10 * MIB)
    assert torch.cuda.memory_allocated() == 10 * MIB, "PyTorch counts its own requests"
    assert tidepool_torch.statistics()["live_bytes"] == 50 * MIB
    owners = tidepool_torch.owners()
    assert list(owners) == ["torch", "rmm"] and owners["torch"]["live_bytes"] == 10 * MIB, owners
    assert owners["rmm"]["live_bytes"] == owners["rmm"]["peak_live_bytes"] == 40 * MIB, owners
    del buffer
    assert tidepool_torch.owners()["rmm"]["live_bytes"] == 0
    assert empty(35 * MIB).numel() + other.numel() == 45 * MIB
    raises(ValueError, "cannot be changed", lambda: tidepool.rmm.MemoryResource(0, budget="1GiB"))


def tools_of_nvtx_see_each_tensor():
    path = os.environ.get("TIDEPOOL_NVTX_INJECTION")
    if not path:
        return  # the script names the tool, where it is built
    os.environ["NVTX_INJECTION64_PATH"] = path
    tidepool_torch.enable()
    models.train("mlp", 2)
    gc.collect()
    kept = empty(1000)
    counts = (ctypes.c_int64 * 5)()
    ctypes.CDLL(path).NvtxInjectionCount(counts)
    heaps, live, ever, named, faults = counts
    figures = tidepool_torch.statistics()
    assert heaps > 0 and faults == 0, list(counts)
    assert live == named == figures["live_count"] > 0, (list(counts), figures)
    assert ever == figures["allocations"], (list(counts), figures)
    del kept


def pytorch_comes_first():
    from tidepool import _c_api

    _c_api.shared_pool(0)
    raises(RuntimeError, "has to come first", tidepool_torch.enable)


# The pluggable allocator --------------------------------------------------------------------------


def _train_gpt():
    """Trains a GPT, and returns its allocations and frees."""
    models.train("gpt", 2)
    gc.collect()
    stats = torch.cuda.memory_stats()
    return [stats["allocation.all.allocated"], stats["allocation.all.freed"]]


def pluggable_training_makes_the_same_requests():
    native = in_child(_train_gpt)
    tidepool_torch.enable(method="pluggable")
    assert _train_gpt() == native


def pluggable_answers():
    tidepool_torch.enable(method="pluggable", budget="128MiB")
    kept = [empty(n * 1000) for n in range(1, 100)]
    del kept[::2]
    stats, figures = torch.cuda.memory_stats(), tidepool_torch.statistics()
    assert stats["allocation.all.allocated"] == figures["allocations"] == 99
    assert torch.cuda.memory_allocated() == figures["live_bytes"] > 0
    assert torch.cuda.max_memory_allocated() == figures["peak_live_bytes"]
    assert torch.cuda.memory_reserved() == figures["reserved_bytes"]
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == figures["live_bytes"]
    assert "Active memory" in torch.cuda.memory_summary()
    raises(RuntimeError, "out of memory", lambda: empty(1 << 30))
    raises(RuntimeError, "budget", lambda: torch.cuda.set_per_process_memory_fraction(0.5))
    kept.clear()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0


def pluggable_memory_waits_for_recorded_streams():
    os.environ["CUDART_HOST_KERNEL_NANOSECONDS"] = "100000000"
    tidepool_torch.enable(method="pluggable", budget="16MiB")
    side = torch.cuda.Stream()
    shared = empty(8 * MIB)
    with torch.cuda.stream(side):
        shared.fill_(1)
    shared.record_stream(side)
    address = shared.data_ptr()
    del shared
    after = empty(12 * MIB)
    assert after.data_ptr() <= address < after.data_ptr() + after.numel()
    assert tidepool_torch.statistics()["stream_waits"] > 0
    torch.cuda.synchronize()


def without_a_compiler_the_pluggable_allocator_is_named():
    os.environ["CXX"] = "/no-such-compiler"
    raises(ImportError, "did not compile", tidepool_torch.enable)
    raises(ImportError, 'enable(method="pluggable") needs no compiler', tidepool_torch.enable)
    tidepool_torch.enable(method="pluggable")
    assert empty(5).numel() == 5 and tidepool_torch.statistics()["allocations"] == 1


def an_older_pytorch_is_told_before_the_compiler_fails():
    torch.__version__ = "2.10.1+cu130"
    raises(ImportError, "the allocator needs PyTorch 2.11 or newer, and this is 2.10.1+cu130\nenable(method", tidepool_torch.enable)


def settings_of_pytorchs_own_allocator_are_told_to_have_no_effect():
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "max_split_size_mb:64, expandable_segments: True"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tidepool_torch.enable()
    assert [one.filename for one in caught if "expandable_segments:True has no effect" in str(one.message)] == [__file__], caught


# Wrong use ----------------------------------------------------------------------------------------


def enabling_twice_fails():
    tidepool_torch.enable()
    raises(RuntimeError, "was called already", tidepool_torch.enable)


def enabling_after_cuda_fails():
    torch.empty(1, device="cuda")
    raises(RuntimeError, "too late", tidepool_torch.enable)
    assert not tidepool_torch.is_enabled()


def functions_before_enabling_fail():
    raises(RuntimeError, "call tidepool.torch.enable() first", tidepool_torch.statistics)
    raises(RuntimeError, "call tidepool.torch.enable() first", tidepool_torch.mark_iteration)


def no_device_is_an_error():
    os.environ["CUDART_HOST_DEVICES"] = "0"
    raises(RuntimeError, "no CUDA device", tidepool_torch.enable)


def devices_that_do_not_exist_are_errors():
    os.environ["CUDART_HOST_DEVICES"] = "2"
    tidepool_torch.enable()
    assert empty(1000).device.index == 0
    raises(RuntimeError, "", lambda: torch.empty(1, device="cuda:2"))  # PyTorch's own check
    pool = ctypes.c_void_p()
    for device in (2, -1):
        error = tidepool_torch._backend.library.tidepool_torch_pool(device, ctypes.byref(pool))
        assert error is not None and f"no CUDA device {device}, expected 0 to 1".encode() in error, error
        raises(RuntimeError, "", lambda: torch.cuda.memory_stats(device if device > 0 else -7))
    assert torch.empty(1000, device="cuda:1").device.index == 1


def wrong_options_are_errors():
    raises(ValueError, "budget", lambda: tidepool_torch.enable(budgett="1GiB"))
    raises(ValueError, "lots", lambda: tidepool_torch.enable(budget="lots"))
    raises(ValueError, "best-fit", lambda: tidepool_torch.enable(placement="best-fitt"))
    raises(ValueError, "no-such-plan", lambda: tidepool_torch.enable(plan="/no-such-plan"))
    raises(ValueError, "double quote", lambda: tidepool_torch.enable(plan='a"b'))
    raises(ValueError, "", lambda: tidepool_torch.enable(placement="x" * MIB))
    raises(ValueError, "expected 'compiled'", lambda: tidepool_torch.enable(method="other"))
    assert not tidepool_torch.is_enabled()
    tidepool_torch.enable(budget="1GiB")


def options_are_checked_without_a_pool():
    with tempfile.TemporaryDirectory() as folder:
        options = f"statistics=True, trace='{folder}/given'"
        for call, variable in ((f"enable({options})", ""), (f"MemPool({options})", ""), ("enable()", f"statistics=1,trace={folder}/named")):
            script = f"import torch, tidepool.torch; pool = tidepool.torch.{call}; torch.empty(9, device='cuda')"
            done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], env={**os.environ, "TIDEPOOL_OPTIONS": variable},
                                  capture_output=True, text=True)
            assert done.returncode == 0 and "pool on host" not in done.stderr, done.stderr
        assert sorted(os.listdir(folder)) == ["given.0.tide", "named.0.tide"], os.listdir(folder)
    os.environ["TIDEPOOL_OPTIONS"] = "budgett=1GiB"
    raises(ValueError, "TIDEPOOL_OPTIONS", tidepool_torch.enable)


def recording_without_the_option_fails():
    tidepool_torch.enable()

    def use():
        with tidepool_torch.record("/tmp/never-written.tide"):
            pass

    raises(RuntimeError, "recording", use)


def a_forked_child_is_told():
    tidepool_torch.enable()
    kept = empty(1000)
    with tidepool_torch.region("asleep"):
        sleeping = empty(1000)
    tidepool_torch.pause("asleep", "disk", folder=tempfile.gettempdir())
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        status = 1
        try:
            pool = ctypes.c_void_p()
            error = tidepool_torch._backend.library.tidepool_torch_pool(0, ctypes.byref(pool))
            assert error is not None and b"forked" in error, error
            # PyTorch's own check in Python, and the allocator, which C++ calls without that check.
            raises(RuntimeError, "forked", lambda: empty(1000))
            raises(RuntimeError, "forked after tidepool.torch.enable()",
                   lambda: torch._C._cuda_cudaCachingAllocator_raw_alloc(1000, 0))
            # The guard of the tensor's device asks CUDA, which refuses forked children.
            raises(RuntimeError, "initialization error", lambda: kept.new_empty(1000))
            for call in (lambda: tidepool_torch.resume("asleep"), lambda: tidepool_torch.pause("asleep"),
                         lambda: tidepool_torch.discard_contents("asleep")):
                raises(RuntimeError, "forked", call)
            del kept, sleeping  # belong to the parent
            status = 0
        except BaseException:
            traceback.print_exc()
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    tidepool_torch.resume("asleep")
    assert kept.numel() == sleeping.numel() and torch.cuda.memory_allocated() == 2048


def a_process_that_dies_asleep_leaves_no_file():
    with tempfile.TemporaryDirectory() as folder:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            tidepool_torch.enable(budget="64MiB")
            with tidepool_torch.region("weights"):
                weights = empty(8 * MIB)
            tidepool_torch.pause("weights", "disk", folder=folder)
            os.write(write, b"asleep" if tidepool_torch.regions()["weights"]["stored_bytes"] == weights.numel() else b"awake")
            signal.pause()
        assert os.read(read, 10) == b"asleep"
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        assert os.listdir(folder) == []


def it_needs_no_compiled_module():
    package = pathlib.Path(tidepool_torch.__file__).parent
    copy = pathlib.Path(tempfile.mkdtemp()) / "tidepool"
    copy.mkdir()
    for part in package.iterdir():
        if not part.name.startswith("_native"):
            (copy / part.name).symlink_to(part.resolve())
    script = "import torch, tidepool.torch; tidepool.torch.enable(); print(torch.empty(9, device='cuda').numel())"
    # The path of this process has the package of the build.
    paths = [str(copy.parent), *(path for path in sys.path if path and pathlib.Path(path) != package.parent)]
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], env={**os.environ, "PYTHONPATH": ":".join(paths)},
                          capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "9\n"), done.stderr


def memory_is_not_shared_between_processes():
    tidepool_torch.enable()
    kept = empty(1000)
    raises(RuntimeError, "cannot be sent to another process: send tensor.cpu()", kept.untyped_storage()._share_cuda_)
    assert empty(5).numel() == 5 and kept.numel() == 1000


def memory_of_other_processes_is_opened():
    """PyTorch's own allocator sends a version and a kind before CUDA's handle, and once sent the handle alone."""
    tidepool_torch.enable()
    torch.cuda.init()
    stand_in = ctypes.CDLL("libcudart.so.13")
    stand_in.cudartHostCountCalls.restype = ctypes.c_longlong

    def receive(handle):
        torch.UntypedStorage._new_shared_cuda(0, handle, 512, 0, b"", 0, b"", False)

    for count, handle in enumerate((bytes(64), b"\x01c" + bytes(64), b"\x02c" + bytes(64)), 1):
        raises(RuntimeError, "operation not supported", lambda: receive(handle))  # by the stand-in
        assert stand_in.cudartHostCountCalls(b"cudaIpcOpenMemHandle") == count
    raises(RuntimeError, "expandable segments, expected one of cudaMalloc", lambda: receive(b"\x02e" + bytes(80)))
    raises(RuntimeError, "the handle has 40 bytes, expected 66", lambda: receive(b"\x02c" + bytes(38)))


def threads_may_free_what_others_allocated():
    tidepool_torch.enable()
    kept = [empty(n * 1000) for n in range(1, 101)]
    threads = [threading.Thread(target=kept.pop) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = torch.cuda.memory_stats()
    assert stats["allocation.all.freed"] == 50 and stats["allocation.all.current"] == 50
    assert tidepool_torch.statistics()["live_bytes"] == torch.cuda.memory_allocated()


def observers_may_raise():
    tidepool_torch.enable(budget="64MiB")

    def observe(*_):
        raise KeyError("of the observer")

    torch._C._cuda_attach_out_of_memory_observer(observe)
    raises(Exception, "", lambda: empty(1 << 30))
    assert empty(MIB).numel() == MIB


def a_program_may_end_with_live_tensors():
    tidepool_torch.enable(trace=tempfile.mkdtemp() + "/trace")
    builtins = sys.modules["builtins"]
    builtins.kept = [empty(1000) for _ in range(100)]  # until the interpreter is destroyed


def a_thread_may_free_while_the_program_ends():
    tidepool_torch.enable()
    empty(1)
    pairs = tidepool_torch._backend.library.tidepool_torch_time_pairs  # runs without Python's lock
    threading.Thread(target=pairs, args=(1000, 1 << 40, ctypes.byref(ctypes.c_double())),
                     daemon=True).start()


if __name__ == "__main__":
    isolated.run(isolated.tests_of(globals()))

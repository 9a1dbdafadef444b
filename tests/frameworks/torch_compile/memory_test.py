# SPDX-License-Identifier: Apache-2.0
"""Memory of training in a budget, under `tidepool dryrun`: that of the plans, and at most the budget in every step.

`memory_test.py MODEL BATCH SHARE...` prints a table for one of models.LARGE, with the times of the plans.
"""
import functools
import gc
import os
import pathlib
import re
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import torch
from torch.distributed.fsdp import fully_shard

import models
import tidepool.torch as tidepool_torch
import traffic
from tidepool._torch_compile import _costs, _operators, _private, _region, _slab

GIB = 1 << 30
SMALL = {
    "gpt": (lambda: models.GPT(768, 6, 12, 8192, 512, 0.1), lambda: models.tokens(16, 512, 8192)),
    "resnet": (lambda: models.ResNet(32, (2, 2, 2, 2), 1000), lambda: models.images(256, 128, 1000)),
}
# Programs of the kinds of which values are compared, with enough data for a slab in pieces of 2 MiB.
PROGRAMS = {
    "gpt": (lambda: models.GPT(256, 5, 4, 512, 256, 0.1), lambda: models.tokens(32, 256, 512)),
    "tied": (lambda: models.GPT(256, 5, 4, 512, 256, 0.1, tied=True), lambda: models.tokens(32, 256, 512)),
    "resnet": (lambda: models.ResNet(16, (1, 1, 1, 1), 10), lambda: models.images(256, 128, 10)),
    "vit": (lambda: models.ViT(256, 5, 4, 8, 128, 10), lambda: models.images(32, 128, 10)),
    "unet": (lambda: models.UNet((16, 32, 64)), lambda: models.images(32, 128, 4)),
    "lstm": (lambda: models.LSTM(256, 2, 512), lambda: models.tokens(4096, 6, 512)),
    "llama with lora": (lambda: models.with_lora(models.Llama(256, 4, 4, 2, 512, 512, 256)), lambda: models.tokens(32, 256, 512)),
}
# Graphs that share a budget, and memory that the program takes between the passes.
DIVIDED = {
    "breaks": (lambda: models.BrokenGPT(256, 6, 8, 2048, 256, 0.1), lambda: models.tokens(16, 256, 2048)),
    "loss outside": (lambda: models.LossOutside(256, 6, 8, 8192, 256, 0.1), lambda: models.tokens(16, 256, 8192)),
}
OPTIONS = {"link": "50GB/s", "time_limit": float(os.environ.get("TIME_LIMIT", 4))}


class Peaks:
    """Bytes of one training step: before it, at its peak, and reserved."""

    def __init__(self, empties):
        torch.cuda.synchronize()
        gc.collect()
        if empties:
            torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        self.home = torch.cuda.memory_allocated()

    def read(self):
        torch.cuda.synchronize()
        self.peak = torch.cuda.max_memory_allocated()
        self.reserved = torch.cuda.max_memory_reserved()


def no_more_slab():
    """Gives the memory of the last model's slab back."""
    gc.collect()
    if _slab.figures_of(torch.device("cuda", 0)).bytes:
        assert _slab.resize(torch.device("cuda", 0), 0)
    torch.cuda.empty_cache()


def no_more_workspaces():
    """Gives back what libraries keep, as each capture does, so that a budget does not depend on the programs before."""
    _private.clear_workspaces()
    _costs.forget()


def step_plainly(call, batch, optimizer):
    loss = call(*batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


class StepThatKeepsItsLoss:
    """A loop that holds the loss of a step when the next one begins, as most do."""

    loss = None

    def __call__(self, call, batch, optimizer):
        self.loss = call(*batch)
        self.loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def step_with_late_zeros(call, batch, optimizer):
    """A step that keeps gradients until its backward pass."""
    loss = call(*batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


_last_batch = []


def step_with_a_new_batch(call, batch, optimizer):
    """Makes the batch before it lets the last one go, as a loop over a data loader does."""
    _last_batch[:] = [tensor.clone() for tensor in batch]
    step_plainly(call, _last_batch, optimizer)


class StepThatKeepsItsResults:
    """A loop that holds the results of the model when the next step begins, with a loss that is not compiled."""

    results = None

    def __call__(self, call, batch, optimizer):
        self.results = call(*batch)
        optimizer.zero_grad()
        self.results.float().square().mean().backward()
        optimizer.step()


def late_step_with_a_new_batch(call, batch, optimizer):
    _last_batch[:] = [tensor.clone() for tensor in batch]
    step_with_late_zeros(call, _last_batch, optimizer)


def step_with_autocast(call, batch, optimizer):
    with torch.autocast("cuda", torch.bfloat16):
        loss = call(*batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def step_accumulated(call, batch, optimizer):
    for _ in range(2):
        call(*batch).backward()
    optimizer.step()
    optimizer.zero_grad()


def fused(parameters):
    return torch.optim.AdamW(parameters, fused=True)


def train(make, data, budget=None, steps=5, step=step_plainly, optimizer=fused, wrap=lambda model: model, dtype=torch.bfloat16, **options):
    """Trains a model, in bfloat16 by default, and returns the peaks of each step, optimizer included, and the last plan."""
    torch._dynamo.reset()
    no_more_slab()
    torch.manual_seed(0)
    model = wrap(make().cuda().to(dtype))
    batch = [tensor.cuda().to(dtype) if tensor.is_floating_point() else tensor.cuda() for tensor in data()]
    call = model if budget is None else tidepool_torch.compile(model, budget=budget, **{**OPTIONS, **options})
    optimizer = optimizer(model.parameters())
    peaks = []
    for number in range(steps):
        peaks.append(Peaks(empties=number == 0 or budget is None))
        step(call, batch, optimizer)
        peaks[-1].read()
    return peaks, None if budget is None else tidepool_torch.plans()[-1]


def row(name, budget, peaks, plan):
    reserved = [each.reserved for each in peaks]
    line = (f"{name:12} budget {budget / GIB:7.3f}  peak {peaks[-1].peak / GIB:7.3f}  reserved {reserved[-1] / GIB:7.3f} GiB, "
            f"at most {max(reserved) / GIB:.3f}")
    if plan is not None:
        off = (reserved[-1] - plan.peak_bytes) / plan.peak_bytes
        line += (f"  plan {plan.peak_bytes / GIB:7.3f} ({off:+.2%})  {plan.seconds * 1e3:7.2f} ms x{plan.overhead:.3f}"
                 f"  again {plan.runs_again}  out {plan.copies_out}  in {plan.copies_in}"
                 f"  tasks {plan.tasks}  planned in {plan.planning_seconds:.1f} s, written in {plan.writing_seconds:.1f} s")
    print(line, flush=True)


def measure(name, make, data, shares, **options):
    """Prints rows for shares of the graph's own memory, and yields (share, budget, peaks, plan)."""
    row(f"{name} eager", 0, *train(make, data))
    peaks, plan = train(make, data, 1 << 42, **options)
    row(f"{name} all", 1 << 42, peaks, plan)
    for share in shares:
        budget = plan.outside_bytes + int(share * plan.graph_bytes)
        try:
            got = train(make, data, budget, **options)
        except Exception as error:
            print(f"{name} {share}: {str(error)[:400]}", flush=True)
            yield share, budget, None, None
            continue
        row(f"{name} {share}", budget, *got)
        yield share, budget, *got


def deviations():
    figures = _slab.figures_of(torch.device("cuda", 0))
    return figures.deviations / max(figures.served, 1)


def check(name, shares, **options):
    for share, budget, peaks, plan in measure(name, *SMALL[name], shares, **options):
        assert plan is not None, share
        check_row(share, budget, peaks, plan)


def check_programs():
    """Checks each program within shares of its graph's memory, or within the least that an error names where that is more."""
    kinds = {**{name: (*program, {}) for name, program in PROGRAMS.items()},
             "autocast": (*PROGRAMS["gpt"], {"dtype": torch.float32, "step": step_with_autocast}), "accumulated": (*PROGRAMS["gpt"], {"step": step_accumulated})}
    with torch._dynamo.config.patch(allow_rnn=True):
        for name, (make, data, options) in kinds.items():
            no_more_workspaces()
            _, whole = train(make, data, 1 << 42, steps=2, **options)
            for share in (1.0, 0.8, 0.6, 0.5, 0.35, 0.25):
                peaks, plan = train_or_follow_error(make, data, whole.outside_bytes + int(share * whole.graph_bytes), steps=3, time_limit=0.3, **options)
                row(f"{name} {share}", plan.budget, peaks, plan)
                check_row(share, plan.budget, peaks, plan)


def train_or_follow_error(make, data, budget, **options):
    """Trains within a budget, or within one that an error names."""
    while True:
        try:
            return train(make, data, budget, **options)
        except Exception as error:
            assert _named(str(error)) > budget, error
            budget = _named(str(error))


def check_row(share, budget, peaks, plan):
    """Checks the memory of steps within a share of their graph's memory, and that they got their planned addresses."""
    assert max(each.reserved for each in peaks) <= 1.01 * budget, (share, [each.reserved for each in peaks], budget)
    assert 0.97 * plan.peak_bytes <= peaks[-1].reserved <= 1.01 * plan.peak_bytes, (share, peaks[-1].reserved, plan)
    assert peaks[-1].peak <= budget, (share, peaks[-1].peak, budget)
    assert deviations() < 0.05, _slab.figures_of(torch.device("cuda", 0))
    assert share == 1.0 or plan.copies_out or plan.runs_again, (share, plan)


def check_habits():
    """Checks programs that hold gradients or temporary tensors beside the step."""
    make, data = SMALL["gpt"]
    _, plan = train(make, data, 1 << 42)
    budget = plan.outside_bytes + int(0.8 * plan.graph_bytes)
    habits = {"late zeros": {"step": step_with_late_zeros}, "accumulated": {"step": step_accumulated},
              "many at once": {"optimizer": torch.optim.AdamW}}
    for name, habit in habits.items():
        peaks, plan = train(make, data, budget, steps=8, **habit)
        row(name, budget, peaks, plan)
        assert max(each.reserved for each in peaks) <= 1.01 * budget, (name, [each.reserved for each in peaks], budget)
    # Without state of the optimizer the second plan has a larger slab.
    peaks, plan = train(make, data, budget, step=StepThatKeepsItsLoss(), optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1))
    row("kept loss", budget, peaks, plan)
    assert max(each.reserved for each in peaks) <= 1.01 * budget, ([each.reserved for each in peaks], budget)


def check_new_batches():
    """Checks programs with a batch of a twentieth of the memory and more, and an optimizer that takes temporary tensors."""
    make, data = lambda: models.ResNet(32, (1, 1, 1, 1), 10), lambda: models.images(128, 224, 10)
    for step in (step_with_a_new_batch, late_step_with_a_new_batch):
        budget = share_of_eager(make, data, 0.5)
        peaks, plan = train(make, data, budget, step=step, optimizer=torch.optim.AdamW)
        row(f"new batches, {step.__name__}", budget, peaks, plan)
        assert max(each.reserved for each in peaks) <= 1.01 * budget, ([each.reserved for each in peaks], budget)
        _last_batch.clear()


def check_kept_results():
    """Checks a program that keeps results of 16 MiB, which lie in the slab when the second step is planned again."""
    numbers = torch.arange(1000).cuda()  # the stand-in knows what came from the host
    part = numbers[10:]
    _region._move_out_of_slab([numbers, part], numbers.device)
    assert torch.equal(numbers.cpu(), torch.arange(1000)) and torch.equal(part.cpu(), torch.arange(10, 1000))

    def make():
        return torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU()) for _ in range(12)])

    *_, last = train(make, _rows, step=StepThatKeepsItsResults())[0]
    budget = last.home + int(0.6 * (last.peak - last.home))
    peaks, plan = train(make, _rows, budget, step=StepThatKeepsItsResults())
    row("kept results", budget, peaks, plan)
    assert max(each.reserved for each in peaks) <= 1.01 * budget, ([each.reserved for each in peaks], budget)


def _rows():
    return [torch.zeros(8192, 1024)]


def check_plans_after_a_capture():
    """Checks that a plan knows the memory that libraries take again after a capture on another stream, which has made them give it back."""
    no_more_workspaces()
    found = []
    for _ in range(2):
        count = len(tidepool_torch.plans())
        train(*Captured.MODEL, 1 << 42, steps=1)
        found.append([plan.outside_bytes for plan in tidepool_torch.plans()[count:]])
        one = Captured(1 << 42)
        one.capture()
        one.graph.reset()
        del one
        _private.clear_workspaces()  # those of the captured stream
    assert len(found[0]) == 1 and found[0] == found[1], found


def check_operators_that_do_not_run_alone():
    """Checks that a warning tells of an operator that refuses to be measured, and that its results have planned addresses."""
    refusals = []

    @torch.library.custom_op("tidepool_test::of_steps", mutates_args=())
    def of_steps(x: torch.Tensor) -> torch.Tensor:
        if not refusals:  # the first call measures it
            refusals.append(x.shape)
            raise RuntimeError("no step runs")
        return x.sin()

    of_steps.register_fake(lambda x: torch.empty_like(x))
    of_steps.register_autograd(lambda context, gradient: gradient.cos())

    class Layers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(1024, 1024) for _ in range(6))

        def forward(self, x):
            for layer in self.layers:
                x = torch.ops.tidepool_test.of_steps(layer(x))
            return x.square().mean()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        peaks, plan = train(Layers, lambda: (torch.randn(16384, 1024),), 400 << 20, steps=3, optimizer=sgd)
    row("not alone", plan.budget, peaks, plan)
    (told,) = [str(one.message) for one in caught if "cannot run alone" in str(one.message)]
    assert "(tidepool_test.of_steps.default) cannot run alone, on zeros: no step runs. It is assumed to take" in told, told
    check_row(0.8, plan.budget, peaks, plan)


def check_first_plans():
    """Checks that the first plan of a program knows the memory that libraries keep for each thread and stream, whatever ran before."""
    for stream in (torch.cuda.current_stream(), _side_stream()):
        with torch.cuda.stream(stream):
            found = []
            for _ in range(2):
                count = len(tidepool_torch.plans())
                row("first plans", 1 << 29, *train(*Captured.MODEL, 1 << 29, steps=2, time_limit=0.5))
                found.append([one.outside_bytes for one in tidepool_torch.plans()[count:]])
            assert len(found[0]) == 1 and found[0] == found[1], found


def check_without_slab():
    """Checks that the budget counts tensors alone if the program asks for that, and that a size which an error names has room for the optimizer."""
    make, data = SMALL["gpt"]
    _, plan = train(make, data, 1 << 42, slab=False)
    assert plan.slab_bytes == 0, plan
    budget = plan.outside_bytes + int(0.5 * plan.graph_bytes) + (1 << 20)
    peaks, plan = train(make, data, budget, slab=False)
    row("no slab", budget, peaks, plan)
    assert plan.slab_bytes == 0 and abs(peaks[-1].peak - plan.peak_bytes) <= 0.01 * plan.peak_bytes, (peaks[-1].peak, plan)
    assert peaks[-1].peak <= budget, (peaks[-1].peak, budget)
    try:
        train(make, data, 1 << 28, slab=False)
    except Exception as error:
        budget = _named(str(error)) * 101 // 100  # PyTorch hands out larger blocks
    peaks, plan = train(make, data, budget, slab=False)
    row("no slab, named", budget, peaks, plan)
    assert max(each.peak for each in peaks) <= budget, ([each.peak for each in peaks], budget)


def share_of_eager(make, data, share):
    """Returns the bytes that a program holds between its steps, and a share of those that a step without a plan takes on top."""
    *_, last = train(make, data)[0]
    return last.home + int(share * (last.peak - last.home))


def check_divided(name, shares):
    """Checks that steps keep to a share of the memory that the passes take without a plan. The first ones learn how."""
    make, data = DIVIDED[name]
    for share in shares:
        budget = share_of_eager(make, data, share)
        peaks, _ = train(make, data, budget, steps=6, slab=False)
        row(f"{name} {share}", budget, peaks, None)
        assert peaks[-1].peak <= budget, (share, peaks[-1].peak, budget)
        assert peaks[-1].peak > 0.85 * budget, (share, peaks[-1].peak, budget)


def check_loss_outside():
    """Checks that a loss that is not compiled has room from the first step on."""
    make, data = DIVIDED["loss outside"]
    budget = share_of_eager(make, data, 0.9)
    peaks, plan = train(make, data, budget, steps=4)
    row("loss outside", budget, peaks, plan)
    assert max(each.reserved for each in peaks) <= 1.01 * budget, ([each.reserved for each in peaks], budget)


def step_with_its_loss(call, batch, optimizer):
    call(*batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def _named(text):
    """Returns the bytes of the budget that an error or a warning names."""
    return int(re.search(r"(?:The smallest that works is|such as|set a budget of) [^:]*?\((\d+) bytes\)", text).group(1))


def _linear_layers():
    return torch.nn.Sequential(*(layer for _ in range(8) for layer in (torch.nn.Linear(1024, 1024), torch.nn.GELU(), torch.nn.Dropout())))


def step_with_a_heavy_loss(call, batch, optimizer):
    y = call(*batch)
    (y.sin() * y.cos() * y.exp() * y.tanh()).mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def check_large_loss_outside():
    """Checks that the first step has room for a loss of three times its gradient, or that a warning names a budget with such room."""
    no_more_workspaces()

    def in_a_budget(step, *budget):
        return train(_linear_layers, lambda: (torch.randn(32768, 1024),), *budget, step=step, optimizer=sgd)

    def check_kept(step, budget, first=0):
        peaks, plan = in_a_budget(step, budget)
        row("large loss", budget, peaks, plan)
        assert plan.runs_again + plan.copies_out > 0 and max(each.reserved for each in peaks[first:]) <= 1.01 * budget, ([each.reserved for each in peaks], budget)

    whole = in_a_budget(step_with_its_loss)[0][-1].peak
    check_kept(step_with_its_loss, whole * 8 // 10)
    try:
        in_a_budget(step_with_its_loss, whole * 34 // 100)
    except Exception as error:
        named = _named(str(error))
    else:
        raise AssertionError("a budget was not refused")
    check_kept(step_with_its_loss, named)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_kept(step_with_a_heavy_loss, in_a_budget(step_with_a_heavy_loss)[0][-1].peak * 55 // 100, first=1)
    (told,) = (str(one.message) for one in caught if "between its forward and its backward pass" in str(one.message))
    print(told, flush=True)
    check_kept(step_with_a_heavy_loss, _named(told))


def check_nested():
    """Checks that graphs which nest share a slab."""
    make, data = DIVIDED["breaks"]
    budget = share_of_eager(make, data, 0.9)
    peaks, plan = train(make, data, budget, steps=6)
    row("nested", budget, peaks, None)
    assert plan.slab_bytes > 0, plan
    assert peaks[-1].reserved <= 1.01 * budget, ([each.reserved for each in peaks], budget)


def check_operators_in_triton():
    """Checks that a program with operators in Triton keeps its budget, by operators that run again and by copies."""
    import triton_operators  # Triton comes with PyTorch for GPUs alone

    make, data = (lambda: triton_operators.Network(1024, 8)), (lambda: (torch.randn(16384, 1024),))
    for kernels in ("eager", "inductor"):
        _, plan = train(make, data, 1 << 42, kernels=kernels)
        budget = plan.outside_bytes + int(0.6 * plan.graph_bytes)
        for link in ("none", OPTIONS["link"]):
            peaks, plan = train(make, data, budget, kernels=kernels, link=link)
            row(f"in Triton, {kernels}", budget, peaks, plan)
            assert max(each.reserved for each in peaks) <= 1.01 * budget, ([each.reserved for each in peaks], budget)
            assert plan.runs_again if link == "none" else plan.copies_out, plan
    assert not tidepool_torch.fallbacks(), tidepool_torch.fallbacks()


# CUDA graphs ----------------------------------------------------------------------------------------


def capturable(parameters):
    return torch.optim.AdamW(parameters, fused=True, capturable=True)


class Captured:
    """A program that is ready for a capture, as PyTorch's documentation warms it up, but on the stream of the capture."""

    MODEL = (lambda: models.GPT(256, 4, 8, 2048, 256, 0.1)), (lambda: models.tokens(64, 256, 2048))

    def __init__(self, budget, steps=4, wrap=lambda model: model, mode="global", **options):
        torch._dynamo.reset()
        no_more_slab()
        self.mode = mode
        self.stream = _side_stream()
        with torch.cuda.stream(self.stream):
            self.model = wrap(self.MODEL[0]().cuda().bfloat16())
        self.batch = [tensor.cuda() for tensor in self.MODEL[1]()]
        self.optimizer = capturable(self.model.parameters())
        self.call = tidepool_torch.compile(self.model, budget=budget, **{**OPTIONS, **options})
        self.graph = torch.cuda.CUDAGraph(keep_graph=True)
        for _ in range(steps):
            self.step_beside()
        torch.cuda.reset_peak_memory_stats()

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss = self.call(*self.batch)
        self.loss.backward()
        self.optimizer.step()

    def step_beside(self):
        with torch.cuda.stream(self.stream):
            self.step()
        torch.cuda.synchronize()

    def capture(self, but=()):
        """Captures a step, in which the host makes no calls that wait but some."""
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph, stream=self.stream, capture_error_mode=self.mode):
            before = traffic.calls_that_wait()
            self.step()
            made = traffic.calls_that_wait()
            assert all(made[name] == before[name] for name in made if name not in but), (before, made)


def check_capture_on_another_stream():
    """Checks that a capture keeps the budget where the first steps ran on another stream, which has workspaces of cuBLAS."""
    budget = budget_of(0.8)
    one = Captured(budget)
    for one.stream in (torch.cuda.Stream(), torch.cuda.Stream()):
        one.capture()
        one.graph.instantiate()
        one.graph.replay()
        reserved = torch.cuda.max_memory_reserved()
        print(f"on another stream        budget {budget / GIB:.3f} GiB, reserved {reserved / GIB:.3f}", flush=True)
        assert reserved <= 1.01 * budget, (reserved, budget)
        one.graph.reset()
        torch.cuda.synchronize()


def random_numbers_of(body):
    """Returns by how much a step advances the generator of random numbers."""
    generator = torch.cuda.default_generators[0]
    before = generator.get_offset()
    body()
    return generator.get_offset() - before


@functools.lru_cache(maxsize=None)
def _side_stream():
    """Returns a stream for all captures: cuBLAS keeps workspaces for each stream that it has seen."""
    return torch.cuda.Stream()


@functools.lru_cache(maxsize=None)
def _plan_of_all(**options):
    no_more_workspaces()
    with torch.cuda.stream(_side_stream()):  # one step, since the second one counts what PyTorch reserves beyond it, free blocks too
        return train(*Captured.MODEL, 1 << 42, steps=1, optimizer=capturable, **options)[1]


def budget_of(share, **options):
    """Returns the bytes for a share of the memory of the captured model's step."""
    plan = _plan_of_all(**options)
    return plan.outside_bytes + int(share * plan.graph_bytes)


def check_capture(name, share, runs_again, leaves, **options):
    """Checks that the graph of a step has the values, the time and the memory of the step."""
    budget = budget_of(share, **{key: value for key, value in options.items() if key == "kernels"})
    one = Captured(budget, **options)
    plan, count = tidepool_torch.plans()[-1], len(tidepool_torch.plans())
    assert (plan.runs_again > 0, plan.copies_out > 0) == (runs_again, leaves), (name, plan)
    with traffic.noted() as noted:
        one.step_beside()
    work, numbers = traffic.work_of(one.step_beside), random_numbers_of(one.step_beside)
    with torch.cuda.stream(one.stream):
        time = traffic.milliseconds_of(one.step)
    with traffic.noted() as in_graph:
        one.capture()
    if "kernels" not in options:  # functions of Inductor are no operators
        check_sources(noted.operators, in_graph.captured)
        assert any(one.batch[0].data_ptr() == begin for _, reads, _ in in_graph.captured for begin, _ in reads)
    assert traffic.nodes_of(one.graph)[1] == plan.copies_out + plan.copies_in, (traffic.nodes_of(one.graph), plan)
    one.graph.instantiate()
    # PyTorch writes the seed and the offset of random numbers before a replay: two kernels of 5 us.
    assert traffic.work_of(one.graph.replay) == work + 10_000 > 10_000, (traffic.work_of(one.graph.replay), work)
    assert random_numbers_of(one.graph.replay) == numbers > 0, numbers
    time_of_replay = traffic.milliseconds_of(one.graph.replay)
    reserved = torch.cuda.max_memory_reserved()
    print(f"{name:24} budget {budget / GIB:.3f} GiB, reserved {reserved / GIB:.3f}  step {time:.3f} ms, replay {time_of_replay:.3f}"
          f"  again {plan.runs_again}  out {plan.copies_out}", flush=True)
    assert time_of_replay <= 1.01 * time, (name, time, time_of_replay)
    assert reserved <= 1.01 * budget, (name, reserved, budget)
    assert len(tidepool_torch.plans()) == count


def check_sources(operators, captured):
    """Checks that captured operators are those of a step, and that each reads results of the same ones, in several replays too."""
    (expected,), (first, *others) = traffic.sources(operators), traffic.sources(captured, 3)
    assert first == expected and all(other == first for other in others)


def check_captures():
    for name, share, runs_again, leaves, options in (
            ("all in a graph", 2, False, False, {}), ("reruns in a graph", 0.6, True, False, {"link": "none"}),
            ("copies in a graph", 0.8, False, True, {"link": "2TB/s"}), ("both in a graph", 0.5, True, True, {"link": "20GB/s"})):
        check_capture(name, share, runs_again, leaves, **options)


def check_captured_kernels_of_inductor():
    for name, share, runs_again, leaves, options in (("reruns, fused, in a graph", 0.6, True, False, {"link": "none"}),
                                                     ("both, fused, in a graph", 0.6, True, True, {"link": "20GB/s"})):
        check_capture(name, share, runs_again, leaves, kernels="inductor", **options)


def check_graphed_callables():
    """Checks a forward and a backward pass in graphs of their own, with copies from one to the other."""
    one = Captured(budget_of(0.5), link="20GB/s")
    with traffic.noted() as noted:
        call = torch.cuda.make_graphed_callables(one.call, tuple(one.batch))
    assert tidepool_torch.plans()[-1].copies_out > 0, tidepool_torch.plans()[-1]
    check_sources(noted.operators[-len(noted.captured):], noted.captured)
    for _ in range(2):
        one.optimizer.zero_grad(set_to_none=True)
        call(*one.batch).backward()
        one.optimizer.step()
    assert all(parameter.grad is not None for parameter in one.model.parameters())


def refused(part, body, stream, or_by_pytorch=None):
    """Checks that a capture ends with an error that has a text in it, or one that newer versions of PyTorch raise before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
                body()
        except Exception as error:
            text = f"{error} {error.__context__}"
            assert part in text or (or_by_pytorch or part) in text, (part, text)
        else:
            raise AssertionError(f"a capture was not refused: {part}")
    gc.collect()
    assert not _slab.is_held(torch.device("cuda", 0))


def check_refused_captures():
    one = Captured(1 << 42, steps=0)
    refused("is not planned yet. Run 3 steps", one.step, one.stream, "cannot JIT compile during CUDA graph capture")
    one.step_beside()
    refused("step 2 is to be planned again. Run 3 steps", one.step, one.stream)
    for _ in range(3):
        one.step_beside()
    refused("hold", lambda: one.call(*one.batch), one.stream)  # the gradients
    one.optimizer.zero_grad(set_to_none=True)
    with torch.cuda.stream(one.stream):
        loss = one.call(*one.batch)
    refused("its forward pass was not captured", loss.backward, one.stream)
    refused("division", lambda: one.step() or 1 / 0, one.stream)  # an error of the program
    one.capture()
    del one, loss
    one = Captured(1 << 42, slab=False)
    refused("no planned addresses", one.step, one.stream)


def check_a_graph_holds_its_memory():
    one, device = Captured(1 << 42), torch.device("cuda", 0)
    one.capture()
    one.graph.instantiate()
    count, served = len(tidepool_torch.plans()), _slab.figures_of(device).served
    one.optimizer.zero_grad(set_to_none=True)
    assert not _slab.resize(device, 0) and _slab.figures_of(device).bytes > 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            one.step_beside()
    assert [str(each.message) for each in caught if "takes memory beside it" in str(each.message)], caught
    assert _slab.figures_of(device).served == served and len(tidepool_torch.plans()) == count
    one.graph.replay()
    one.graph.reset()
    one.step_beside()
    assert _slab.figures_of(device).served > served


# Ranks ----------------------------------------------------------------------------------------------


def in_parallel(model):
    return torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=4)


def sharded(model):
    for layer in model.layers:
        fully_shard(layer)
    return fully_shard(model)


RANKS = {"ddp": in_parallel, "fully_shard": sharded}


def check_ranks(name, shares=(1.0, 0.6, 0.35)):
    """Checks that one of two ranks reserves at most its budget, once its steps are known, or tells a larger one."""
    make, data = (lambda: models.GPT(256, 6, 8, 2048, 256, 0.1)), (lambda: models.tokens(32, 256, 2048))
    eager, _ = train(make, data, wrap=RANKS[name])
    row(f"{name} eager", 0, eager, None)
    for share in shares:
        budget = int(share * eager[-1].peak)
        smallest = None
        try:
            peaks, plan = train(make, data, budget, steps=7, wrap=RANKS[name])
        except Exception as error:
            told = re.search(r"(?:The smallest that works is|Expected a larger budget, such as) .*?\((\d+) bytes\)", str(error))
            assert told, error
            smallest = int(told.group(1))
        if smallest is not None:
            print(f"{name} {share}: {budget / GIB:.3f} GiB refused, a larger budget is {smallest / GIB:.3f} GiB", flush=True)
            assert smallest > budget, (smallest, budget)
            continue
        row(f"{name} {share}", budget, peaks, plan)
        assert peaks[-1].reserved <= 1.01 * budget, (share, [each.reserved for each in peaks], budget)
        assert plan.slab_bytes > 0, plan


def check_captured_ranks(name):
    """Checks that a step of one of two ranks is a CUDA graph of the same work, and reserves at most its budget.

    PyTorch's watchdog of NCCL asks for events meanwhile, which the captures of other modes prohibit.
    """
    budget = int(0.9 * train(*Captured.MODEL, wrap=RANKS[name], optimizer=capturable)[0][-1].peak)
    one = Captured(budget, steps=13, wrap=RANKS[name], mode="thread_local")
    work = traffic.work_of(one.step_beside)
    one.capture(but=("cudaEventQuery", "cudaHostAlloc"))  # of the watchdog, and of PyTorch's copies of shards
    one.graph.instantiate()
    replayed, reserved = traffic.work_of(one.graph.replay), torch.cuda.max_memory_reserved()
    print(f"{name} in a graph         budget {budget / GIB:.3f} GiB, reserved {reserved / GIB:.3f}", flush=True)
    assert replayed == work + 10_000 > 10_000, (replayed, work)  # two kernels write the seed and the offset of random numbers
    assert reserved <= 1.01 * budget, (reserved, budget)
    assert not tidepool_torch.fallbacks(), tidepool_torch.fallbacks()


def check_without_pinned_memory():
    """Checks that a step runs beyond its budget where the host has no pinned memory."""
    make, data = SMALL["gpt"]
    _, plan = train(make, data, 1 << 42)
    budget = plan.outside_bytes + int(0.5 * plan.graph_bytes)
    flat = _operators.flat

    def without_pinned(x, device, **options):
        if options.get("pin_memory"):
            raise RuntimeError("CUDA error: out of memory")
        return flat(x, device, **options)

    copies = _operators.statistics["copies_out"]
    _operators.flat = without_pinned
    try:
        peaks, plan = train(make, data, budget)
    finally:
        _operators.flat = flat
    row("not pinned", budget, peaks, plan)
    assert _operators.statistics["copies_out"] == copies and _operators.statistics["stayed"] > 0, _operators.statistics
    assert plan.copies_out > 0 and peaks[-1].reserved > budget, (peaks[-1].reserved, budget)


def check_a_smaller_budget_after_a_larger_one():
    """Checks that no warning counts the memory of an earlier program in a step of the next one."""
    torch._dynamo.reset()
    no_more_slab()
    model, batch = Captured.MODEL[0]().cuda().bfloat16(), [tensor.cuda() for tensor in Captured.MODEL[1]()]
    budget = 1 << 42
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for _ in range(2):
            call = tidepool_torch.compile(model, budget=budget, link="50GB/s", time_limit=0.5)
            for _ in range(2):
                call(*batch).backward()
                model.zero_grad()
            plan = tidepool_torch.plans()[-1]
            budget = plan.outside_bytes + int(0.6 * plan.graph_bytes)
            torch._dynamo.reset()
    assert _slab.figures_of(torch.device("cuda", 0)).bytes == plan.slab_bytes < plan.budget, plan


def check_results_that_processes_share():
    """Checks that memory of a planned step is refused to other processes, which would see the next step write over it."""
    torch._dynamo.reset()
    no_more_slab()
    model = Captured.MODEL[0]().cuda().bfloat16()
    tidepool_torch.compile(model, budget=1 << 29, **OPTIONS)(*(tensor.cuda() for tensor in Captured.MODEL[1]())).backward()
    gradient = model.head.weight.grad
    assert _slab.figures_of(gradient.device).live_bytes > gradient.nbytes
    try:
        gradient.untyped_storage()._share_cuda_()
    except RuntimeError as error:
        assert "memory of a planned step cannot be shared between processes; copy the tensor first" in str(error), error
    else:
        raise AssertionError("a gradient in the slab was shared")


def check_moved_model():
    """Checks that a program which moves its model to the host and back goes on within its budget."""
    budget = 1 << 29

    def step(call, batch, optimizer):
        step_plainly(call, batch, optimizer)
        call.cpu()
        call.cuda()

    count = len(tidepool_torch.plans())
    peaks, plan = train(*Captured.MODEL, budget, step=step, optimizer=sgd, time_limit=0.5)
    row("moved", budget, peaks, plan)
    assert plan.runs_again + plan.copies_out > 0 and max(each.reserved for each in peaks) <= 1.01 * budget, ([each.reserved for each in peaks], budget)
    assert len(tidepool_torch.plans()) == count + 1 and not tidepool_torch.fallbacks()


def check_too_small():
    make, data = SMALL["gpt"]
    try:
        train(make, data, 1 << 27)
    except Exception as error:
        assert "The smallest that works is" in str(error), error
    else:
        raise AssertionError("a budget of 128 MiB was not refused")


def check_named_sizes():
    """Checks that a budget works which the error for a smaller one names: by the largest task, by addresses, and for graphs within each other,
    of which each names what it needs beside the others."""
    make, data = SMALL["resnet"]
    _, plan = train(make, data, 1 << 42)
    refused = 0
    for share in (0.1, 0.22) if os.environ.get("TIDEPOOL_QUICK") else (0.05, 0.1, 0.15, 0.2, 0.21, 0.22, 0.23):
        try:
            train(make, data, plan.outside_bytes + int(share * plan.graph_bytes))
        except Exception as error:
            budget = _named(str(error))
        else:
            continue
        refused += 1
        peaks, found = train(make, data, budget)
        row(f"named for {share}", budget, peaks, found)
        assert max(each.reserved for each in peaks) <= 1.01 * budget, (share, [each.reserved for each in peaks], budget)
    assert refused > 0
    make, data = DIVIDED["breaks"]
    budget, told = share_of_eager(make, data, 0.3), 0
    for told in range(6):
        try:
            peaks, found = train(make, data, budget, steps=6)
        except Exception as error:
            budget, smaller = _named(str(error)), budget
            assert budget > smaller, error
        else:
            break
    row("named for graphs", budget, peaks, found)
    assert told > 0 and peaks[-1].reserved <= 1.01 * budget + (2 << 20), ([each.reserved for each in peaks], budget)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        make, data = models.LARGE[sys.argv[1]]
        for _ in measure(sys.argv[1], make, lambda: data(int(sys.argv[2])), [float(share) for share in sys.argv[3:]]):
            pass
    else:
        checks = {"gpt": lambda: check("gpt", [1.0, 0.35]), "resnet": lambda: check("resnet", [1.0, 0.35]), "programs": check_programs,
                  "not_alone": check_operators_that_do_not_run_alone, "after_a_capture": check_plans_after_a_capture, "shared": check_results_that_processes_share, "smaller": check_a_smaller_budget_after_a_larger_one,
                  "inductor": lambda: check("gpt", [1.0, 0.5], kernels="inductor"), "first_plans": check_first_plans, "habits": check_habits, "without_slab": check_without_slab, "nested": check_nested,
                  "breaks": lambda: check_divided("breaks", [0.6]),
                  "loss_outside": check_loss_outside, "captures": check_captures, "capture_elsewhere": check_capture_on_another_stream, "refused_captures": check_refused_captures, "held": check_a_graph_holds_its_memory,
                  "graphed_callables": check_graphed_callables, "divided_loss": lambda: check_divided("loss outside", [0.8]),
                  "without_pinned_memory": check_without_pinned_memory, "too_small": check_too_small, "moved_model": check_moved_model, "new_batches": check_new_batches, "kept_results": check_kept_results,
                  "large_loss_outside": check_large_loss_outside, "named_sizes": check_named_sizes}
        if not os.environ.get("TIDEPOOL_QUICK"):
            checks["in_triton"] = check_operators_in_triton
            checks["captured_inductor"] = check_captured_kernels_of_inductor
            checks["tight_inductor"] = lambda: check("resnet", [0.3], kernels="inductor")
        if "WORLD_SIZE" in os.environ:
            torch.distributed.init_process_group("nccl")
            checks = {name: functools.partial(check_ranks, name) for name in RANKS}
            checks.update({f"{name}_captured": functools.partial(check_captured_ranks, name) for name in RANKS})
        for name in os.environ.get("CHECKS", "").split() or checks:
            checks[name]()

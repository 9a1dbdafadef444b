# SPDX-License-Identifier: Apache-2.0
"""Training within a budget without torch.compile: values on the CPU, and memory with `--memory` under `tidepool dryrun`."""
import contextlib
import copy
import gc
import inspect
import pathlib
import pickle
import subprocess
import sys
import warnings

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1])]
import torch

import isolated
import models
import tidepool.torch as tidepool_torch
from tidepool._torch_offload import _chain

torch.set_num_threads(1)
GPT = lambda: models.GPT(layers=6)
SLOW_LINK, FAST_LINK = 1e6, 1e12


def train(model, batch, steps=4, budget=None, link=FAST_LINK, step=None):
    """Returns losses, weights and buffers after some steps, and the context of offload()."""
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    context = contextlib.nullcontext() if budget is None else tidepool_torch.offload(model, budget=budget, link=link)
    with context as training:
        for _ in range(steps):
            loss = (step or (lambda: model(*batch)))()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
    return [*losses, *(tensor.detach() for tensor in (*model.parameters(), *model.buffers()))], training


def is_same(a, b):
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b))


def smallest_of(model, batch):
    try:
        train(copy.deepcopy(model), batch, budget=1)
    except tidepool_torch.BudgetError as error:
        return error.smallest
    raise AssertionError("a budget of one byte was not refused")


def check(make, data, link, expected, share=0.3):
    """Checks that values stay the same within a budget between the smallest one and that of all data."""
    model, batch = make(), data()
    plain, _ = train(copy.deepcopy(model), batch)
    _, all_of_it = train(copy.deepcopy(model), batch, budget=1 << 40)
    most, least = all_of_it.prediction.peak_bytes, smallest_of(model, batch)
    assert {mode for _, mode in all_of_it.modes} == {_chain.KEEP}, all_of_it.modes
    budget = int(least + share * (most - least))
    got, training = train(copy.deepcopy(model), batch, budget=budget, link=link)
    assert is_same(plain, got)
    assert training.prediction.peak_bytes <= budget, (training.prediction, budget)
    assert expected in {mode for _, mode in training.modes}, training.modes
    assert training.prediction.seconds > 0
    assert all("forward" not in module.__dict__ for module in model.modules())
    got, training = train(copy.deepcopy(model), batch, budget=least, link=link)
    assert is_same(plain, got) and {mode for _, mode in training.modes} != {_chain.KEEP}, training.modes


# Values -------------------------------------------------------------------------------------------


def a_gpt_with_dropout_sends_data():
    check(GPT, lambda: models.tokens(4), FAST_LINK, _chain.SEND)


def a_gpt_with_dropout_runs_again():
    check(GPT, lambda: models.tokens(4), SLOW_LINK, _chain.AGAIN)


def a_resnet_with_batch_norm_and_relu_in_place_sends_data():
    check(models.ResNet, lambda: models.images(4), FAST_LINK, _chain.SEND)


def a_resnet_with_batch_norm_and_relu_in_place_runs_again():
    check(models.ResNet, lambda: models.images(4), SLOW_LINK, _chain.AGAIN)


def batch_norms_of_each_kind_run_again():
    def make():
        model = models.ResNet()
        norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
        for norm in norms[::3]:
            norm.momentum = None  # running statistics are means over all steps
        for norm in norms[1::3]:
            norm.eval()
        return model

    check(make, lambda: models.images(4), SLOW_LINK, _chain.AGAIN)


def checkpoints_that_are_there_already():
    model, batch = models.GPT(layers=6, checkpoints=True), models.tokens(4)
    plain, _ = train(copy.deepcopy(model), batch)
    got, training = train(model, batch, budget="1GiB")
    assert is_same(plain, got) and training.modes == []  # their stages are theirs


def a_second_shape_is_measured_too():
    model = GPT()
    batches = [models.tokens(4), models.tokens(2)]

    def both(model):
        turns = iter(batches * 3)
        return lambda: model(*next(turns))

    plain = copy.deepcopy(model)
    expected, _ = train(plain, None, 6, step=both(plain))
    budget = smallest_of(model, batches[0]) * 2
    got, training = train(model, None, 6, budget, step=both(model))
    assert is_same(expected, got) and len(training._plans) == 2


def steps_that_save_other_data_are_measured_too():
    model, batch = GPT(), models.tokens(4)
    with tidepool_torch.offload(model, budget="1GiB") as training:
        for trains, dtype in ((False, None), (True, None), (True, torch.bfloat16), (True, torch.float16), (False, None)):
            model.layers.requires_grad_(trains)
            with torch.autocast("cpu", dtype, enabled=dtype is not None):
                model(*batch).backward()
    assert len(training._plans) == 4


class Wrapper(torch.nn.Module):
    """A model around another one, as DistributedDataParallel is."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *arguments):
        return self.module(*arguments)


def wrappers_have_the_stages_of_their_model():
    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = torch.nn.Linear(64, 256), torch.nn.Linear(256, 64)

        def forward(self, x):
            return self.down(torch.relu(self.up(x)))

    model = Wrapper(Wrapper(Plain()))
    _, training = train(model, None, budget="1GiB", step=lambda: model(torch.randn(4, 64)).sum())
    assert [name for name, _ in training.modes] == ["module.module.up", "module.module.down"], training.modes


def models_of_which_no_stage_runs_are_told():
    class Functional(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(2))

        def forward(self, x):
            for layer in self.layers:
                x = torch.nn.functional.linear(x, layer.weight)
            return x

    def warnings_of(model, step):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            train(model, None, budget="1GiB", step=step)
        return sum("no stage of the model ran" in str(one.message) for one in caught)

    functional, model = Functional(), GPT()
    assert warnings_of(functional, lambda: functional(torch.randn(4, 64)).sum()) == 1
    assert warnings_of(model, lambda: model(*models.tokens(4))) == 0


def copies_within_the_context_have_weights_of_their_own():
    from torch.optim.swa_utils import AveragedModel

    model, batch = models.GPT(layers=2, dropout=0.0), models.tokens(4)
    expected = model(*batch)
    with tidepool_torch.offload(model, budget="1GiB"):
        copies = [copy.deepcopy(model), copy.deepcopy(copy.deepcopy(model)), AveragedModel(model).module, pickle.loads(pickle.dumps(model))]
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        for copied in copies:
            assert torch.equal(copied(*batch), expected)
            assert inspect.signature(model.forward) == inspect.signature(copied.forward)
            _, training = train(copied, batch, budget="1GiB")
            assert len(training.modes) == 2 and "forward" not in copied.__dict__, training.modes


# Bad input and errors -----------------------------------------------------------------------------


def a_step_after_an_error_in_the_backward_pass():
    model, batch = GPT(), models.tokens(4)
    plain, _ = train(copy.deepcopy(model), batch, 3)
    smallest = smallest_of(model, batch)
    fails = [False]

    def maybe_fail(gradient):
        if fails[0]:
            raise KeyError("an error of the program")

    def hook(module, inputs, output):
        if output.requires_grad:
            output.register_hook(maybe_fail)

    model.layers[2].up.register_forward_hook(hook)
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    torch.manual_seed(1)
    with tidepool_torch.offload(model, budget=smallest, link=FAST_LINK):
        for number in range(3):
            state = torch.get_rng_state()
            for fails[0] in (True, False) if number else (False,):
                torch.set_rng_state(state)
                try:
                    loss = model(*batch)
                    loss.backward()
                except KeyError:
                    assert fails[0]
                    optimizer.zero_grad()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
    assert is_same(plain[:3], losses)


def without_memory_of_the_host_data_stays():
    model, batch = GPT(), models.tokens(4)
    plain, _ = train(copy.deepcopy(model), batch)
    smallest = smallest_of(model, batch)
    make, calls = torch.empty, []

    def scarce(*arguments, **options):
        if "pin_memory" in options:
            calls.append(arguments)
            if len(calls) % 2:
                raise RuntimeError("CUDA error: out of memory")
        return make(*arguments, **options)

    torch.empty = scarce
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got, _ = train(copy.deepcopy(model), batch, budget=smallest)
    torch.empty = make
    assert is_same(plain, got) and len(calls) > 1
    assert sum("data stays on the device" in str(one.message) for one in caught) == 1


def saved_tensors_that_change_are_refused():
    class Changing(torch.nn.Module):
        def __init__(self, is_saved_again):
            super().__init__()
            self.is_saved_again = is_saved_again

        def forward(self, x):
            y = x.exp()  # saves its result
            y.add_(1)
            return y.sin() if self.is_saved_again else y

    for is_saved_again in (False, True):
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), Changing(is_saved_again), Changing(is_saved_again), torch.nn.Linear(64, 64))
        with tidepool_torch.offload(model, budget="1GiB"):
            try:
                model(torch.randn(4, 64)).sum().backward()
            except RuntimeError as error:
                assert "modified by an inplace operation" in str(error), error
            else:
                raise AssertionError("a saved tensor that changed was not refused")


def hooks_of_others_serve_their_tensors():
    model, batch = GPT(), models.tokens(4)
    plain, _ = train(copy.deepcopy(model), batch)
    packed = []

    def pack(tensor):
        packed.append(tensor.numel())
        return tensor.clone()

    def step(model):
        def run():
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                return model(*batch)
        return run

    got, _ = train(model, batch, budget=smallest_of(GPT(), batch), step=step(model))
    assert packed and is_same(plain, got)


def hooks_of_others_change_gradients():
    def make():
        torch.manual_seed(3)
        model = GPT()
        for parameter in model.parameters():
            parameter.register_hook(lambda gradient: gradient * 0.5)
        model.layers[1].register_forward_hook(lambda module, inputs, result: result * 2)
        model.layers[2].register_full_backward_pre_hook(lambda module, gradients: (gradients[0] * 2,))
        model.layers[3].register_full_backward_hook(lambda module, given, gradients: (given[0] * 0.5,))
        model.register_full_backward_hook(lambda module, given, gradients: losses.append(gradients[0].item()))
        return model

    batch, losses = models.tokens(4), []
    plain, _ = train(make(), batch)
    for link in (SLOW_LINK, FAST_LINK):
        got, training = train(make(), batch, budget=smallest_of(GPT(), batch), link=link)
        assert is_same(plain, got) and {mode for _, mode in training.modes} != {_chain.KEEP}, training.modes
    assert losses == [1.0] * 12, losses


def parameters_that_processes_share():
    model, batch = GPT().share_memory(), models.tokens(4)
    plain, _ = train(copy.deepcopy(model), batch)
    got, _ = train(model, batch, budget=smallest_of(GPT(), batch))
    assert is_same(plain, got) and all(parameter.is_shared() for parameter in model.parameters())


def a_second_backward_pass():
    gradients = []
    model, batch = GPT(), models.tokens(4)
    for budget in (None, smallest_of(model, batch)):
        copied = copy.deepcopy(model)
        torch.manual_seed(2)
        with tidepool_torch.offload(copied, budget=budget, link=FAST_LINK) if budget else contextlib.nullcontext():
            for _ in range(2):
                copied.zero_grad()
                loss = copied(*batch)
                loss.backward(retain_graph=True)
                loss.backward()
        gradients.append([parameter.grad for parameter in copied.parameters()])
    assert is_same(*gradients)


def evaluation_runs_as_it_is():
    model, batch = GPT().eval(), models.tokens(4)
    with tidepool_torch.offload(model, budget=1) as training, torch.no_grad():
        model(*batch)
        model(*batch)
    assert training.prediction is None


def wrong_arguments_are_refused():
    model = GPT()
    for arguments, error, part in (((model, "some"), ValueError, "budget: 'some' is not a size"),
                                   ((model, 0), ValueError, "budget 0"), ((1, 1), TypeError, "not int"),
                                   ((torch.nn.ReLU(), 1), ValueError, "no parameters"),
                                   ((torch.nn.LSTM(4, 4), 1), ValueError, "no stages")):
        try:
            with tidepool_torch.offload(arguments[0], budget=arguments[1]):
                pass
        except error as raised:
            assert part in str(raised), raised
        else:
            raise AssertionError(part)
    with tidepool_torch.offload(model, budget=1):
        try:
            tidepool_torch.offload(model, budget=1).__enter__()
        except RuntimeError as raised:
            assert "replaced already" in str(raised), raised
        else:
            raise AssertionError("a model was taken twice")


PROGRAM = """
import sys
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layer = lambda width: nn.Sequential(nn.Sequential(nn.Linear(width, 256), nn.ReLU()), nn.Tanh())
        self.layers = nn.Sequential(layer(64), layer(256), layer(256), nn.Linear(256, 8))

    def forward(self, x):
        return self.layers(x)

torch.set_num_threads(1)
torch.manual_seed(0)
model = Net()
# compiled here
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(4):
    loss = nn.functional.mse_loss(model(torch.randn(512, 64)), torch.zeros(512, 8))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
with torch.no_grad():
    model(torch.randn(1, 64))
print(sys.argv[1:], __name__, loss.item())
"""


def install(folder, entry_points):
    """Writes the metadata of an installed package with these entry points."""
    metadata = pathlib.Path(folder) / "tidepool-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tidepool\nVersion: 0\n")
    (metadata / "entry_points.txt").write_text(entry_points)


def programs_stay_as_they_are():
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as installed:
        (pathlib.Path(folder) / "train.py").write_text(PROGRAM)
        install(installed, "[torch.backends]\ntidepool = tidepool_startup:torch_is_imported\n")

        def run(*arguments, **environment):
            path = os.pathsep.join([installed, os.environ.get("PYTHONPATH", "")])
            return subprocess.run([sys.executable, *arguments, "--rate", "3"], cwd=folder, capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": path, **environment}, check=False)

        plain = run("train.py")
        assert "['--rate', '3'] __main__" in plain.stdout and not plain.stderr, plain
        wrong = run("train.py", TIDEPOOL_BUDGET="much")
        assert wrong.returncode == 1 and wrong.stderr.startswith("tidepool: TIDEPOOL_BUDGET: budget: "), wrong
        for ran in (run("-m", "tidepool.torch", "--budget", "3MB", "--link", "1MB/s", "train.py"),
                    run("-m", "tidepool.torch", "-m", "train", TIDEPOOL_BUDGET="3MB"),
                    run("-m", "tidepool.torch", "--budget", "3MB", "train.py", TIDEPOOL_BUDGET="1GiB"),
                    run("train.py", TIDEPOOL_BUDGET="3MB")):
            assert ran.stdout == plain.stdout, ran
            assert "tidepool: Net: " in ran.stderr and " predicted of 2.86 MiB" in ran.stderr, ran.stderr
            assert "send" in ran.stderr or "again" in ran.stderr, ran.stderr


def modules_of_a_stage_that_runs_again_are_no_models():
    from tidepool._torch_compile import _options
    from tidepool._torch_offload import _run

    model, batch = GPT(), models.tokens(4)
    watching = _run._Models(_options.check({"budget": smallest_of(model, batch), "link": SLOW_LINK}))
    watching.watch()
    train(model, batch)
    assert list(watching.trainings) == [model], list(watching.trainings)
    assert _chain.AGAIN in {mode for _, mode in watching.trainings[model].modes}


def compiled_programs_stay_as_they_are():
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "train.py"

        def run(line, *arguments):
            script.write_text(PROGRAM.replace("# compiled here", line))
            return subprocess.run([sys.executable, *arguments, "train.py"], cwd=folder, capture_output=True, text=True, env=os.environ,
                                  check=False)

        plain = run("")
        for line in ("model = torch.compile(model)", "model.compile()", "model = nn.Sequential(torch.compile(model))"):
            ran = run(line, "-m", "tidepool.torch", "--budget", "4MB", "--link", "100GB/s")
            assert ran.stdout == plain.stdout, (line, ran)
            assert "compiled modules train by tidepool's backend" in ran.stderr, ran.stderr
            said = [text for text in ran.stderr.splitlines() if text.startswith("tidepool: compiled modules: ")]
            assert len(said) == 1 and " 0 operators run again, 0 copies out" not in said[0], ran.stderr


def wrong_calls_of_the_command_are_refused():
    import io

    from tidepool._torch_offload import _run

    for arguments, part in ((["train.py"], "give --budget 23GiB, or set TIDEPOOL_BUDGET"), (["--budget", "x", "train.py"], "'x'"),
                            (["--budget", "1GiB", "no.py"], "no file no.py")):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            try:
                _run._arguments(arguments)
            except SystemExit as ended:
                assert ended.code == 2 and part in said.getvalue(), said.getvalue()
            else:
                raise AssertionError(part)


def an_import_leaves_torch_dynamo_alone():
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        install(folder, "[torch_dynamo_backends]\ntidepool = tidepool._torch_compile._backend:backend\n")
        program = ("import sys; sys.path.append(sys.argv[1]); import tidepool.torch; assert 'torch._dynamo' not in sys.modules; "
                   "from tidepool._torch_offload import _training; assert 'torch._dynamo' not in sys.modules; tidepool.torch.Plan")
        subprocess.run([sys.executable, "-c", program, folder], check=True)


# The search ---------------------------------------------------------------------------------------


def a_chain_of(count, link):
    """A chain of stages that save 10, from inputs of 2, with passes of 1 and 2 seconds."""
    phases = [_chain.Phase("forward", i, 10, 1.0) for i in range(count)]
    phases += [_chain.Phase("other", -1, 1, 0.0)]
    phases += [_chain.Phase("backward", i, 12, 2.0) for i in reversed(range(count))]
    return _chain.Chain([_chain.Stage(10, 2, 1.0)] * count, phases, link)


def predictions_of_a_chain():
    chain = a_chain_of(4, 10.0)
    assert _chain.predict(chain, [_chain.KEEP] * 4) == (3 * 10 + 12, 12.0)
    # Inputs of three stages, and the fourth with its data.
    assert _chain.predict(chain, [_chain.AGAIN] * 4) == (4 * 2 + 12, 16.0)
    # A copy takes as long as a forward pass, and half as long as a backward pass.
    peak, seconds = _chain.predict(chain, [_chain.SEND] * 4)
    assert peak == 12 + 10 and seconds > 12
    assert _chain.predict(chain, [_chain.SEND] * 2 + [_chain.KEEP] * 2) == (10 + 12, 12.0)
    # Gradients of 5 a stage that are there from the start do not come a second time.
    phases = [phase._replace(gradients=5 * (3 - phase.stage)) if phase.kind == "backward" else phase for phase in chain.phases]
    assert [phase.peak for phase in _chain.Chain(chain.stages, phases, 10.0).with_gradients(8).phases] == [10] * 4 + [1, 12, 7, 4, 4]


def searches_of_a_chain():
    for link, memory, modes in ((10.0, 42, {_chain.KEEP}), (10.0, 35, {_chain.KEEP, _chain.SEND}), (1e-3, 35, {_chain.KEEP, _chain.AGAIN})):
        chain = a_chain_of(4, link)
        found = _chain.search(chain, memory)
        assert set(found) == modes and _chain.predict(chain, found).peak_bytes <= memory, found
    for link in (10.0, 0.0):  # without a link nothing is sent
        chain = a_chain_of(4, link)
        least = _chain.predict(chain, _chain.least(chain)).peak_bytes
        found = _chain.search(chain, least)
        assert found is not None and (link or set(found) <= {_chain.KEEP, _chain.AGAIN}), found
        assert _chain.search(chain, least - 1) is None


# Memory, under a dry run --------------------------------------------------------------------------


def _peaks_keep_to_the_budget():
    for name, make, data, shares, micro_batches in (
            ("gpt", lambda: models.GPT(768, 12, 12, 8192, 512, 0.1), lambda: models.tokens(16, 512, 8192), (None, 0.7, 0.5, 0.35), 1),
            ("sums", lambda: models.GPT(768, 12, 12, 8192, 512, 0.1), lambda: models.tokens(16, 512, 8192), (None, 0.8, 0.6), 3),
            # A second run of its stages ends before their last product, a third of them.
            ("no drops", lambda: models.GPT(768, 12, 12, 8192, 512, 0.0), lambda: models.tokens(16, 512, 8192), (None, 0.4), 1),
            ("resnet", lambda: models.ResNet(32, (3, 4, 6, 3), 1000), lambda: models.images(128, 128, 1000), (None, 0.7, 0.5), 1)):
        most = None
        times = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        for share in shares:
            gc.collect()
            torch.cuda.empty_cache()
            model = make().cuda().bfloat16()
            batch = [tensor.cuda().bfloat16() if tensor.is_floating_point() else tensor.cuda() for tensor in data()]
            optimizer = torch.optim.AdamW(model.parameters(), fused=True)
            budget = 1 << 40 if share is None else int(share * most)
            highest = 0  # of all steps, also of those that correct the prediction
            with tidepool_torch.offload(model, budget=budget, link="50GB/s") as training:
                for _ in range(6):
                    peak = 0
                    for _ in range(micro_batches):
                        torch.cuda.reset_peak_memory_stats()
                        times[0].record()
                        model(*batch).backward()
                        times[1].record()
                        peak = max(peak, torch.cuda.max_memory_allocated())
                    highest = max(highest, peak)
                    optimizer.step()
                    optimizer.zero_grad()
            predicted = training.prediction.peak_bytes
            times[1].synchronize()
            late = times[0].elapsed_time(times[1]) * 1e-3 / training.prediction.seconds - 1
            modes = [mode for _, mode in training.modes]
            print(f"{name:8} budget {budget / 2**30:8.3f}  peak {peak / 2**30:.3f}  predicted {predicted / 2**30:.3f} GiB "
                  f"({peak / predicted - 1:+.2%}, highest {highest / 2**30:.3f})  {training.prediction.seconds * 1e3:.2f} ms ({late:+.2%})  "
                  + ", ".join(f"{modes.count(mode)} {mode}" for mode in sorted(set(modes))), flush=True)
            assert peak <= budget and abs(peak - predicted) <= 0.03 * predicted, (peak, predicted, budget)
            assert highest <= 1.03 * budget, (highest, budget)
            # The measured step adds no gradients up.
            assert abs(late) < 0.04 or micro_batches > 1, late
            most = most or peak
            del model, optimizer, training


if __name__ == "__main__":
    if sys.argv[1:] == ["--memory"]:
        _peaks_keep_to_the_budget()
    else:
        isolated.run(isolated.tests_of(globals()))

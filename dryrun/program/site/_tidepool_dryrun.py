# SPDX-License-Identifier: Apache-2.0
"""The part of `tidepool dryrun` inside the program: it ends the program after some steps of its optimizers, and writes
the memory that PyTorch's allocator took, for each process one file.

The environment has the options: TIDEPOOL_DRYRUN_FOLDER, _STEPS, _NO_INIT, _DENSITY, _GRAPH, _BY, _BUDGET, _PYTHON, _TORCH, and
_CHECKPOINTS, which _tidepool_steps.py reads.
"""
import atexit
import contextlib
import gc
import json
import os
import signal
import sys
import threading
import time
import weakref

import _tidepool_assumed as assumed
import _tidepool_checks as checks
import _tidepool_exchanges as exchanges
import _tidepool_generation as generation
import _tidepool_host as host
import _tidepool_imports as imports
import _tidepool_lbfgs as lbfgs
import _tidepool_lengths as lengths
import _tidepool_lines as lines
import _tidepool_modules as modules
import _tidepool_pinned as pinned
import _tidepool_pipelines as pipelines
import _tidepool_ranks as ranks
import _tidepool_recording as recording
import _tidepool_steps as steps
import _tidepool_triton as triton
import _tidepool_workspaces as workspaces
import _tidepool_world as world

# Functions of torch.nn.init that only write numbers.
INITIALIZERS = ("normal_", "uniform_", "trunc_normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_",
                "kaiming_normal_", "orthogonal_", "constant_", "ones_", "zeros_", "eye_", "dirac_", "sparse_")
SEARCH = "/tuner/batch_size_scaling.py:"  # Lightning's search for a batch, which takes a step with each one
HERE = os.path.dirname(__file__)


class Run:
    """The run of one process. Only the process that began writes, and one that it forked before either of them used a GPU, such as a rank,
    from the first use on. Forked workers of data loaders share nothing with it."""

    def __init__(self):
        self.folder = os.environ["TIDEPOOL_DRYRUN_FOLDER"]
        self.most_steps = int(os.environ.get("TIDEPOOL_DRYRUN_STEPS", "0"))
        self.process = os.getpid()
        self.begin = time.time()
        self.steps = 0  # of the optimizer that made most
        self.steps_of = weakref.WeakKeyDictionary()  # each optimizer
        self.index = 0  # of a process that PyTorch spawned
        self.out_of_memory = None
        self.refusals = []  # of requests, the last one last
        self.recording = None
        self.visible_devices = os.environ.get("CUDA_VISIBLE_DEVICES")  # at the first use of a GPU
        self.pinned = None
        self.graph_steps = None  # with a task graph
        self.modules = None  # with a table by module
        self.error = None
        self.error_frame = None
        self.failed_rank = None  # of which a launcher tells
        self.assumptions = None
        self.checks = None
        self.world = world.of_environment(self)  # of which this process is one rank without its peers, or None
        self.is_written = False
        self.lock = threading.Lock()

    def note_torch(self):
        """Notes that PyTorch is used, for programs that end without an answer."""
        with open(os.path.join(self.folder, f"torch-{self.process}"), "w"):
            pass

    def is_own(self):
        return os.getpid() == self.process

    def adopt(self, torch):
        """Makes this the run of the forked process that calls."""
        self.process = os.getpid()
        self.begin = time.time()
        self.lock = threading.Lock()
        self.note_torch()
        if self.graph_steps is not None:
            self.graph_steps.path = os.path.join(self.folder, f"step-{self.process}")
        answer_at_signals(self, torch)

    # PyTorch calls this before it raises OutOfMemoryError.
    def refused(self, device, bytes_, device_total, device_free):
        self.refusals.append({"device": device, "bytes": bytes_, "frame": line_of_program(stack_of_caller())})

    # One optimizer may consist of others, and a program that searches for a batch may make one for each.
    def stepped(self, optimizer, *_):
        if not self.is_own() or any(SEARCH in frame for frame in stack_of_caller()):
            return
        self.steps_of[optimizer] = self.steps_of.get(optimizer, 0) + 1
        self.note_step(self.steps_of[optimizer])
        self.steps = max(self.steps, self.steps_of[optimizer])
        if self.most_steps and self.steps >= self.most_steps:
            self.write("steps")
            if self.world is None:
                ranks.wait_for_others(self.folder)
            self.end("steps")

    # The optimizer that made most steps divides the program into steps.
    def note_step(self, number):
        try:
            if self.modules is not None:
                self.modules.step_ended()
            if self.graph_steps is not None:
                self.graph_steps.updates_end()
                if number > self.steps:
                    self.graph_steps.ended(number)
        except Exception as error:  # the program itself has not failed
            self.note_failure(error)

    def failed(self, error, trace):
        torch = sys.modules["torch"]
        line = line_of_program(stack_of_error(trace))
        if isinstance(error, getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)):
            device = torch.cuda.current_device() if torch.cuda.is_initialized() else 0
            self.out_of_memory = {**(self.refusals.pop() if self.refusals else {"device": device, "bytes": 0}), "frame": line}
        else:
            self.error = f"{type(error).__name__} at {line}: {error}"[:2000]
            self.error_frame = line
            self.failed_rank = ranks.failed_rank(error)
        self.write("error")

    # Ends the process at once: the program's own exit would save checkpoints and wait for others.
    def end(self, reason):
        self.write(reason)
        leave(0)

    def write(self, reason):
        if not self.is_own():  # a forked process may have inherited a lock that is held
            return
        with self.lock:
            torch = sys.modules.get("torch")
            if self.is_written or torch is None or (self.world and self.world.helps):
                return
            self.is_written = True
            try:
                self.write_answer(torch, reason)
            except Exception as error:  # of PyTorch's own code too: the program itself has not failed
                self.note_failure(error)

    def write_answer(self, torch, reason):
        answer = {"reason": reason, "steps": self.steps, "began": self.begin, "seconds": time.time() - self.begin,
                  "torch": torch.__version__, "cuda": torch.version.cuda,
                  "rank": self.index if ranks.rank_of() is None else ranks.rank_of(),
                  "has_group": self.world is None or self.world.has_group,
                  "out_of_memory": self.out_of_memory, "caught_out_of_memory": self.refusals, "error": self.error,
                  "error_frame": self.error_frame, "failed_rank": self.failed_rank, "stopped_at": place_of_stop() if reason == "time" else None,
                  "visible_devices": self.visible_devices, "devices": [], "host": host.answer(),
                  "pinned": self.pinned.answer() if self.pinned else {"peak_bytes": 0}, "snapshot": None, "waiting": self.waiting_optimizers(torch) if reason == "steps" else [],
                  "assumed": self.assumptions.answer() if self.assumptions else [],
                  "convolution_workspaces": workspaces.told("tidepoolConvolutionWorkspace")}
        path = os.path.join(self.folder, f"process-{self.process}")
        if torch.cuda.is_initialized() and self.recording is not None and self.recording.has_begun:
            answer["devices"] = self.recording.write(path + ".pickle", self.out_of_memory)
            answer["snapshot"] = path + ".pickle"
            if self.modules:
                self.modules.write(path + ".modules")
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(answer, file)
        os.replace(path + ".new", path + ".json")

    def waiting_optimizers(self, torch):
        """Returns the names of the optimizers that made no step, of weights that none of the others updates."""
        known = {id(optimizer) for optimizer in self.steps_of}
        stepped = {id(weight) for optimizer in self.steps_of for weight in steps.parameters_of(optimizer)}
        others = [one for one in gc.get_objects() if issubclass(type(one), torch.optim.Optimizer) and id(one) not in known
                  and hasattr(one, "param_groups")]  # a refused one has none
        return sorted(type(one).__name__ for one in others if any(id(weight) not in stepped and weight.is_cuda for weight in steps.parameters_of(one)))

    def note_failure(self, error):
        """Notes an error of the dry run itself, or that there is no room for the answer."""
        print(f"tidepool: the memory of process {self.process} was not written: {error}", file=sys.stderr)
        self.note("room" if isinstance(error, OSError) else "failure", f"{type(error).__name__}: {error}")

    def note(self, kind, text):
        """Keeps a text of that kind for the answer."""
        path = os.path.join(self.folder, f"{kind}-{os.getpid()}")
        with contextlib.suppress(OSError), open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text[:400])

    def refuse(self, reason):
        """Ends the program, of which there can be no answer."""
        with open(os.path.join(self.folder, f"refusal-{self.process}"), "w", encoding="utf-8") as file:
            file.write(reason)
        leave(1)

    def enter(self, torch):
        try:
            enter(self, torch)
        except Exception as error:  # the program's import of PyTorch has not failed
            self.note_failure(error)


def leave(status):
    """Ends the process at once. Workers of data loaders would complain about it, and PyTorch about their end."""
    give_back_locks()
    if "multiprocessing" in sys.modules:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for worker in sys.modules["multiprocessing"].active_children():
            worker.kill()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def give_back_locks():
    """Removes the locks of extensions that the program builds: PyTorch keeps a file for each, and later runs would wait for it without end."""
    module = sys.modules.get("torch.utils.file_baton")
    for one in gc.get_objects() if module else ():
        if type(one) is module.FileBaton and one.fd is not None:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(one.fd), os.stat(one.lock_file_path)):  # else it was given back, and is another process's
                    os.remove(one.lock_file_path)


def stack_of_caller():
    """Returns the stack of the program as a list of "file:line", the innermost first. Threads of the backward pass have none: it is
    that of the main thread then."""
    return stack_of(sys._getframe(1)) or stack_of_main_thread()


def stack_of_main_thread():
    return stack_of(sys._current_frames().get(threading.main_thread().ident))


def stack_of(frame):
    frames = []
    while frame is not None:
        if os.path.dirname(frame.f_code.co_filename) != HERE:
            frames.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        frame = frame.f_back
    return frames


def stack_of_error(trace):
    """Returns the stack of an error like stack_of_caller."""
    frames = []
    while trace is not None:
        if os.path.dirname(trace.tb_frame.f_code.co_filename) != HERE:
            frames.insert(0, f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
        trace = trace.tb_next
    return frames


def line_of_program(frames):
    """Returns the innermost line of the program, or else the innermost one."""
    at = lines.innermost([frame.rpartition(":")[0] for frame in frames])
    return frames[at or 0] if frames else None


def place_of_stop():
    """Returns the line of the program that its main thread is in, and the innermost one, such as one of PyTorch's."""
    frames = stack_of_main_thread()
    return {"frame": line_of_program(frames), "innermost": frames[0]} if frames else None


def watch_errors(run):
    old = sys.excepthook

    def hook(kind, error, trace):
        if run.is_own():
            run.failed(error, trace)
        old(kind, error, trace)
        # A rank that went on to its end would wait for the others there. Not at once: PyTorch prints errors after this.
        if run.is_own() and ranks.group_of() is not None:
            atexit.register(leave, 1)

    sys.excepthook = hook


def watch_exits(run):
    """Notes the text with which the program calls sys.exit: it is the reason of the status."""
    own = sys.exit

    def exit(status=None, /):
        if status is not None and not isinstance(status, int):
            run.note("exit", str(status))
        own(status)

    sys.exit = exit


def watch_signals(run, torch):
    """Answers with the memory so far at SIGTERM, which ends a run that takes too long."""
    if threading.current_thread() is not threading.main_thread():
        return

    def end(*_):
        if not run.is_own() or not torch.cuda.is_initialized():
            sys.exit(1)

    signal.signal(signal.SIGTERM, end)
    answer_at_signals(run, torch)
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))


def answer_at_signals(run, torch):
    """Starts a thread that answers at SIGTERM: the main thread may be in a library, where it waits for other ranks."""
    if threading.current_thread() is not threading.main_thread():
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def answer():
        while True:
            numbers = os.read(reader, 1)
            if numbers and numbers[0] == signal.SIGTERM and torch.cuda.is_initialized():
                run.note("answers", "")
                run.end("time")

    threading.Thread(target=answer, daemon=True).start()


def skip_initialization(torch):
    for name in INITIALIZERS:
        if hasattr(torch.nn.init, name):
            setattr(torch.nn.init, name, lambda tensor, *_, **__: tensor)


def keep_loss_scale(torch):
    """Lets programs read the scale of the loss, a number of the device. In so few steps it stays the first one."""
    torch.amp.GradScaler.get_scale = lambda self: self._init_scale if self.is_enabled() else 1.0


def record(run, torch):
    """Begins to record the memory of PyTorch's caching allocator, at the first use of a GPU. An allocator that the program brings has no history, so the notes of
    the CUDA runtime are the answer. That of CUDA frees memory when streams come to it, so its peak would be a matter of chance."""
    if not run.is_own():
        run.adopt(torch)
    run.visible_devices = os.environ.get("CUDA_VISIBLE_DEVICES")
    backend = torch.cuda.get_allocator_backend()
    if backend == "cudaMallocAsync":
        run.refuse("the program takes its memory with cudaMallocAsync (PYTORCH_CUDA_ALLOC_CONF), of which the driver alone decides how "
                   "much it keeps: expected PyTorch's own allocator, without backend:cudaMallocAsync")
    try:
        run.recording.begin()
        torch._C._cuda_attach_out_of_memory_observer(run.refused)
    except RuntimeError:
        if backend == "native":
            raise
        run.recording.has_begun = False


def replace_attention_of_cudnn(torch):
    """Runs flash attention where the program allows that of cuDNN, which needs a plan that only the library makes: both keep the same
    tensors."""
    allowed = {}
    set_cudnn, set_flash = torch._C._set_sdp_use_cudnn, torch._C._set_sdp_use_flash

    def allow(name, is_allowed):
        allowed[name] = is_allowed
        set_flash(any(allowed.values()))

    set_cudnn(False)
    allow("flash", torch._C._get_flash_sdp_enabled())
    torch._C._set_sdp_use_cudnn = lambda is_allowed: allow("cudnn", is_allowed)
    torch._C._set_sdp_use_flash = lambda is_allowed: allow("flash", is_allowed)


def check_torch(run, torch):
    """Ends a program with another PyTorch than that of the interpreter that the dry run found: its libraries are not those that it needs."""
    folder, python = os.environ.get("TIDEPOOL_DRYRUN_TORCH"), os.environ.get("TIDEPOOL_DRYRUN_PYTHON")
    own = os.path.dirname(torch.__file__)
    if python is None or torch.version.cuda is None or (folder and os.path.samefile(folder, own)):
        return
    found = f"has another one, in {folder}" if folder else "has no PyTorch"
    run.refuse(f"the command starts the PyTorch of {sys.executable}, and {python}, which the dry run found for it, {found}: put the folder of its "
               f"interpreter first, PATH={os.path.dirname(sys.executable)}:$PATH")


def enter(run, torch):
    check_torch(run, torch)
    if torch.cuda.device_count() == 0:  # unlike is_available(), this leaves the GPU to processes that the program forks
        return
    if hasattr(torch._C, "_set_sdp_use_cudnn"):
        replace_attention_of_cudnn(torch)
    if os.environ.get("TIDEPOOL_DRYRUN_NO_INIT"):
        skip_initialization(torch)
    keep_loss_scale(torch)
    lbfgs.keep_history(sys.modules["torch.optim.lbfgs"])

    run.assumptions = assumed.Assumptions(
        torch, float(os.environ["TIDEPOOL_DRYRUN_DENSITY"]), lambda: line_of_program(stack_of_caller()))
    lengths.Lengths(torch, run.assumptions)
    run.checks = checks.Checks(torch)
    if torch.distributed.is_available():
        exchanges.Exchanges(torch, run.assumptions.note)
        pipelines.Pipelines(torch)

    run.recording = recording.Recording(torch)
    run.pinned = pinned.Pinned(torch)
    if os.environ.get("TIDEPOOL_DRYRUN_GRAPH"):
        run.graph_steps = steps.Steps(torch, run.recording, os.path.join(run.folder, f"step-{run.process}"), *steps.clocks_of(torch))

    if os.environ.get("TIDEPOOL_DRYRUN_BY") == "module":
        run.modules = modules.Modules(torch, run.recording, run.steps_of, run.is_own)

    # Not earlier: a program that never uses CUDA must not begin to, and one that forks must not have begun.
    torch.cuda._lazy_call(lambda: record(run, torch))
    from torch.optim.optimizer import register_optimizer_step_post_hook
    register_optimizer_step_post_hook(run.stepped)
    watch_errors(run)
    watch_signals(run, torch)
    ranks.watch_spawned(run)
    if run.world:
        run.world.enter(torch)
    ranks.send_objects_exactly(torch, run.world)
    generation.Generation()
    if torch.version.cuda is not None:
        triton.Kernels(torch)
    if os.environ.get("TIDEPOOL_DRYRUN_BUDGET"):
        train_in_budget(int(os.environ["TIDEPOOL_DRYRUN_BUDGET"]))
    atexit.register(lambda: run.write("end"))


def train_in_budget(budget):
    """Trains models of the program in a budget, as TIDEPOOL_BUDGET does where tidepool is installed."""
    from tidepool._torch_compile import _options
    from tidepool._torch_offload import _run

    _run.watch(_options.check({"budget": budget}))


def begin():
    if "TIDEPOOL_DRYRUN_FOLDER" in os.environ:
        run = Run()
        watch_exits(run)
        imports.watch("multiprocessing.process", after=lambda process: ranks.watch_processes(run, process))
        imports.watch("torch", before=run.note_torch, after=run.enter)

# SPDX-License-Identifier: Apache-2.0
"""Runs the program on the stand-in for the CUDA runtime."""
import dataclasses
import hashlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

from . import gpus, libraries, outside
from .errors import DryRunError

HERE = pathlib.Path(__file__).resolve().parent
SECONDS_TO_ANSWER = 20  # after SIGTERM
SECONDS_TO_WRITE = 300  # for a process that has begun to write its answer: the record of very many requests takes a while
SECONDS_FOR_OTHERS = 10  # after the failure of a process
SECONDS_BETWEEN_LOOKS = 0.2
STANDARD_ERROR = 2  # also where sys.stderr is another object, as in notebooks


@dataclasses.dataclass
class Machine:
    """The GPUs that the stand-in imitates."""
    gpu: gpus.Gpu
    memory_bytes: int  # of each
    devices: int


@dataclasses.dataclass
class Finished:
    status: int  # of the program; negative: the signal that ended it
    ran_out_of_time: bool
    was_interrupted: bool
    seconds: float = 0

    @property
    def was_stopped(self):
        """Whether the dry run ended the program before its steps: it may need more memory later."""
        return self.ran_out_of_time or self.was_interrupted

    @property
    def failed(self):
        """Whether the program ended with an error of its own."""
        return self.status != 0 and not self.was_stopped


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base) / "tidepool" / "dryrun"


def stand_in_folders(target, stand_in):
    """Returns the folders of the stand-in for PyTorch's version of CUDA, in the order in which libraries are looked for."""
    stand_in = pathlib.Path(stand_in)
    return [stand_in] if target.cuda_major == 13 else [stand_in / f"cuda{target.cuda_major}", stand_in]


def empty_libraries(target, stand_in):
    """Returns the folder of the libraries that PyTorch only links with, made once for each PyTorch and stand-in."""
    present = [path for folder in stand_in for path in sorted(folder.iterdir()) if path.is_file()]
    packages = libraries.packages_of(target.library_folder)
    read = [*libraries.sources(target.library_folder), *libraries.extensions(packages), *libraries.originals(packages), *present]
    makers = [libraries.__file__, libraries.elf_reader.__file__, libraries.elf_writer.__file__]
    parts = [f"{path} {os.stat(path).st_mtime_ns}" for path in [*read, *makers]]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    folder = cache_folder() / f"torch-{target.torch}-{key}"
    if (folder / "done").exists():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as place:
            made = pathlib.Path(place) / "made"
            libraries.make_all(made, target.library_folder, stand_in)
            (made / "done").touch()
            # Another dry run may make the same libraries: the first one to rename its folder wins.
            try:
                made.rename(folder)
            except OSError:
                if not (folder / "done").exists():
                    raise
    except (OSError, ValueError) as error:
        raise DryRunError(f"{folder}: the libraries for torch {target.torch} cannot be made: {error}") from error
    return folder


def library_folders(target, stand_in):
    """Returns the folders of all libraries in the place of NVIDIA's. PyTorch alone needs more than the stand-in's."""
    folders = stand_in_folders(target, stand_in)
    return folders if target.torch is None else [*folders, empty_libraries(target, folders)]


def preloaded(target, folders):
    """Returns the names of all libraries in the place of NVIDIA's. The dynamic linker loads one of each name."""
    names = {path.name for folder in folders for path in folder.glob("lib*.so.*")}
    other_runtimes = {name for name in names if name.startswith("libcudart.so.") and name != f"libcudart.so.{target.cuda_major}"}
    return sorted(names - other_runtimes)


# The threads that watch ranks ask the store about each other.
ALONE = {"NCCL_HOST_PEERS": "missing", "TORCH_NCCL_ENABLE_MONITORING": "0", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
         "TORCH_NCCL_PROPAGATE_ERROR": "0", "TORCH_DISTRIBUTED_DEBUG": "OFF"}


def environment(target, machine, stand_in, out, options, is_alone=False):
    """Returns the environment of the program. `options` are those of the command, or of a further run. A rank is alone if its peers
    have no processes."""
    variables = dict(os.environ)
    variables.pop("TIDEPOOL_DRYRUN_BUDGET", None)
    variables.update(of_search_paths(target, stand_in))
    variables.update(of_devices(machine, options))
    variables.update(of_libraries(target, options))
    variables.update(of_folders(out))
    variables.update(of_notes(target, options))
    if is_alone:
        variables.update(ALONE)
    # The newer runner of vLLM has the number of sampled tokens made by a kernel, and waits until it is not zero.
    variables.setdefault("VLLM_USE_V2_MODEL_RUNNER", "0")
    # Launchers would all choose the same port, for runs side by side too.
    port = str(free_port())
    variables.setdefault("MASTER_PORT", port)  # programs that start their own processes
    variables.setdefault("PET_MASTER_PORT", port)  # torchrun
    return variables


def of_search_paths(target, stand_in):
    """Returns the variables of which the stand-in and the modules inside the program are the first values."""
    folders = library_folders(target, stand_in)
    first = {"LD_LIBRARY_PATH": folders, "PYTHONPATH": [HERE.parent / "site"], "PATH": [HERE.parent / "programs"]}
    if target.has_copies:
        first["LD_PRELOAD"] = preloaded(target, folders)
    return {name: os.pathsep.join([*map(str, values), *filter(None, [os.environ.get(name)])]) for name, values in first.items()}


def of_devices(machine, options):
    """Returns the variables that tell the stand-in about the devices and their links."""
    gpu = machine.gpu
    variables = {
        "CUDART_HOST_DEVICES": str(machine.devices), "CUDART_HOST_MEMORY": str(machine.memory_bytes),
        "CUDART_HOST_CONTEXT": str(outside.least_context(gpu, options.memory_bytes is None)),
        "CUDART_HOST_NAME": gpu.title, "CUDART_HOST_CAPABILITY": str(gpu.capability),
        "CUDART_HOST_MULTIPROCESSORS": str(gpu.multiprocessors), "CUDART_HOST_L2": str(gpu.l2_bytes),
        "CUDART_HOST_INTEGRATED": str(int(gpu.is_integrated)), "CUDART_HOST_THREADS_PER_MULTIPROCESSOR": str(gpu.threads),
        "CUDART_HOST_SHARED_MEMORY": str(gpu.shared_bytes), "CUDART_HOST_KERNELS": "1", "CUDART_HOST_DATA": "0",
        "CUDART_HOST_ASSUMED_BYTES_PER_SECOND": f"{gpu.bytes_per_second:.0f}",
        "CUDART_HOST_ASSUMED_LINK_BYTES_PER_SECOND": f"{gpu.link_bytes_per_second:.0f}",
        "CUDART_HOST_ASSUMED_OPERATIONS_PER_SECOND": ",".join(f"{one:g}" for one in gpu.operations_per_second),
        "CUDART_HOST_ADDRESSES": os.environ.get("CUDART_HOST_ADDRESSES", "falling"),
        "NCCL_HOST_LINKS": f"{gpu.peer_bytes_per_second:.0f},{gpus.NETWORK:.0f},{machine.devices}",
        # The devices of this machine have other numbers. Programs read this variable.
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(machine.devices)))}
    if options.memory_bytes is None:
        variables["NCCL_HOST_MEMORY"] = outside.least_of_nccl(gpu, machine.devices)
    return variables


def of_libraries(target, options):
    """Returns the variables about cuDNN."""
    variables = {}
    if target.cudnn:
        major, minor, patch = target.cudnn
        variables["CUDART_HOST_CUDNN"] = str(10000 * major + 100 * minor + patch)
    if options.cudnn_workspace_bytes is not None:
        variables["CUDART_HOST_CUDNN_WORKSPACE"] = str(options.cudnn_workspace_bytes)
    return variables


def of_folders(out):
    """Returns the variables with the folders that the program and the stand-in write to."""
    folder = str(out)
    # Compiled graphs remember the kernels that were fastest, by times that are assumed here: no run on a GPU may find them. Of
    # Triton's kernels only the code is kept. Processes that are ended leave their temporary files in TMPDIR.
    return {"NCCL_HOST_FOLDER": folder, "CUDART_HOST_FOLDER": folder, "TIDEPOOL_DRYRUN_FOLDER": folder, "TMPDIR": folder,
            "TORCHINDUCTOR_CACHE_DIR": str(pathlib.Path(out) / "inductor"), "TRITON_CACHE_DIR": str(cache_folder() / "triton")}


def of_notes(target, options):
    """Returns the variables that tell the modules inside the program which notes to take."""
    variables = {"TIDEPOOL_DRYRUN_STEPS": str(options.steps), "TIDEPOOL_DRYRUN_DENSITY": str(options.density),
                 "TIDEPOOL_DRYRUN_PARENT": str(os.getpid()), "TIDEPOOL_DRYRUN_PYTHON": target.python,
                 "TIDEPOOL_DRYRUN_TORCH": target.folder or ""}
    if options.records_steps:
        variables.update(TIDEPOOL_DRYRUN_GRAPH="1", TIDEPOOL_DRYRUN_CHECKPOINTS=":".join(options.checkpoints))
    if options.budget:
        variables["TIDEPOOL_DRYRUN_BUDGET"] = str(options.budget)
    if options.by:
        variables["TIDEPOOL_DRYRUN_BY"] = options.by
    if not options.initializes:
        variables["TIDEPOOL_DRYRUN_NO_INIT"] = "1"
    return variables


def check_loads(target, own_environment):
    """Raises DryRunError where the interpreter cannot load the stand-in: PyTorch would speak of other libraries."""
    runtime = f"libcudart.so.{target.cuda_major}"
    done = subprocess.run([target.python, "-c", f"import ctypes; ctypes.CDLL({runtime!r})"], env=own_environment,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        cause = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise DryRunError(f"{target.python} cannot load the stand-in for {runtime}: {cause} (an environment with its own, older "
                          "libstdc++ needs a newer one: conda install -c conda-forge libstdcxx)")


def free_port():
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return any_port.getsockname()[1]


def run(command, own_environment, time_limit, stdin=subprocess.DEVNULL):
    """Runs the program, with its output on standard error. It ends early where one of its processes has failed."""
    folder = own_environment.get("TIDEPOOL_DRYRUN_FOLDER")
    begin = time.monotonic()
    program = subprocess.Popen(command, env=own_environment, stdout=STANDARD_ERROR, stdin=stdin,
                               start_new_session=True)
    finished = Finished(0, False, False)
    try:
        try:
            finished.ran_out_of_time = not wait(program, folder, time_limit)
        except KeyboardInterrupt:
            finished.was_interrupted = True
        if program.returncode is None:
            signal_all(program, folder, signal.SIGTERM)
            wait_until_gone(program, folder)
    finally:  # at a second Ctrl-C too
        signal_all(program, folder, signal.SIGKILL)
        wait_until_gone(program, folder)
    finished.status = program.wait()
    finished.seconds = time.monotonic() - begin
    return finished


def wait(program, folder, time_limit):
    """Waits until the program has ended, or one of its processes has failed and the others had time to end. Returns false
    if it ran out of time."""
    end = time.monotonic() + time_limit
    while time.monotonic() < end:
        try:
            program.wait(min(SECONDS_BETWEEN_LOOKS, max(0, end - time.monotonic())))
            return True
        except subprocess.TimeoutExpired:
            pass
        failed = None if folder is None else time_of_failure(folder)
        if failed is not None and time.time() > failed + SECONDS_FOR_OTHERS:
            return True
    return False


def time_of_failure(folder):
    """Returns when the first process wrote that it failed, or None."""
    times = [path.stat().st_mtime for path in pathlib.Path(folder).glob("process-*.json")
             if json.loads(path.read_text())["reason"] == "error"]
    return min(times, default=None)


def processes_of(folder):
    """Returns the processes of the program. Launchers give their ranks sessions of their own, but all inherit the
    environment."""
    mark = f"TIDEPOOL_DRYRUN_FOLDER={folder}".encode()
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            pass  # it has ended, or is of another user
    return found


def wait_until_gone(program, folder):
    """Waits some seconds for all processes to end. After SIGTERM each writes the memory so far; one in a long call of a library may not."""
    begin = time.monotonic()
    while time.monotonic() < begin + seconds_to_answer(folder) and (program.poll() is None or processes_of(folder)):
        time.sleep(0.05)


def seconds_to_answer(folder):
    """Returns how long a process may take to end."""
    is_writing = folder is not None and any(pathlib.Path(folder, f"answers-{process}").exists() for process in processes_of(folder))
    return SECONDS_TO_WRITE if is_writing else SECONDS_TO_ANSWER


def signal_all(program, folder, number):
    """Sends a signal to all processes of the program, also to those that it left: once, since a process may end at the first."""
    others = [process for process in processes_of(folder) if group_of(process) != program.pid]
    for send, process in [(os.killpg, program.pid), *((os.kill, process) for process in others)]:
        try:
            send(process, number)
        except (ProcessLookupError, PermissionError):
            pass


def group_of(process):
    try:
        return os.getpgid(process)
    except ProcessLookupError:
        return None

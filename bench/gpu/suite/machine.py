# SPDX-License-Identifier: Apache-2.0
"""The machine that the suite runs on: its parts, faults that a reader must know, and the environment of the steps."""
import glob
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig

from session import HANGS, ending

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
CUDA_OF_PROGRAMS = (13, 0)
DRIVER_OF_PROGRAMS = 580  # the first with CUDA 13.0
USED_MIB = 2048  # by the driver alone it is less
SMI = ("name", "driver_version", "memory.total", "memory.used", "compute_mode", "mig.mode.current", "pcie.link.gen.current",
       "pcie.link.width.current")
TORCH = """import json, torch
p = torch.cuda.get_device_properties(0)
print(json.dumps({"version": torch.__version__, "cudnn": torch.backends.cudnn.version(), "gpu": p.name, "l2": getattr(p, "L2_cache_size", None)}))"""
PACKAGES = {"cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy"), "numba": ("numba-cuda",), "cuda_core": ("cuda-core",),
            "onnxruntime": ("onnxruntime-gpu",)}


def first_line(*command, seconds=10):
    """Returns the first line that a program prints, None if it is not there or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else None


def version_of(names):
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def packages_folder():
    """Returns the folder with PyTorch's wheels, or where they would be."""
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.origin:
        return os.path.dirname(os.path.dirname(spec.origin))
    return sysconfig.get_paths()["purelib"]


def environment(pack):
    """Returns the environment of the steps. `pack` is the folder that scripts/gpu_pack.sh made."""
    here = dict(os.environ, PYTHONUNBUFFERED="1")
    # The package searches schedules with the command tidepool of PATH where its module is built for another Python. A shell's
    # PATH may lack the folder where the toolkit installs compute-sanitizer and nvcc.
    here["PATH"] = ":".join((os.path.join(pack, "bin"), here.get("PATH", "/usr/bin:/bin"), "/usr/local/cuda/bin"))
    nvcc = shutil.which("nvcc", path=here["PATH"])
    if nvcc is not None:
        here.setdefault("CUDA_HOME", os.path.dirname(os.path.dirname(os.path.realpath(nvcc))))
    # cuDNN and the CUDA libraries of wheels lie where only PyTorch looks for them.
    wheels = [os.path.join(packages_folder(), "nvidia", part, "lib") for part in ("cudnn", "cu13")]
    libraries = [here.get("LD_LIBRARY_PATH"), os.path.join(pack, "lib"), *filter(os.path.isdir, wheels)]
    here["LD_LIBRARY_PATH"] = ":".join(filter(None, libraries))
    here["PYTHONPATH"] = os.path.join(pack, "python")
    here["TIDEPOOL_C_LIBRARY"] = next(iter(sorted(glob.glob(os.path.join(pack, "lib", "libtidepool_c.so*")))), "")
    here["TIDEPOOL_TORCH_LIBRARY"] = os.path.join(pack, "lib", "libtidepool_torch.so")
    here["TIDEPOOL_TORCH_SOURCES"] = os.path.join(ROOT, "bindings", "torch")
    here["TIDEPOOL_INCLUDE"] = os.path.join(ROOT, "include")
    here.setdefault("TIDEPOOL_CACHE", "/tmp/tidepool-gpu-cache")  # for both parts
    return here


def ask_smi():
    """Returns the driver's answers, None without nvidia-smi, and the other processes on the GPU."""
    line = first_line("nvidia-smi", "--query-gpu=" + ",".join(SMI), "--format=csv,noheader")
    if line is None:
        return None, []
    others = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader"],
                            capture_output=True, text=True, timeout=10, check=False).stdout
    return dict(zip(SMI, (part.strip() for part in line.split(",")))), [text for text in others.splitlines() if text.strip()]


def ask_torch(session):
    if importlib.util.find_spec("torch") is None:
        return {"missing": f"no PyTorch for {sys.executable}"}
    status, out, err = session.command([sys.executable, "-c", TORCH], 60)
    try:
        return json.loads(out)
    except ValueError:
        said = (err.strip().splitlines() or ["it said nothing"])[-1]
        return {"missing": f"PyTorch finds no GPU: {said}" if status != HANGS else "PyTorch hangs at its start"}


def is_gvisor():
    try:
        with open("/proc/version", encoding="utf-8") as file:
            if "4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016" in file.read():  # which gVisor says
                return True
    except OSError:
        pass
    log = first_line("sh", "-c", "dmesg | grep -i gvisor")
    return log is not None


class Machine:
    def __init__(self, session, pack):
        self.session, self.pack = session, pack
        path = session.environment["PATH"]
        self.smi, self.processes = ask_smi()
        self.gpu, self.no_gpu = self._ask_gpu()
        self.torch = ask_torch(session) if self.no_gpu is None else {"missing": "no GPU"}
        self.compiler = first_line(*os.environ.get("CXX", "c++").split(), "--version")
        self.sanitizer = shutil.which("compute-sanitizer", path=path)
        self.gvisor = is_gvisor()
        self.packages = {name: version_of(names) for name, names in PACKAGES.items()}
        self.cudnn = self._missing_cudnn()

    def program(self, name):
        return os.path.join(self.pack, "bin", name)

    def _ask_gpu(self):
        """Returns the answer of the probe about the device, or an empty one and the error."""
        probe = self.program("gpu_probe")
        if not os.access(probe, os.X_OK):
            return {}, None  # the steps say so
        status, out, err = self.session.command([probe, "device"], 30)
        if status == 0:
            return json.loads("{" + out + "}"), None
        return {}, err.strip() or f"gpu_probe device: {ending(status)}"

    def _missing_cudnn(self):
        status, _, err = self.session.command([sys.executable, "-c", "import ctypes; ctypes.CDLL('libcudnn.so.9')"], 30)
        return None if status == 0 else (err.strip().splitlines() or ["libcudnn.so.9 cannot be loaded"])[-1]

    def facts(self):
        return {"cpu": cpu(), "cores": os.cpu_count(), "kernel": platform.release(), "glibc": platform.libc_ver()[1],
                "gvisor": self.gvisor, "python": platform.python_version(), "gpu": self.gpu, "nvidia_smi": self.smi,
                "torch": self.torch, "compiler": self.compiler, "compute_sanitizer": self.sanitizer, "packages": self.packages,
                "libcudnn.so.9": self.cudnn or "found"}

    def warnings(self, assumed):
        """Yields each fact that changes the meaning of answers. `assumed` are the versions of the predictions."""
        if self.no_gpu is not None:
            yield self.no_gpu
        if self.smi is None:
            yield "no nvidia-smi: the driver's version, MIG and other processes on the GPU are unknown"
        else:
            yield from self._warnings_of_smi()
        if self.compiler is None:
            yield "no C++ compiler (c++): tidepool.torch cannot compile its allocator, so steps with it are left out"
        if "missing" in self.torch:
            yield self.torch["missing"] + ": steps with PyTorch are left out"
        else:
            now = (self.torch["version"].split("+")[0], self.torch["cudnn"])
            if now != (assumed["torch"], assumed["cudnn"]):
                yield (f"PyTorch {now[0]} with cuDNN {now[1]}, but the predictions assume {assumed['torch']} with "
                       f"{assumed['cudnn']}: snapshots and workspaces may differ for that reason")
        if self.gvisor:
            yield "gVisor: compute-sanitizer refuses the device here, and calls of the system are slower"

    def _warnings_of_smi(self):
        if self.smi["mig.mode.current"] == "Enabled":
            yield f"{self.smi['name']} is divided by MIG: memory and times are those of one of its instances"
        if self.processes:
            yield f"other processes on the GPU, so times and free memory are theirs too: {'; '.join(self.processes)}"
        elif int(re.match(r"\d*", self.smi["memory.used"])[0] or 0) > USED_MIB:
            yield f"{self.smi['memory.used']} of the GPU are in use, by processes that nvidia-smi does not show here"
        major = re.match(r"\d+", self.smi["driver_version"])
        if major and int(major[0]) < DRIVER_OF_PROGRAMS:
            yield (f"driver {self.smi['driver_version']} is too old, expected {DRIVER_OF_PROGRAMS} or newer: the programs need "
                   f"CUDA {'.'.join(map(str, CUDA_OF_PROGRAMS))}")

    def lacks(self, need):
        """Returns why a part of the machine is not there, None if it is."""
        if need == "torch":
            return self.torch.get("missing")
        if need == "compiler":
            return None if self.compiler else "no C++ compiler (c++) for the allocator of tidepool.torch"
        if need == "cudnn":
            return self.cudnn
        if need == "compute-sanitizer":
            if self.gvisor:
                return "gVisor: compute-sanitizer refuses the device"
            return None if self.sanitizer else "no compute-sanitizer in PATH or /usr/local/cuda/bin"
        if need in PACKAGES:
            return None if self.packages[need] else f"no package {' or '.join(PACKAGES[need])} for {sys.executable}"
        return None if os.path.exists(self.program(need)) else f"{self.program(need)} does not exist: scripts/gpu_pack.sh makes it"


def cpu():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        found = re.search(r"^model name\s*: (.*)$", file.read(), re.M)
    return found[1] if found else platform.machine()

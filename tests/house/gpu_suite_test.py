#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests scripts/gpu_suite.sh with programs that print prepared texts, and on the stand-in with the real ones.

Its file is JSON with all earlier answers when the suite is killed, and names a step that hangs, dies or fails.
usage: gpu_suite_test.py SOURCE_FOLDER [BUILD_FOLDER]      with a build folder: its programs on the stand-in alone
"""
import contextlib
import gzip
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.abspath(sys.argv[1])
SUITE = os.path.join(SOURCE, "bench", "gpu", "suite")
sys.path[:0] = [SUITE, os.path.join(SOURCE, "tests", "gpu", "probe")]
import machine  # noqa: E402
import predictions  # noqa: E402
import probe  # noqa: E402
import steps  # noqa: E402
import suite  # noqa: E402
from session import Session, Step  # noqa: E402

# Prints $TEXT_name or `{}`, and ends with $STATUS_name. $DO_name is run before.
PROGRAM = """#!/bin/bash
name=%s
text=TEXT_$name status=STATUS_$name do=DO_$name
eval "${!do-}"
printf '%%s' "${!text-{\\}}"
exit "${!status-0}"
"""
# One test passes, one fails, one aborts, one hangs, in this order; a filter leaves tests out, as gtest does.
GTEST = """#!/bin/bash
filter=
for word in "$@"; do case $word in --gtest_filter=-*) filter=:${word#--gtest_filter=-}: ;; esac; done
has() { [[ $filter != *":$1:"* ]]; }
begin() { echo "[ RUN      ] $1"; }
status=0
if has A.Passes; then begin A.Passes; echo "[       OK ] A.Passes (1 ms)"; fi
if has A.Fails; then begin A.Fails; echo "x.cc:7: Failure"; echo "[  FAILED  ] A.Fails (2 ms)"; status=1; fi
if has A.Aborts; then begin A.Aborts; echo "about to abort"; kill -ABRT $$; fi
if has A.Hangs; then begin A.Hangs; exec sleep 600; fi
if has B.Passes/1; then begin B.Passes/1; echo "[       OK ] B.Passes/1, where GetParam() = 8 (3 ms)"; fi
exit $status
"""
DEVICE = '"process": 0, "name": "A GPU", "driver": 13000, "vmm": 1'
SMI = """#!/bin/bash
case $1 in
  *compute-apps*) printf "$SMI_OTHERS" ;;
  *) echo "NVIDIA H200, ${SMI_DRIVER-580.159.04}, 143771 MiB, ${SMI_USED-4} MiB, Default, ${SMI_MIG-Disabled}, 5, 16" ;;
esac
"""
TORCH = """__version__ = "2.10.0+cu130"
import types
cuda = types.SimpleNamespace(get_device_properties=lambda i: types.SimpleNamespace(name="NVIDIA H200", L2_cache_size=1))
backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(version=lambda: 91900))
"""


def write_program(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)


class Pack:
    """A folder as scripts/gpu_pack.sh makes it, with prepared programs."""

    def __init__(self, folder):
        self.folder, self.tools = os.path.join(folder, "pack"), os.path.join(folder, "tools")
        self.out = os.path.join(folder, "out.json")
        for path in ("bin", "lib", "python"):
            os.makedirs(os.path.join(self.folder, path))
        os.mkdir(self.tools)
        for name in ("gpu_bench", "tidepool", "cnmem_bench"):
            write_program(os.path.join(self.folder, "bin", name), PROGRAM % name)
        write_program(os.path.join(self.folder, "bin", "gpu_test"), GTEST)
        write_program(os.path.join(self.folder, "bin", "gpu_probe"), PROGRAM % "probe")
        self.environment = {**os.environ, "TIDEPOOL_GPU_FOLDER": self.folder, "TMPDIR": folder, "TEXT_probe": DEVICE,
                            "PATH": self.tools + ":" + os.environ["PATH"]}

    def begin(self, *words, **variables):
        return subprocess.Popen([os.path.join(SOURCE, "scripts", "gpu_suite.sh"), *words], env={**self.environment, **variables},
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *words, **variables):
        """Returns the exit status, the file and the standard error of the suite."""
        process = self.begin(words[0], self.out, *words[1:], **variables)
        said = process.communicate()[1]
        return process.returncode, self.answers(), said

    def answers(self):
        with open(self.out, encoding="utf-8") as file:
            return json.load(file)


def check_kill(pack):
    """The machine ends in the third step."""
    begun = pack.out + ".begun"
    process = pack.begin("a", pack.out, "bench_pairs", "bench_growth", "bench_remap", TEXT_gpu_bench='{"figure": 1}',
                         DO_gpu_bench=f'if [ $1 = remap ]; then echo $$ >{begun}.part; mv {begun}.part {begun}; exec sleep 600; fi')
    while not os.path.exists(begun):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.kill()
    process.communicate()
    with open(begun, encoding="utf-8") as file:
        os.kill(int(file.read()), signal.SIGKILL)
    its = pack.answers()["steps"]
    assert its["bench_pairs"] == {"status": "passed", "seconds": its["bench_pairs"]["seconds"], "result": {"figure": 1}}, its
    assert its["bench_growth"]["result"] == {"figure": 1} and its["bench_remap"]["status"] == "running", its


def check_bad_steps(pack):
    status, file, _ = pack.run("a", "bench_pairs", "bench_growth", "bench_copies", TEXT_gpu_bench='{"machine": 1}\n{"half": ',
                               DO_gpu_bench="case $1 in pairs) echo bad >&2; STATUS_gpu_bench=3 ;; growth) kill -ABRT $$ ;; esac")
    its = file["steps"]
    assert status == 1 and its["bench_copies"] == {**its["bench_copies"], "status": "passed", "result": [{"machine": 1}]}, its
    assert its["bench_pairs"]["status"] == "failed" and its["bench_pairs"]["result"] == [{"machine": 1}], its
    assert its["bench_pairs"]["failures"] == [{"command": "gpu_bench pairs", "ended": "exit status 3", "said": "bad\n"}], its
    assert its["bench_growth"]["failures"][0]["ended"] == "dies of SIGABRT", its


def check_session(folder):
    """A command that hangs costs itself alone, and time that ends leaves steps out."""
    answers = {}
    session = Session(os.path.join(folder, "session.json"), 600, answers)
    shell = lambda text: ["bash", "-c", text]
    with contextlib.redirect_stderr(io.StringIO()):
        session.run(Step("hangs", 600, [shell("echo '{\"before\": 1}'; sleep 600"), shell("echo '{\"second\": 2}'")], each=1))
        # The process that the step leaves holds its output open.
        session.run(Step("leaves", 600, [shell(f"sleep 600 & echo plain; echo kept >{session.files}/kept")]))
        session.run(Step("unprepared", 600, [shell("echo '{}'")], prepare=[shell("exit 4")]))
        session.run(Step("no_program", 600, [["/no/such/program"]]))
        session.run(Step("slow", 3, [shell("echo '{\"first\": 1}'"), shell("exec sleep 600"), shell("echo '{\"third\": 3}'")], each=600))
        session.run(Step("long", 2, [shell("exec sleep 600")] * 3, each=1.5))
        session.end = time.monotonic()
        session.run(Step("late", 600, [shell("true")]))
    session.close()
    its = answers["steps"]
    assert its["hangs"]["status"] == "hangs" and its["hangs"]["result"] == [{"before": 1}, {"second": 2}], its
    assert its["leaves"]["result"] == {"said": "plain\n"} and its["unprepared"]["result"] is None, its
    assert its["unprepared"]["failures"][0]["ended"] == "exit status 4" and its["no_program"]["status"] == "failed", its
    assert its["slow"]["status"] == "out of time" and its["slow"]["result"] == [{"first": 1}], its
    assert its["long"]["failures"][0]["ended"] == "hangs" and its["long"]["status"] == "out of time", its
    assert its["late"] == {"status": "left out", "why": "0 s remain, expected 5"}, its
    with open(session.path, encoding="utf-8") as file:
        assert json.load(file) == answers
    assert b"kept" in subprocess.run(["tar", "tf", os.path.join(folder, "session.tar")], capture_output=True, check=True).stdout


def check_no_room(folder):
    session = Session(os.path.join(folder, "none", "x.json"), 600, {})
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        session.run(Step("one", 600, [["echo", '{"figure": 7}']]))
    session.close()
    assert list(suite.warnings_of_room(os.path.join(folder, "x.json"))) == []
    suite.ROOM, room = 1 << 62, suite.ROOM
    assert "MiB are free for " in list(suite.warnings_of_room(os.path.join(folder, "x.json")))[0]
    suite.ROOM = room
    assert "cannot be written (No such file or directory), so it lacks:" in said.getvalue() and '{"figure": 7}' in said.getvalue()


def check_gtest(pack):
    done = subprocess.run([sys.executable, os.path.join(SUITE, "run_gtest.py"), "3", "60", os.path.join(pack.folder, "bin", "gpu_test")],
                          capture_output=True, text=True, check=False)
    its = json.loads(done.stdout)
    assert done.returncode == 1 and its["passed"] == 2 and list(its["failed"]) == ["A.Fails"] and its["ended"] == 0, its
    assert its["hangs_or_dies"] == {"A.Aborts": -signal.SIGABRT, "A.Hangs": "hangs"}, its
    assert [[row["test"], row["said"][-1]] for row in its["said"]] == [
        ["A.Fails", "x.cc:7: Failure"], ["A.Aborts", "about to abort"], ["A.Hangs", "[ RUN      ] A.Hangs"]], its
    done = subprocess.run([sys.executable, os.path.join(SUITE, "run_gtest.py"), "600", "0", os.path.join(pack.folder, "bin", "gpu_test"),
                           "--gtest_filter=-A.Passes:A.Fails:A.Aborts:"], capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["ended"] == "out of time" and done.returncode == 1, done


def check_machines(pack):
    """Each machine that a reader must know about has a line in the file and on standard error."""
    def warnings(**variables):
        status, file, said = pack.run("a", "bench_pairs", **variables)
        assert all("gpu_suite: " + text in said for text in file["warnings"]), said
        return status, "\n".join(file["warnings"]), file

    bare = os.path.join(pack.folder, "bare")  # a PATH without nvidia-smi and compilers
    os.mkdir(bare)
    for name in ("bash", "dirname", "sh", "python3", "dmesg", "grep"):
        path = subprocess.run(["which", name], capture_output=True, text=True, check=False).stdout.strip()
        if name == "python3":
            path = sys.executable
        if path:
            os.symlink(path, os.path.join(bare, name))
    status, said, file = warnings(PATH=bare)
    assert status == 0 and "no nvidia-smi" in said and "no C++ compiler (c++)" in said and file["machine"]["compiler"] is None, said
    write_program(os.path.join(pack.tools, "nvidia-smi"), SMI)
    status, said, file = warnings()
    assert status == 0 and "nvidia-smi" not in said and file["machine"]["nvidia_smi"]["driver_version"] == "580.159.04", said
    status, said, _ = warnings(SMI_MIG="Enabled", SMI_OTHERS="77, /usr/bin/other, 512 MiB\\n")
    assert status == 0 and "NVIDIA H200 is divided by MIG" in said and "other processes on the GPU" in said and "77, /usr/bin/other" in said
    assert "9000 MiB of the GPU are in use, by processes that" in warnings(SMI_USED="9000")[1]
    no_gpu = {"DO_probe": "echo 'no GPU: the driver speaks CUDA 12.2' >&2", "TEXT_probe": "", "STATUS_probe": "77"}
    status, said, file = warnings(SMI_DRIVER="535.104.05", **no_gpu)
    assert status == 1 and "driver 535.104.05 is too old, expected 580 or newer" in said and file["steps"] == {}, said
    os.remove(os.path.join(pack.tools, "nvidia-smi"))
    status, said, _ = warnings(**no_gpu)
    assert status == 0 and "no GPU: the driver speaks CUDA 12.2" in said, said
    with open(os.path.join(pack.folder, "python", "torch.py"), "w", encoding="utf-8") as module:
        module.write(TORCH)
    status, said, _ = warnings(PYTHONPATH=os.path.join(pack.folder, "python"))
    assert "PyTorch 2.10.0 with cuDNN 91900, but the predictions assume 2.11.0 with 91900" in said, said


def check_missing_parts(pack):
    os.remove(os.path.join(pack.folder, "bin", "gpu_bench"))
    status, file, _ = pack.run("a", "bench_pairs")
    assert status == 0 and "gpu_bench does not exist: scripts/gpu_pack.sh makes it" in file["steps"]["bench_pairs"]["why"], file
    its = machine.Machine.__new__(machine.Machine)
    its.gvisor, its.sanitizer, its.compiler, its.pack = True, "/x", None, pack.folder
    its.torch, its.cudnn = {"missing": "no PyTorch for x"}, "libcudnn.so.9: cannot open shared object file"
    its.packages = dict.fromkeys(machine.PACKAGES)
    expected = {"compute-sanitizer": "gVisor", "compiler": "no C++ compiler", "torch": "no PyTorch", "cudnn": "libcudnn.so.9",
                "cupy": "no package cupy-cuda13x", "numba": "no package numba-cuda",
                "cuda_core": "no package cuda-core", "onnxruntime": "no package onnxruntime-gpu"}
    assert all(its.lacks(need).startswith(text) for need, text in expected.items()), expected
    assert its.lacks("tidepool") is None


def check_calls(pack):
    for words, text in ((["c"], "usage:"), ([], "usage:"), (["a", "/no/folder/x.json"], "cannot be written"),
                        (["a", pack.folder], "cannot be written"), (["a", pack.out, "nothing"], "no step 'nothing', expected some of probe")):
        process = pack.begin(*words)
        said = process.communicate()[1]
        assert process.returncode == 2 and text in said, said
    for part in ("a", "b"):
        names = [step.name for step in steps.PARTS[part](pack.folder, "work", "files")]
        assert len(names) == len(set(names))


def check_losses():
    def row(allocator, *losses):
        return {"model": "net", "allocator": allocator, "losses": list(losses)}

    equal = steps.judge_losses([row("native", 1, 2), row("native", 1, 2), row("tidepool", 1, 2), {"failed": 1}])
    assert equal == {"equal": {"net": {"native again": True, "tidepool": True}}, "networks_that_repeat_themselves": 1}
    assert steps.judge_losses([row("native", 1, 2), row("native", 1, 2), row("tidepool", 1, 3)])["status"] == "failed"
    # A network with other losses in a second run proves nothing about tidepool.
    shaky = [row("native", 1, 2), row("native", 1, 3), row("tidepool", 1, 4)]
    assert steps.judge_losses(shaky)["status"] == "failed"
    sure = [dict(row(name, 5), model="sure") for name in ("native", "native", "planned")]
    assert "status" not in steps.judge_losses(shaky + sure)


def check_budgets(pack):
    """A row with an error fails its step, a budget that is refused does not, and each step runs one network in one way."""
    row, refused, error = {"share": 1, "seconds": 1}, {"share": 0.35, "refused": "too small"}, {"share": 1, "error": "no tool"}
    assert steps.judge_budgets([row, refused]) == {} == steps.judge_budgets(row) == steps.judge_budgets(None)
    assert steps.judge_budgets([row, error, error]) == {"status": "failed", "rows_with_errors": 2}
    assert steps.judge_budgets(error)["status"] == "failed"
    its = suite.chosen(steps.PARTS["b"](pack.folder, "work", "files"), ["budgets"])
    assert len(its) == 14 and [len(step.commands) for step in its] == [1] * 14, its
    assert [step.name.split("_")[1] for step in its[:4]] == ["compiled", "compiled", "offload", "offload"], its
    assert all(step.judge is steps.judge_budgets and step.seconds <= 140 for step in its), its


def check_tool(pack):
    """The package finds the command of the pack, where its module is built for another Python."""
    os.remove(os.path.join(pack.folder, "bin", "tidepool"))
    write_program(os.path.join(pack.folder, "bin", "tidepool"), "#!/bin/bash\necho its own\n")
    found = subprocess.run(["tidepool"], capture_output=True, text=True, check=True, env=machine.environment(pack.folder))
    assert found.stdout == "its own\n", found


def check_predictions(folder):
    def snapshot(name, sizes):
        events = [{"action": "segment_alloc", "addr": 1, "size": 2 << 20}]
        for address, size in enumerate(sizes, 2):
            events += [{"action": "alloc", "addr": address, "size": size}, {"action": "free_requested", "addr": address, "size": size}]
        path = os.path.join(folder, name + ".pickle.gz")
        with gzip.open(path, "wb") as file:
            pickle.dump({"device_traces": [events], "segments": [{"device": 0, "total_size": 2 << 20, "blocks": []}]}, file)
        return predictions.Traffic(path)

    dry = snapshot("dry", [512, 1024])
    predicted = {"events": " ".join(predictions.words_of(dry)), "peak_live": dry.peak_live, "peak_reserved": dry.peak_reserved}
    same = predictions.compare_snapshot(predicted, dry)
    assert same["all_events_equal"] and same["equal_sizes_percent"] == 100 and same["first_difference"] == "none", same
    other = predictions.compare_snapshot(predicted, snapshot("gpu", [512, 2048]))
    assert not other["all_events_equal"] and other["equal_sizes_percent"] == 50 and other["live_over_real"] == 0.5, other
    assert other["first_difference"] == "event 3: a1024, on the GPU a2048", other
    for gpu in ("h200", "h100"):
        its = predictions.read(gpu)
        assert gpu.upper() in its["assumes"]["gpu"] and set(its["networks"]) == set(predictions.NETWORKS) and its["workspaces"]["rows"]


def check_probe():
    one = {"a": {"process": 0, "code": "x", "time_us": 1}, "b": {"process": 0, "v": 1}, "device": {"process": 0, "sms": 1, "vmm": 1}}
    other = {"a": {"process": 0, "code": "y", "time_us": 2}, "b": {"process": -11}, "device": {"process": 0, "sms": 2, "vmm": 1}}
    assert list(probe.differences(one, other)) == [("a", "code", "x", "y"), ("b", "process", 0, -11)]
    assert list(probe.differences({"a": {"status": 1, "us": 1}}, {"a": {"status": 0, "us": 2}})) == [("a", "status", 1, 0)]
    # A member that one side lacks is a difference of its own only if no other explains it.
    assert list(probe.differences({"a": {"x": 1, "y": 2}}, {"a": {"x": 0}})) == [("a", "x", 1, 0)]
    assert list(probe.differences({"a": {"x": 1, "y": 2}}, {"a": {"x": 1}})) == [("a", "y", 2, None)]
    assert list(probe.differences({"a": {}}, {})) == [("a", "asked", True, False)]


def check_on_stand_in(build, folder):
    """The real programs of a build on the stand-in: answers come, and mean nothing."""
    pack = Pack(folder)
    for name, path in {"gpu_test": "gpu/gpu_test", "gpu_bench": "gpu/gpu_bench", "gpu_probe": "gpu/gpu_probe",
                       "tidepool": "trace_replay/tidepool", "cnmem_bench": "bench/cnmem_bench"}.items():
        os.remove(os.path.join(pack.folder, "bin", name))
        os.symlink(os.path.join(build, path), os.path.join(pack.folder, "bin", name))
    libraries = ":".join(os.path.join(build, path) for path in ("cudart_host", "bindings/cnmem", "bindings/c"))
    variables = {"LD_LIBRARY_PATH": libraries, "CUDART_HOST_MEMORY": str(64 << 30)}
    status, file, said = pack.run("a", "tests", "bench_growth", "bench_remap", **variables)
    its = file["steps"]
    assert its["tests"]["result"]["passed"] > 30 and its["tests"]["result"]["failed"], said  # kernels do nothing here
    # gtest fails a suite without instances unless the program allows it.
    assert not any(name.startswith("GoogleTestVerification") for name in its["tests"]["result"]["failed"]), its
    assert status == 1 and {"remap"} <= set(its["bench_remap"]["result"][1]) and its["bench_growth"]["status"] == "passed", its
    status, file, said = pack.run("b", "replay", **variables)
    assert status == 0 and file["steps"]["replay"]["result"]["served"], said
    status, file, said = pack.run("a", CUDA_VISIBLE_DEVICES="", **variables)
    assert status == 0 and "no GPU: cudaErrorNoDevice" in file["warnings"][0] and "nothing was measured" in said, said


def main():
    checks = [check_kill, check_bad_steps, check_gtest, check_machines, check_calls, check_missing_parts,
              check_budgets, check_tool]
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) > 2:
            check_on_stand_in(os.path.abspath(sys.argv[2]), folder)
            return
        for number, check in enumerate(checks):
            own = os.path.join(folder, str(number))
            os.mkdir(own)
            check(Pack(own))
        for check in (check_session, check_no_room, check_predictions):
            check(folder)
    check_losses()
    check_probe()


if __name__ == "__main__":
    main()

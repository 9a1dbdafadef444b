#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs jobs with libraries of today under dry runs, and writes docs/guide/libraries.md.

usage: libraries.py run TOOL PYTHON [JOB...]     runs the jobs, or all, and keeps their results in libraries.json
       libraries.py test TOOL PYTHON             runs the quick ones that PYTHON has the libraries of, and compares with the results kept
       libraries.py page [--check]               writes the page of the results, or compares

PYTHON has PyTorch 2.11 and the libraries; a library that it lacks is "not installed". Here is how such an environment is made:

    pip install torch==2.11.0 torchvision==0.26.0 timm transformers peft trl accelerate diffusers lightning bitsandbytes torchtitan==0.2.2 torchao==0.17.0 wheel
    pip install --no-build-isolation deepspeed
    pip install megatron-core==0.16.1 einops

xformers has an environment of its own, since its wheel needs the CUDA runtime 12:

    pip install torch==2.10.0 xformers==0.0.35

and so have engines of inference, which bring their own PyTorch. At their first run they compile kernels for some minutes:

    pip install vllm==0.33.0
    pip install sglang==0.5.23
"""
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
FIGURES = HERE / "libraries.json"
PAGE = ROOT / "docs/guide/libraries.md"
sys.path.insert(0, str(HERE))

import jobs  # noqa: E402

# The names of the libraries in the order of the page. A job's name begins with its library's.
LIBRARIES = ("torchvision", "timm", "transformers", "peft", "trl", "accelerate", "diffusers", "lightning", "deepspeed", "torchtitan", "megatron_core",
             "transformer_engine", "torchao", "bitsandbytes", "xformers", "flash_attn", "vllm", "sglang")
OF_8_RANKS = ("deepspeed_zero_", "torchtitan_", "megatron_core_")
OPTIONS = {"lightning_ddp": ("--devices", "2"), **{name: ("--world", "8") for name in vars(jobs) if name.startswith(OF_8_RANKS)}}
QUICK = ("timm_convolutions", "transformers_generate", "peft_lora")
# Reasons beside the messages, by the names of the jobs.
REASONS = {
    "transformers_flash_attention": "As on a GPU without flash-attn, which is not installed",
    "transformer_engine_layer": "Its part for PyTorch has no wheel: pip compiles it",
    "flash_attn_attention": "It has no wheel: pip compiles it",
    "vllm_generates": "Dry runs choose its older model runner (`VLLM_USE_V2_MODEL_RUNNER=0`): in the newer one a kernel counts the tokens, and the engine "
                      "waits for some for ever",
    "vllm_compiled": "With an engine process of its own, which vLLM kills after 5 s, a busy machine may be too slow to write the answer",
    "sglang_generates": "It fails as it captures CUDA graphs: FlashInfer's RMS norm is a kernel of CuTe DSL, and `libcute_dsl_runtime.so` holds "
                        "NVIDIA's runtime itself, which a dry run cannot replace",
    "xformers_attention": "Its wheel needs the CUDA runtime 12, which PyTorch 2.11 does not bring: there it finds no operator",
}


def library(job):
    return next(name for name in LIBRARIES if job.startswith(name + "_"))


def all_jobs():
    """Returns the names of the jobs in the order of the page."""
    names = [name for name, one in vars(jobs).items() if inspect.isfunction(one) and one.__doc__ and name.startswith(LIBRARIES)]
    return sorted(names, key=lambda name: LIBRARIES.index(library(name)))


def version(python, name):
    """Returns the version of a package that the interpreter has, or null."""
    code = f"import importlib.metadata as m\ntry: print(m.version('{name}'))\nexcept m.PackageNotFoundError: pass"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip() or None


def run(tool, python, job):
    """Returns the result of a dry run of a job."""
    found = {"version": version(python, library(job)), "torch": version(python, "torch").split("+", maxsplit=1)[0]}
    if not found["version"]:
        return {**found, "runs": False, "says": "not installed"}
    command = [tool, "dryrun", "--json", "--time-limit", "10m", *OPTIONS.get(job, ()), "--", python, str(HERE / "jobs.py"), job]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"})
    if done.returncode not in (0, 2):
        return {**found, "runs": False, "says": message(done.stderr)}
    answer = json.loads(done.stdout)
    return {**found, "runs": True, "steps": answer["steps"], "peak_live_bytes": answer["peak_live_bytes"],
            "peak_reserved_bytes": answer["peak_reserved_bytes"]}


def message(errors):
    """Returns the exception that ended a program, as its traceback names it."""
    lines = [line.strip() for line in errors.splitlines()]
    named = [line for line in lines if re.match(r"(\[rank\d+\]: ?)?[\w.]*(Error|Exception|NotImplemented\w*)\b: ", line)]
    return re.sub(r"^\[rank\d+\]: ?", "", (named or lines or [""])[-1])


def kept():
    return json.loads(FIGURES.read_text()) if FIGURES.exists() else {}


def keep(tool, python, *names):
    for job in names or all_jobs():
        found = run(tool, python, job)
        figures = {**kept(), job: found}
        FIGURES.write_text(json.dumps({one: figures[one] for one in all_jobs() if one in figures}, indent=1) + "\n")
        print(job, found, flush=True)


def test(tool, python):
    """Compares quick jobs with the results kept: that they run, and with versions that are kept their bytes."""
    figures, wrong = kept(), []
    for job in QUICK:
        found = run(tool, python, job)
        if not found["version"]:
            print(f"{job}: skipped, not installed")
            continue
        is_same = all(found[key] == figures[job][key] for key in ("version", "torch"))
        keys = ("runs", "steps", "peak_live_bytes") if is_same else ("runs",)
        if any(found.get(key) != figures[job].get(key) for key in keys):
            wrong.append(f"{job}: {found}, but {FIGURES.name} has {figures[job]}")
    if wrong:
        sys.exit("\n".join(wrong))


def table(figures):
    yield "| library | version | PyTorch | what ran | runs | PyTorch reserves | it says |"
    yield "|---|---|---|---|---|---:|---|"
    for job, found in figures.items():
        cells = (library(job).replace("_", "-"), found["version"] or "", found["torch"], getattr(jobs, job).__doc__, "yes" if found["runs"] else "no",
                 size(found["peak_reserved_bytes"]) if found["runs"] else "", says(job, found))
        yield f"| {' | '.join(cells)} |".replace("|  |", "| |")


def size(bytes_):
    return f"{bytes_ / (1 << 30):.1f} GiB" if bytes_ >= 1 << 30 else f"{bytes_ / (1 << 20):.0f} MiB"


def says(job, found):
    text = found.get("says", "")
    text = text if text in ("", "not installed") else f"`{text.replace('`', chr(39)).replace('|', '/')}`"
    return ". ".join(part for part in (text, REASONS.get(job)) if part)


def page():
    figures = kept()
    ran = sum(found["runs"] for found in figures.values())
    lines = ["# Libraries in dry runs", "",
             f"Small jobs with libraries of today, each run by [`tidepool dryrun`](dryrun.md) without a GPU, an H100 assumed: {ran} of {len(figures)} run.",
             "Jobs that do not are shown with what they say. `tests/frameworks/dryrun/libraries` has the jobs and what each gave; `libraries.py` there",
             "runs them again and makes this page.", "", *table(figures)]
    return "\n".join(lines) + "\n"


def main(words):
    if words[:1] == ["run"] and len(words) >= 3:
        unknown = [name for name in words[3:] if name not in all_jobs()]
        if unknown:
            sys.exit(f"no job '{unknown[0]}', expected one of {', '.join(all_jobs())}")
        keep(*words[1:])
    elif words[:1] == ["test"] and len(words) == 3:
        test(*words[1:])
    elif words == ["page"]:
        PAGE.write_text(page())
    elif words == ["page", "--check"]:
        if PAGE.read_text() != page():
            sys.exit(f"{PAGE.relative_to(ROOT)} is not that of {FIGURES.relative_to(ROOT)}; libraries.py page writes it")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])

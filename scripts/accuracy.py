#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares dry runs with memory that others measured on GPUs, and writes docs/guide/accuracy.md.

usage: accuracy.py measure TOOL PYTHON SOURCES [GROUP...]    runs the groups, or all, and keeps their figures
       accuracy.py page [--check]                            writes the page from the figures, or compares

Of the group `speedrun` it also runs one record, such as `speedrun/2025-11-12`.

PYTHON has PyTorch, torchvision, einops, einx 0.3 and jaxtyping. TORCH_2_6, TORCH_2_7, TORCH_2_8 and TORCH_2_10 name interpreters with older
versions, and LIGHTNING_2_2 one with PyTorch 2.6, Lightning 2.2, bitsandbytes 0.41, requests and no Triton, of which bitsandbytes 0.41 needs an older one;
TORCHAO_0_8 one with PyTorch 2.6, torchao 0.8, torchdata, datasets, tensorboard, tiktoken, blobfile and tabulate; TORCHAO_0_10 one with PyTorch
2.7, torchao 0.10 and the same besides; PEFT_0_19 one with PyTorch
2.13, transformers 5.13.1, bitsandbytes 0.49.2, datasets, accelerate and the peft of its source; TRANSFORMERS_4_57 one with PyTorch 2.11,
transformers 4.57 and pandas. SOURCES holds the folders
`assignment2-systems` (git clone of the GitHub user Wedsonlin, commit 87b0864), `modded-nanogpt` (github.com/KellerJordan/modded-nanogpt),
`nanochat` (github.com/karpathy/nanochat, commit 4346536), `litgpt` (github.com/Lightning-AI/litgpt, commit 0f021f3a), `torchtitan`
(github.com/pytorch/torchtitan, commit 9dec370) and `torchtitan-2025-03` (its commit 85e5f472), `peft` (github.com/huggingface/peft, commit 51c2ff66), `Liger-Kernel`
(github.com/linkedin/Liger-Kernel) and `snapshots`, which docs/guide/dryrun_assumptions.md names. Groups without their sources are skipped,
and keep the figures of the last run.
"""
import base64
import collections
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORDED = ROOT / "tests/frameworks/dryrun/recorded"
FIGURES = RECORDED / "accuracy.json"
PAGE = ROOT / "docs/guide/accuracy.md"
MIB, GIB = 1 << 20, 1 << 30
WITHIN = {"allocated": 0.01, "reserved": 0.03}

BLOCKING = {"TORCH_NCCL_BLOCKING_WAIT": "1"}  # gradients of DDP end at once
SEGMENTATION = ("--gpu", "v100-32", "--no-init", "--world", "4")

Row = collections.namedtuple("Row", "name kind published predicted")  # kind: allocated or reserved


class Missing(Exception):
    """A source or an interpreter that is not there."""


class Bench:
    """The tool, the interpreters and the sources of a run."""

    def __init__(self, tool, python, sources):
        self.tool, self.sources = os.path.abspath(tool), pathlib.Path(sources)
        self.pythons = {"2.11": python}
        self.row = ""  # how the rows begin that are to run

    def source(self, name):
        path = self.sources / name
        if not path.exists():
            raise Missing(f"no {path}")
        return path

    def python(self, version):
        """Returns the interpreter with a version of PyTorch, such as 2.6, or with one of a library, such as Lightning 2.2."""
        name = (version if " " in version else f"torch {version}").upper().replace(" ", "_").replace(".", "_")
        python = self.pythons.get(version) or os.environ.get(name)
        if not python:
            raise Missing(f"no {name}")
        return python

    def dry_run(self, *words, options=(), cwd=None, settings=()):
        """Returns the finished command for a program, which may run out of memory."""
        command = [self.tool, "dryrun", "--time-limit", "2h", *options, "--", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env={**os.environ, **dict(settings)})
        if done.returncode not in (0, 2):
            raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
        return done

    def run(self, *words, options=(), torch="2.11", cwd=None, settings=()):
        """Returns the output of a program in a dry run."""
        return self.dry_run(self.python(torch), *words, options=("--steps", "0", *options), cwd=cwd, settings=settings).stderr

    def torchrun(self, version, ranks, *words, options=(), **named):
        """Returns the finished rank 0 of a job of torchrun with nodes of 8 GPUs."""
        torchrun = pathlib.Path(self.python(version)).with_name("torchrun")
        return self.dry_run(torchrun, "--nnodes", ranks // 8, "--nproc-per-node", 8, *words, options=("--json", "--ranks", "0", *options), **named)

    def job(self, *words, **named):
        """Returns the answer for rank 0 of such a job."""
        return json.loads(self.torchrun(*words, **named).stdout)

    def wants(self, row):
        """Returns whether a group has to make a row."""
        return not self.row or row.startswith(self.row)

    def rows(self, program, *arguments, **named):
        """Returns the figures that one of our programs printed, by name."""
        text = self.run(RECORDED / "public" / program, *arguments, **named)
        return {name: int(bytes_) for name, bytes_ in re.findall(r"^row (\S+) (\d+)$", text, re.M)}


def snapshots(bench):
    sys.path.insert(0, str(RECORDED))
    import pairs

    for name, pair in pairs.PAIRS.items():
        if pair.snapshot.startswith("h200/"):
            continue
        bench.source("snapshots")
        recorded, dry = pairs.compare(pair, bench.tool, bench.python(pair.torch), bench.sources / "snapshots")
        yield Row(name, "allocated", recorded.peak_live, dry.peak_live)
        yield Row(name, "reserved", recorded.peak_reserved, dry.peak_reserved)


def networks(bench):
    sys.path.insert(0, str(RECORDED))
    import pairs

    for name in pairs.NETWORKS:
        recorded, dry = pairs.compare(pairs.PAIRS[name], bench.tool, bench.python("2.11"), "")
        yield Row(name, "allocated", recorded.peak_live, dry.peak_live)
        yield Row(name, "reserved", recorded.peak_reserved, dry.peak_reserved)


def course(bench, module, output, *arguments, options=()):
    """Runs a module of assignment2-systems, and returns the file that it wrote."""
    folder = bench.source("assignment2-systems")
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name, output)
        bench.run("-m", f"cs336_systems.{module}", *arguments, "--output", path, options=("--gpu", "h100", *options), cwd=folder,
                  settings={"PYTHONPATH": f"{folder}:{folder / 'cs336-basics'}"})
        return path.read_text()


def attention(bench):
    published = (bench.source("assignment2-systems") / "results/attention_benchmark.jsonl").read_text()

    def figures(text, suite):
        lines = [json.loads(line) for line in text.splitlines()]
        return {(one["seq_len"], one["d_model"]): one["activation_mib"] for one in lines if one["suite"] == suite}

    for suite, title in (("pytorch_attention", "eager"), ("torch_compile", "compiled")):
        predicted = figures(course(bench, "attention_benchmark", "out.jsonl", "--suite", suite, "--iters", "2"), suite)
        for (length, width), mebibytes in figures(published, suite).items():
            yield Row(f"{title}, {length} x {width}", "allocated", round(mebibytes * MIB), round(predicted[length, width] * MIB))


def sharded(bench):
    for mode in ("baseline", "sharded"):
        published = json.loads((bench.source("assignment2-systems") / f"results/sharded_optimizer_{mode}.json").read_text())
        predicted = json.loads(course(bench, "sharded_optimizer", "out.json", "--mode", mode, "--warmup-steps", "1", "--steps", "1",
                                      options=("--devices", "2", "--no-init")))
        for rank in (0, 1):
            ours, theirs = (one["results"][0]["memory"]["per_rank"][rank]["phases"] for one in (predicted, published))
            for phase in theirs:
                for key, name in (("phase_peak_gib", "peak"), ("allocated_gib", "in use")):
                    yield Row(f"{mode}, rank {rank}, {name} {phase.replace('_', ' ')}", "allocated", round(theirs[phase][key] * GIB),
                              round(ours[phase][key] * GIB))


def layers(bench):
    found = bench.rows("linear_forwards.py")
    yield Row("three forwards of one layer", "allocated", round(3084.9 * MIB), found["live"])
    yield Row("three forwards of one layer", "reserved", 4234 * MIB, found["reserved"])
    for setting, mebibytes in ((">:1", 514), (">:2", 768)):
        found = bench.rows("rounding.py", settings={"PYTORCH_CUDA_ALLOC_CONF": f"roundup_power2_divisions:[{setting}]"})
        yield Row(f"514 MiB with `roundup_power2_divisions:[{setting}]`", "reserved", mebibytes * MIB, found["reserved"])


def convolutions_2d(bench):
    published = dict(zip(range(1024, 2177, 128), (4.02, 5.52, 6.15, 6.77, 7.40, 8.02, 8.65, 9.27, 9.90, 10.52)))
    found = bench.rows("convolution_2d.py", options=("--gpu", "a100-80"))
    for width, gibibytes in published.items():
        yield Row(f"2048 x {width}", "reserved", round(gibibytes * GIB), found[str(width)])


def convolutions_3d(bench):
    published = {"136479": ("request", 108.00), "128947": ("request", 161.37), "132300": ("peak", 9.26), "132300-large": ("peak", 12.67)}
    for case, (kind, gibibytes) in published.items():
        found = bench.rows("convolution_3d.py", case, torch="2.6")
        yield Row(f"pytorch#{case}, {kind}", "allocated", round(gibibytes * GIB), found["refused" if kind == "request" else "peak"])


def transposed(bench):
    yield Row("pytorch#26112", "allocated", round(4.676 * GIB), bench.rows("transposed.py", options=("--gpu", "v100"))["peak"])


def vit(bench):
    published = {("fp32", "64"): 26.79, ("mixed", "64"): 18.21, ("bf16", "64"): 13.82, ("bf16", "16"): 5.69}
    for arguments, gigabytes in published.items():
        found = bench.rows("vit.py", *arguments, options=("--gpu", "a100-80", "--no-init"))
        yield Row(f"{arguments[0]}, batch {arguments[1]}", "reserved", round(gigabytes * 1e9), found["reserved"])


def detection(bench):
    published = {"fasterrcnn_resnet50_fpn": 5.2, "retinanet_resnet50_fpn": 4.1, "maskrcnn_resnet50_fpn": 5.4, "keypointrcnn_resnet50_fpn": 6.8}
    for name, gigabytes in published.items():
        found = bench.rows("detection.py", name, options=("--gpu", "v100-32", "--no-init", "--world", "8"), settings=BLOCKING)
        yield Row(name, "allocated", round(gigabytes * GIB), found["peak"])


def segmentation(bench):
    unet = {"DRIVE, 64 x 64": (64, 680), "STARE, 128 x 128": (128, 968), "HRF, 256 x 256": (256, 2525)}
    for name, (crop, mebibytes) in unet.items():
        found = bench.rows("segmentation.py", "unet", 4, 2, crop, crop, options=SEGMENTATION, settings=BLOCKING)
        yield Row(f"UNet-S5-D16, {name}", "allocated", mebibytes * MIB, found["peak"])
    fcn = {(50, 512, 1024): 5.7, (101, 512, 1024): 9.2, (50, 769, 769): 6.5, (101, 769, 769): 10.4}
    for (depth, height, width), gigabytes in fcn.items():
        found = bench.rows("segmentation.py", depth, 2, 19, height, width, options=SEGMENTATION, settings=BLOCKING)
        yield Row(f"FCN, R-{depth}-D8, {height} x {width}", "allocated", round(1000 * gigabytes * MIB), found["peak"])


# Records of modded-nanogpt by the version of PyTorch that runs them.
RECORDS = {
    "2025-04-16_Record7": "2.7",
    "2025-04-22_Record8": "2.7",
    "2025-05-24_StableTorch": "2.8",
    "2025-09-17_UpdateSmoothing": "2.8",
    "2025-09-30_SmoothedSnooMedium": "2.8",
    "2025-10-04_GPT2MediumLayerReuse": "2.10",
    "2025-11-12_BlockMaskRedundantOp": "2.7",
}
# Replacements in each program: no search of Inductor for faster kernels, which compiles each some twenty times, and fewer steps.
SHORT = ((r"(coordinate_descent_tuning *= *\(?\s*)True", r"\1False"), (r"(warmup_steps *= *)10\b", r"\g<1>2"),
         (r"(num_iterations *= *)\d+", r"\g<1>3"))
PEAK = re.compile(r"peak memory allocated: (\d+) MiB reserved: (\d+) MiB")


def speedrun(bench):
    """Records of modded-nanogpt: a log has the program and the measured peaks, and the program prints those of the dry run."""
    for record, torch in RECORDS.items():
        if not bench.wants(record):
            continue
        program, published = read_record(record_folder(bench.source("modded-nanogpt"), record))
        predicted = PEAK.search(run_record(bench, program, torch))
        for number, kind in enumerate(("allocated", "reserved"), 1):
            yield Row(record.replace("_", " "), kind, int(published[number]) * MIB, int(predicted[number]) * MIB)


def record_folder(source, record):
    """Returns the folder of a record, which has a track of its own."""
    folder = next(source.glob(f"records/*/{record}"), None)
    if not folder:
        raise Missing(f"no {source}/records/*/{record}")
    return folder


def read_record(folder):
    """Returns the program of a record, and the match of its peaks."""
    log = next(log for log in (path.read_text() for path in sorted(folder.glob("*.txt"))) if PEAK.search(log))
    return log.split("=" * 100, 1)[0], PEAK.search(log)


def run_record(bench, program, torch):
    """Returns the output of rank 0 of 8, with random tokens, for three steps and the validations before and after them."""
    for pattern, replacement in SHORT:
        program = re.sub(pattern, replacement, program)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "train_gpt.py").write_text(program)
        (folder / "data/fineweb10B").mkdir(parents=True)
        for file, tokens in (("fineweb_train_000001.bin", 20_000_000), ("fineweb_val_000000.bin", 12_000_000)):
            write_tokens(folder / "data/fineweb10B" / file, tokens)
        return bench.torchrun(torch, 8, "train_gpt.py", options=("--no-init", "--steps", "0"), cwd=folder, settings={"DATA_PATH": "."}).stderr


def nanochat(bench):
    """Reports of nanochat's pretraining of 20 layers, of October 2025."""
    answer = bench.job("2.8", 8, RECORDED / "public/nanochat.py", bench.source("nanochat"), options=("--no-init", "--steps", "8"))
    yield Row("d20, base model training", "allocated", round(75422.02 * MIB), answer["max_memory_allocated"])


# Longest samples in tokens, and published peaks in GB by script, micro-batch and quantization.
LITGPT_LENGTHS = {"phi-1_5": 1044, "stablelm-base-alpha-3b": 1034, "Llama-2-7b-hf": 1304, "Llama-2-13b-hf": 1304}
LITGPT = {
    "lora": {
        "phi-1_5": {"1": 4.82, "1:bnb.nf4": 3.78, "1:bnb.nf4-dq": 3.72, "2": 6.76, "4": 10.68},
        "stablelm-base-alpha-3b": {"1": 9.69, "1:bnb.nf4": 6.35, "1:bnb.nf4-dq": 6.19, "2": 12.10, "4": 16.92},
        "Llama-2-7b-hf": {"1": 21.30, "1:bnb.nf4": 14.14, "1:bnb.nf4-dq": 13.84, "2": 29.07},
        "Llama-2-13b-hf": {"1": 38.12, "1:bnb.nf4": 23.14, "1:bnb.nf4-dq": 22.55}},
    "adapter": {
        "stablelm-base-alpha-3b": {"1": 9.10, "1:bnb.nf4": 5.65, "1:bnb.nf4-dq": 5.48},
        "Llama-2-7b-hf": {"1": 19.98, "1:bnb.nf4": 12.68, "1:bnb.nf4-dq": 12.38}},
    "adapter_v2": {
        "stablelm-base-alpha-3b": {"1": 10.71, "1:bnb.nf4": 7.41, "1:bnb.nf4-dq": 7.25},
        "Llama-2-7b-hf": {"1": 25.51, "1:bnb.nf4": 18.30, "1:bnb.nf4-dq": 17.98}}}


def litgpt(bench):
    """The resource tables of litgpt: its own scripts, with samples as long as the tables say."""
    folder = bench.source("litgpt")
    for script, models in LITGPT.items():
        published = {f"{model}:{LITGPT_LENGTHS[model]}:{variant}": gigabytes for model, rows in models.items() for variant, gigabytes in rows.items()}
        found = bench.rows("litgpt.py", folder, script, *published, options=("--gpu", "a100-40", "--no-init"), torch="Lightning 2.2",
                           settings={"BNB_CUDA_VERSION": "121"})
        for configuration, gigabytes in published.items():
            model, length, micro_batch, *quantize = configuration.split(":")
            name = ", ".join([script, model, f"{micro_batch} x {length}", *quantize])
            yield Row(name, "allocated", round(gigabytes * 1e9), found[configuration])


COMPILED = ("--training.compile",)
FLOAT8 = (*COMPILED, "--float8.enable_float8_linear", "--float8.enable_fsdp_float8_all_gather", "--float8.precompute_float8_dynamic_scale_for_fsdp")
PARTS = "--experimental.context_parallel_degree"
# Published GiB by name, ranks, batch of a rank and options.
TORCHTITAN = {
    ("FSDP", 8, 2, ()): 82.4,
    ("FSDP, compiled", 8, 2, COMPILED): 77.0,
    ("FSDP, compiled, float8", 8, 2, FLOAT8): 76.8,
    ("FSDP", 128, 2, ()): 67.0,
    ("FSDP, compiled", 128, 2, COMPILED): 62.0,
    ("FSDP, compiled, float8", 128, 2, FLOAT8): 61.8,
    **{(f"FSDP {8 // parts} and CP {parts}, {length} tokens, compiled, float8", 8, 1,
        (*FLOAT8, "--activation_checkpoint.mode", "full", PARTS, str(parts), "--training.seq_len", str(length))): gibibytes
       for parts, length, gibibytes in ((1, 32768, 83.9), (2, 65536, 84.2), (4, 131072, 84.0), (8, 262144, 84.5))}}


def torchtitan(bench):
    """The tables of torchtitan on H100 of 96 GB: its own program and configuration."""
    source = bench.source("torchtitan")
    for (title, ranks, batch, options), gibibytes in TORCHTITAN.items():
        segments = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if PARTS in options else {}
        answer = titan(bench, "torchao 0.8", source, ("train.py", "train_configs"), ranks, batch, options, ("--memory", "95GiB"), segments)
        yield Row(f"{ranks} ranks, {title}", "reserved", round(gibibytes * GIB), answer["peak_reserved_bytes"])


def titan(bench, version, source, places, ranks, batch, options, dry_options, settings, steps=3):
    """Returns the answer for rank 0 of some steps of Llama 3.1 of 8 billion parameters. `places` are those of program and configurations."""
    program, configurations = places
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_vocabulary(folder / "tokenizer.model", 128_000)
        (folder / "c4").mkdir()
        (folder / "c4/data.json").write_text((json.dumps({"text": "memory of a step " * 60}) + "\n") * 2000)
        job = (source / configurations / "llama3_8b.toml").read_text().replace("batch_size = 1", f"batch_size = {batch}")
        (folder / "job.toml").write_text(re.sub("enable_(profiling|tensorboard) = true", r"enable_\1 = false", job))
        return bench.job(version, ranks, program, "--job.config_file", folder / "job.toml", "--job.dump_folder", folder / "out",
                         "--training.dataset", "c4_test", "--training.dataset_path", folder / "c4", "--model.tokenizer_path", folder / "tokenizer.model",
                         "--training.steps", steps, *options, options=("--no-init", "--steps", str(steps), *dry_options), cwd=source,
                         settings={"HF_DATASETS_OFFLINE": "1", "PYTHONPATH": str(source), **settings})


# Published GiB of torchao by scaling and options.
TORCHAO = {"bfloat16": ((), 47.65),
           "float8, a scale for each tensor": (("--model.converters", "float8", "--float8.enable_fsdp_float8_all_gather",
                                                "--float8.precompute_float8_dynamic_scale_for_fsdp"), 47.77),
           "float8, a scale for each row": (("--model.converters", "float8", "--float8.recipe_name", "rowwise"), 47.79)}


def torchao(bench):
    """The table of torchao's training in float8: torchtitan's program and configuration."""
    source = bench.source("torchtitan-2025-03")
    for title, (options, gibibytes) in TORCHAO.items():
        answer = titan(bench, "torchao 0.10", source, ("torchtitan/train.py", "torchtitan/models/llama/train_configs"), 8, 1, (*COMPILED, *options), (),
                       {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, steps=4)
        yield Row(title, "reserved", round(gibibytes * GIB), answer["peak_reserved_bytes"])


# The tokens of a sample in the longest and in a mean batch, which no one published: those with which `lora/llama-3.2-3B-rank32` agrees.
METAMATH_TOKENS = (621, 225)
METAMATH = ("lora/llama-3.2-3B-rank64", "lora/llama-3.2-3B-rank10-target-mlp", "lora/llama-3.2-3B-rank32-dora", "lora/llama-3.2-3B-rank32-lorafa",
            "adalora/llama-3.2-3B-rank32", "ia3/llama-3.2-3B-default", "oft/llama-3.2-3B-rank32", "boft/llama-3.2-3B-default",
            "vera/llama-3.2-3B-default", "tinylora/llama-3.2-3B-default", "loha/llama-3.2-3B-rank32", "lokr/llama-3.2-3B-rank32",
            "miss/llama-3.2-3B-default", "randlora/llama-3.2-3B-default", "ln_tuning/llama-3.2-3B-default", "prompt_tuning/llama-3.2-3B-lr_0.001",
            "prefixtuning/llama-3.2-3B-lr_0.001", "full-finetuning/llama-3.2-3B-lr_0.00001")


def metamath(bench):
    """The comparison of methods of peft: its own program and configurations."""
    folder = bench.source("peft")
    for experiment in METAMATH:
        result = folder / "method_comparison/MetaMathQA/results" / (experiment.replace("/", "--") + ".json")
        published = json.loads(result.read_text())["train_info"]
        in_use = [one["mem allocated avg"] for one in published["metrics"] if "mem allocated avg" in one]
        found = bench.rows("metamath.py", folder, *METAMATH_TOKENS, experiment, options=("--gpu", "l40s", "--no-init"), torch="peft 0.19",
                           settings={"HF_HUB_OFFLINE": "1"})
        name = experiment.replace("llama-3.2-3B-", "")
        yield Row(f"{name}, mean in use", "allocated", round(sum(in_use) / len(in_use)), found["allocated"])
        yield Row(name, "reserved", published["accelerator_memory_max"], found["reserved"])


# Scripts of Liger-Kernel, and the commits that published their figures.
LIGER = {"fused_add_rms_norm": "b7025a70", "tvd": "5c9cecc8", "megatron_swiglu": "2120862b", "group_norm": "dea3a772", "layer_norm": "6a2c4913",
         "llama4_rope": "10b6cdec", "fused_moe": "1faa0131"}
LIGER_GPUS = {"NVIDIA H100 80GB HBM3": "h100", "NVIDIA B200": "b200"}


def liger(bench):
    """The largest size of each benchmark of Liger-Kernel, by its own scripts."""
    source = bench.source("Liger-Kernel")

    def git(*words):
        return subprocess.run(["git", "-C", source, *words], capture_output=True, check=True).stdout

    published = collections.defaultdict(dict)  # largest sizes of each script: the line of the table by all but the size
    for row in csv.DictReader(git("show", "HEAD:benchmark/data/all_benchmark_data.csv").decode().splitlines()):
        case = tuple(row[name] for name in ("kernel_name", "kernel_provider", "kernel_operation_mode", "x_name", "extra_benchmark_config_str"))
        if row["metric_name"] == "memory" and row["gpu_name"] in LIGER_GPUS:
            largest = published[case[0]].setdefault(case, row)
            published[case[0]][case] = max(largest, row, key=lambda one: int(one["x_value"]))
    for script, commit in LIGER.items():
        rows = {"|".join([*case[:4], row["x_value"], case[4].replace(" ", "")]): row for case, row in published[script].items()}
        gpu = LIGER_GPUS[next(iter(rows.values()))["gpu_name"]]
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["tar", "x", "-C", folder], input=git("archive", commit, "src", "benchmark/scripts"), check=True)
            found = bench.rows("liger.py", folder, script, *rows, options=("--gpu", gpu), torch="transformers 4.57")
        for case, bytes_ in found.items():
            row = rows[case]
            sizes = ", ".join(f"{name} {value}" for name, value in json.loads(row["extra_benchmark_config_str"]).items() if isinstance(value, int))
            name = f"{script}, {row['kernel_provider']}, {row['kernel_operation_mode']}, {row['x_name']} {row['x_value']}, {sizes}"
            yield Row(name, "allocated", round(float(row["y_value_50"]) * MIB), bytes_)


def write_vocabulary(path, words):
    """Writes a vocabulary as tiktoken reads it: bytes, and words that no text has."""
    entries = [bytes([byte]) for byte in range(256)] + [b"\0\1" + number.to_bytes(3, "big") for number in range(words - 256)]
    path.write_bytes(b"".join(base64.b64encode(entry) + b" %d\n" % rank for rank, entry in enumerate(entries)))


def write_tokens(path, tokens):
    """Writes a file of tokens as modded-nanogpt reads it: documents of 1,000 tokens."""
    header = [20240520, 1, tokens] + [0] * 253
    document = (50256).to_bytes(2, "little") + b"".join((17 * number % 50257).to_bytes(2, "little") for number in range(1, 1000))
    with open(path, "wb") as file:
        file.write(b"".join(number.to_bytes(4, "little") for number in header))
        file.write(document * (tokens // 1000))


Group = collections.namedtuple("Group", "title measure source assumed why")
GROUPS = {
    "snapshots": Group(
        "Language models, recorded by students of a course", snapshots,
        "snapshots of the GitHub users Wedsonlin, MAGMA27 and NiuHuangxiaozi, in their repositories `assignment2-systems`",
        "PyTorch 2.11 and 2.6 as recorded, A100, rising addresses; our programs after theirs (`tests/frameworks/dryrun/recorded/pairs.py`)",
        "Equal."),
    "attention": Group(
        "Attention, eager and compiled", attention,
        "`results/attention_benchmark.jsonl` of Wedsonlin/assignment2-systems (commit 87b0864): `memory_allocated` after a forward pass, in 0.001 MiB",
        "PyTorch 2.11, the repository's own program. It does not name the GPU: cuBLAS's workspace of 32 MiB is that of compute capability 9.0, so an H100",
        "Equal to the last digit."),
    "sharded": Group(
        "3.4 billion parameters on two GPUs, DDP and a sharded optimizer", sharded,
        "`results/sharded_optimizer_*.json` of the same repository: peaks and memory in use of three phases of each rank, in 0.001 GiB",
        "PyTorch 2.11, H100, the repository's own program with `--devices 2 --no-init`",
        "Equal to the last digit."),
    "networks": Group(
        "Networks on an H200", networks,
        "snapshots of an H200 in `tests/frameworks/dryrun/recorded/h200`, made by `bench/gpu/suite/train.py`",
        "PyTorch 2.11, the program that recorded them. The rules for workspaces of convolutions were derived from these runs",
        "Workspaces of some convolutions and of the LSTM are a little smaller or larger than cuDNN's. Rows with these test no unseen network."),
    "layers": Group(
        "Single layers and requests", layers,
        "the snapshot of shreyansh26/MLSys-Experiments (`model_memory_usage`), and pytorch#161139",
        "PyTorch 2.11 (recorded by 2.4), H100, with which the figures agree: the recording names no GPU",
        "1 MiB in use, of another version of PyTorch."),
    "convolutions_2d": Group(
        "A 3x3 convolution of 16 bits", convolutions_2d,
        "pytorch#123533: `memory_reserved` for ten widths, in 0.01 GiB",
        "PyTorch 2.11, A100 (the reporter names none)",
        "Equal to the last digit: copies of the input and the output for NHWC."),
    "convolutions_3d": Group(
        "3D convolutions of more than 2^31 elements", convolutions_3d,
        "pytorch#136479 and #128947 (the request that was refused), #132300 (two peaks)",
        "PyTorch 2.6 with cuDNN 9.1, H100. The reports are of 2.3 and 2.4",
        "PyTorch unfolds the input itself there. The last published peak is 9.26 GiB times 1.17^2, a rounded ratio of the shapes."),
    "transposed": Group(
        "A transposed convolution of stride 2", transposed,
        "pytorch#26112, with cuDNN 7.5 on a V100",
        "PyTorch 2.11, V100",
        "A miss: cuDNN 7.5 took an FFT, and whether later versions do is not known. The answer's \"with up to\" has these 4.6 GiB."),
    "vit": Group(
        "ViT-L/16 in training", vit,
        "rasbt/pytorch-memory-optim (`logs.md`): `max_memory_reserved` in 0.01 GB of 10^9 bytes, PyTorch 2.1 with Lightning",
        "PyTorch 2.11, A100; torchvision's model, without Lightning, validation and metrics",
        "Another version of PyTorch. In 16 bits each layer lacks one activation: `nn.MultiheadAttention` copies results of attention that are in an order "
        "of their own, as those of the first flash attention were. With such a copy (`vit.py bf16 64 copied`) PyTorch reserves 16.949, 12.855 and "
        "5.258 GiB, within 0.8 % of what is published."),
    "detection": Group(
        "Detection models of torchvision", detection,
        "pytorch/vision#962 and the documentation of torchvision 0.3: memory of a GPU with two images of COCO, in 0.1 GB",
        "PyTorch 2.11, V100, rank 0 of 8 with DDP; two images of 800 x 1333 with eight boxes each, the trained layers of the reference",
        "Images of COCO have many sizes and numbers of boxes, which decide the largest batch of an epoch. The published figures name neither. That is not "
        "all: with 93 boxes an image the first three take 0.3 to 0.5 GiB more. What PyTorch 1.1 and cuDNN 7 kept besides is not known."),
    "segmentation": Group(
        "Networks of mmsegmentation", segmentation,
        "the tables of open-mmlab/mmsegmentation, `configs/unet` and `configs/fcn`: `max_memory_allocated` of a V100, in 1000 MiB",
        "PyTorch 2.11, V100, rank 0 of 4 with DDP and SyncBN; our programs after the configurations (`public/segmentation.py`), in PyTorch 1.5's "
        "way to clear gradients",
        "The workspaces of cuDNN 7, which was free to choose (`cudnn_benchmark`), are not known. The answer says how much its peak depends on "
        "them: for R-50 at 512 x 1024 8.8 % less without any, and for DRIVE 14.2 % more with the largest."),
    "litgpt": Group(
        "Finetuning with litgpt", litgpt,
        "the tables of Lightning-AI/litgpt, `tutorials/resource-tables.md`: `max_memory_allocated` of an A100 of 40 GB, in 0.01 GB of 10^9 bytes",
        "PyTorch 2.6 (published: 2.1), Lightning 2.2 and bitsandbytes 0.41; litgpt's own scripts of commit 0f021f3a, one micro-batch, with the "
        "longest samples that the tables name",
        "Equal but for the last digits. With bitsandbytes 0.50 quantized layers take 11 to 16 % less: later versions no longer keep their inputs for the "
        "backward pass (`MatMul4Bit`)."),
    "speedrun": Group(
        "Records of modded-nanogpt on 8 H100", speedrun,
        "KellerJordan/modded-nanogpt, `records`, of the short track 2025-05-24 and of the medium one the others: the log of a record has the program, "
        "the version of PyTorch and the peaks in MiB",
        "PyTorch 2.10.0, 2.8.0 and 2.7.0 as the logs name them (those of April, May and October 2025 name nightlies), rank 0 of 8 (`--ranks 0`), the "
        "record's own program with random tokens, without Inductor's search for faster kernels (`coordinate_descent_tuning`), which compiles each kernel "
        "many times; two steps of warm-up, three of training, and the validations before and after these",
        "Equal to the MiB, but for three: 2025-09-17 has 2 MiB less in use than published, and 18 MiB less reserved; 2025-09-30 has 3 MiB less in use; "
        "2025-10-04 has 2 MiB less in use, and 1,414 MiB less reserved. Why is not known."),
    "nanochat": Group(
        "Pretraining of nanochat on 8 H100", nanochat,
        "reports that karpathy/nanochat writes (`report.md`) of its d20 on 8 H100 or H20, six of October and November 2025 with one figure: "
        "`max_memory_allocated` of rank 0 in 0.01 MiB",
        "PyTorch 2.8, rank 0 of 8; nanochat's own program, model and optimizers of commit 4346536, eight steps and the validation before them, "
        "without the tests and samples of the model that it makes later (`public/nanochat.py`)",
        "Equal to 0.25 MiB. Of this, 5,640 MiB are tensors of the optimizers' collectives: the program waits for their futures alone, so PyTorch "
        "keeps them until the next collective, through a forward pass. It lets go of some between the collectives of the first two steps, which "
        "the compiler delays: a dry run of two has 70,481.5 MiB."),
    "torchtitan": Group(
        "Llama 3.1 of 8 billion parameters with torchtitan", torchtitan,
        "pytorch/torchtitan, `benchmarks/llama3_h100_202412_torchtitan.md`, tables 1 to 3: the memory that "
        "its log tells, reserved, of H100 of 96 GB, in 0.1 GiB",
        "PyTorch 2.6.0 and torchao 0.8 (published: nightlies of 2024-12-23), rank 0, `--memory 95GiB`; torchtitan's own program and "
        "`llama3_8b.toml` of the commit that the table names, three steps, with a vocabulary of Llama's size",
        "Equal to the last digit with FSDP alone. Dry runs with CP, of table 2, have `expandable_segments:True`, which torchtitan's script sets: "
        "without it PyTorch reserves up to 4.8 % less than published. The rows with FSDP alone rule the setting out; the source does not name it."),
    "torchao": Group(
        "Training in float8 with torchao", torchao,
        "pytorch/ao, `torchao/float8/README.md` of June 2025: the memory that torchtitan's log tells, reserved, of 8 H100, in 0.01 GiB",
        "PyTorch 2.7.0 and torchao 0.10 (published: nightlies of March 2025), rank 0 of 8; torchtitan's own program and `llama3_8b.toml` of commit "
        "85e5f472 with the settings of torchao's script, compiled, four steps, with a vocabulary of Llama's size",
        "Equal to the last digit in bfloat16 and with a scale for each row. With a scale for each tensor and weights gathered in float8, PyTorch "
        "reserves 0.9 % less than published. Without this gathering it reserves 47.770 GiB, the published figure, so that may be of such a run."),
    "metamath": Group(
        "Methods of peft on Llama 3.2 of 3 billion parameters", metamath,
        "huggingface/peft, `method_comparison/MetaMathQA/results`: the mean of the memory in use after each step, and the most reserved, in bytes, of an L40S",
        "PyTorch 2.13, transformers 5.13.1, peft's own program of commit 51c2ff66, 20 batches of the mean length, and ten that begin with the "
        "longest. These two lengths depend on the data set and are not published: with 225 and 621 tokens LoRA of rank 32 agrees (6.451 for 6.449 GiB, "
        "and 20.756 for 20.762 GiB), so it has no row",
        "Memory in use differs by 0.3 % at most, and what is reserved by as much from run to run. The latter depends on the other batches since the "
        "cache was emptied too. That of prefix tuning may be that of an evaluation, which the dry run leaves out. "
        "SHiRA does not run: how many weights it trains is counted on the device."),
    "liger": Group(
        "Kernels of Liger-Kernel", liger,
        "linkedin/Liger-Kernel, `benchmark/data/all_benchmark_data.csv`: `max_memory_allocated` of a kernel of Triton or of the layer that it replaces, in "
        "MiB, of H100 and B200, the largest size of each",
        "PyTorch 2.11 and transformers 4.57 (which versions measured is not known), the scripts of the commits that published the figures",
        "Equal to the last digit, but for the loop over experts of transformers (`huggingface` in `fused_moe`): a random router does not divide the "
        "tokens quite evenly. All sizes of these scripts agree within 1 %, 170 rows."),
}


UNKNOWN_INPUTS = ("detection",)


def measure(tool, python, sources, *names):
    """Runs groups, or the rows of a group that begin with a text, and keeps their figures beside those of earlier runs."""
    bench = Bench(tool, python, sources)
    for name in names or GROUPS:
        name, _, bench.row = name.partition("/")
        try:
            rows = [row._asdict() for row in GROUPS[name].measure(bench)]
        except Missing as missing:
            print(f"{name}: skipped, {missing}")
            continue
        figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}  # another run may have added some
        figures[name] = merged(figures.get(name, []), rows) if bench.row else rows
        FIGURES.write_text(json.dumps({one: figures[one] for one in GROUPS if one in figures}, indent=1) + "\n")
        print(f"{name}: {len(rows)} rows", flush=True)


def merged(earlier, rows):
    """Returns the rows of an earlier run with new ones in their places, by name."""
    def key(row):
        return row["name"], row["kind"]

    return sorted({key(row): row for row in (*earlier, *rows)}.values(), key=key)


def is_within(row):
    return abs(row["predicted"] / row["published"] - 1) <= WITHIN[row["kind"]]


def size(bytes_):
    return f"{bytes_ / GIB:.3f} GiB" if bytes_ >= GIB else f"{bytes_ / MIB:.3f} MiB"


def table(rows):
    yield "| configuration | memory | published | predicted | predicted / published | |"
    yield "|---|---|---:|---:|---:|---|"
    for row in rows:
        verdict = "" if is_within(row) else f"off by more than {100 * WITHIN[row['kind']]:.0f} %"
        yield (f"| {row['name']} | {row['kind']} | {size(row['published'])} | {size(row['predicted'])} | "
               f"{row['predicted'] / row['published']:.4f} | {verdict} |")


def summary(figures):
    yield "| group | allocated within 1 % | reserved within 3 % |"
    yield "|---|---:|---:|"
    for name, rows in figures.items():
        yield f"| [{GROUPS[name].title}](#{anchor(GROUPS[name].title)}) | {counts(rows)} |"
    for title, left_out in (("all", ()), ("all with known shapes of the inputs", UNKNOWN_INPUTS)):
        yield f"| **{title}** | {counts([row for name, rows in figures.items() if name not in left_out for row in rows], True)} |"


def counts(rows, has_share=False):
    """Returns the cells of rows within their limits."""
    cells = []
    for kind in WITHIN:
        good = [is_within(row) for row in rows if row["kind"] == kind]
        share = f" ({100 * sum(good) / len(good):.0f} %)" if has_share and good else ""
        cells.append(f"{sum(good)} of {len(good)}{share}" if good else "")
    return " | ".join(cells)


def anchor(title):
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def page():
    figures = json.loads(FIGURES.read_text())
    lines = ["# How exact is a dry run?", "",
             "Memory that others measured on GPUs, and what [`tidepool dryrun`](dryrun.md) says of the same configurations. Rows that miss are shown",
             "like those that agree. `scripts/accuracy.py` makes this page, and says at its head how to run each row again.", "",
             "Allocated is the most memory in use, or that at a named place; reserved is what PyTorch takes from the driver, which depends on the",
             "addresses that the driver returns.", "",
             "Transformers agree to the last digit where the program and its version of PyTorch are those of the measurement, and networks of",
             "convolutions within 1 % where the [workspaces of cuDNN](dryrun_assumptions.md#workspaces-of-convolutions) were measured. On older GPUs and with older versions of cuDNN these are not known, and the rows are off by 3 to 12 %. Rows of one source",
             "are alike: 64 of those in the second column are of one repository.", "", *summary(figures)]
    for name, rows in figures.items():
        group = GROUPS[name]
        lines += ["", f"## {group.title}", "", f"- Published: {group.source}.", f"- Dry run: {group.assumed}."]
        lines += [f"- Differences: {group.why}"] if group.why else []
        lines += ["", *table(rows)]
    lines += ["", "## Not compared yet", "",
              "- torchtitan's table of H200 of June 2025 (47.96 and 46.97 GiB on 4 and 8 nodes): its PyTorch is one that NVIDIA built, of no release.",
              "- Figures of FSDP on several GPUs, such as those of pytorch/torchtitan#165 on 8 H100: their rows need the programs of that time, or",
              "  the same shapes by hand."]
    return "\n".join(lines) + "\n"


def main(words):
    if words[:1] == ["measure"] and len(words) >= 4:
        unknown = [name for name in words[4:] if name.partition("/")[0] not in GROUPS]
        if unknown:
            sys.exit(f"no group '{unknown[0]}', expected one of {', '.join(GROUPS)}")
        measure(*words[1:])
    elif words == ["page"]:
        PAGE.write_text(page())
    elif words == ["page", "--check"]:
        if PAGE.read_text() != page():
            sys.exit(f"{PAGE.relative_to(ROOT)} is not that of {FIGURES.relative_to(ROOT)}; scripts/accuracy.py page writes it")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])

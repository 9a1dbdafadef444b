#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dry runs against memory snapshots that were recorded on GPUs: the same model, sizes and steps, by programs of our own. Those of
an H200 lie in h200/, made by bench/gpu/suite/train.py, the others in SNAPSHOTS.

usage: pairs.py TOOL PYTHON SNAPSHOTS [NAME...]

Prints a row for each pair, or for those named. The settings of a pair are those of the program that recorded the
snapshot, and the version of PyTorch is the one that it used, "2.11" or "2.6". A pair of another version than
PYTHON's shows the changes between versions.
"""
import collections
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from events import Traffic, rounded

HERE = pathlib.Path(__file__).resolve().parent
MEDIUM = ("rotary.py", "--layers", "24", "--width", "1024", "--heads", "16")


@dataclasses.dataclass(frozen=True)
class Pair:
    snapshot: str
    torch: str
    command: tuple
    options: tuple = ("--gpu", "a100-80", "--steps", "0")
    addresses: str = "ascending"
    is_whole: bool = False  # the recording begins with the program


SKIPS_INIT = Pair.options + ("--no-init",)  # where the program initialises on the host
PAIRS = {
    "medium 128, inference": Pair("Wedsonlin__medium_128_inference_memory_snapshot", "2.11",
                                  (*MEDIUM, "--context", "128", "--mode", "forward"), SKIPS_INIT),
    "medium 128, training": Pair("Wedsonlin__medium_128_training_memory_snapshot", "2.11",
                                 (*MEDIUM, "--context", "128"), SKIPS_INIT),
    "medium 512, inference, autocast": Pair("Wedsonlin__medium_512_inference_memory_snapshot", "2.11",
                                            (*MEDIUM, "--context", "512", "--mode", "forward", "--autocast"), SKIPS_INIT),
    "medium 512, training, autocast": Pair("Wedsonlin__medium_512_training_memory_snapshot", "2.11",
                                           (*MEDIUM, "--context", "512", "--autocast"), SKIPS_INIT),
    "medium 256, inference": Pair("Wedsonlin__medium_256_inference_memory_snapshot", "2.11",
                                  (*MEDIUM, "--context", "256", "--mode", "forward"), SKIPS_INIT),
    "medium 256, training": Pair("Wedsonlin__medium_256_training_memory_snapshot", "2.11",
                                 (*MEDIUM, "--context", "256"), SKIPS_INIT),
    "medium 1024, inference": Pair("Wedsonlin__medium_1024_inference_memory_snapshot", "2.11",
                                   (*MEDIUM, "--context", "1024", "--mode", "forward"), SKIPS_INIT),
    "medium 1024, training, autocast": Pair("Wedsonlin__medium_1024_training_memory_snapshot", "2.11",
                                            (*MEDIUM, "--context", "1024", "--autocast"), SKIPS_INIT),
    "small 256, forward and backward": Pair("magma27_memory_snapshot", "2.11",
                                            ("rotary.py", "--batch", "32", "--context", "256", "--mode", "gradients"),
                                            SKIPS_INIT),
    "forward 200": Pair("NiuHuangxiaozi__b4768e_forward_memory_snapshot_200", "2.6",
                        ("tables.py", "--mode", "forward")),
    "training 100": Pair("NiuHuangxiaozi__9ab7a6_forward_and_backward_memory_snapshot_100", "2.6",
                         ("tables.py", "--context", "100")),
    "training 150": Pair("NiuHuangxiaozi__16edf3_forward_and_backward_memory_snapshot_150", "2.6",
                         ("tables.py", "--context", "150")),
    "training 200, autocast": Pair("NiuHuangxiaozi__4ed700_forward_and_backward_memory_snapshot_200_mixed_precision", "2.6",
                                   ("tables.py", "--autocast")),
}
NETWORKS = ("alexnet", "resnet50", "resnet50-bf16", "convnext", "unet", "gpt2", "llama-1b", "lstm")
TRAIN = HERE.parents[3] / "bench" / "gpu" / "suite" / "train.py"
PAIRS |= {name: Pair(f"h200/{name}", "2.11", (TRAIN, name), ("--gpu", "h200", "--steps", "0"), "falling", True)
          for name in NETWORKS}


def recorded_file(pair, snapshots):
    folder = HERE if pair.snapshot.startswith("h200/") else pathlib.Path(snapshots)
    return folder / f"{pair.snapshot}.pickle.gz"


def compare(pair, tool, python, snapshots):
    """Returns the traffic of the GPU and that of the dry run."""
    recorded = Traffic(recorded_file(pair, snapshots))
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder) / "snapshot.pickle"
        script, *arguments = pair.command
        command = [tool, "dryrun", *pair.options, "--", python, str(HERE / script), "--snapshot", str(made), *arguments]
        done = subprocess.run(command, env={**os.environ, "CUDART_HOST_ADDRESSES": pair.addresses}, capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return recorded, Traffic(made, None if pair.is_whole else len(recorded.sizes))


def equal_share(sizes, others):
    """Returns the share of the requests that have a counterpart with the same blocks."""
    common = collections.Counter(map(rounded, sizes)) & collections.Counter(map(rounded, others))
    return common.total() / max(len(sizes), len(others))


def row(name, pair, tool, python, snapshots):
    begin = time.monotonic()
    recorded, dry = compare(pair, tool, python, snapshots)
    seconds = time.monotonic() - begin
    return (f"| {name} | {pair.torch} | {len(recorded.sizes)} | {len(dry.sizes)} | "
            f"{100 * equal_share(recorded.sizes, dry.sizes):.1f} % | "
            f"{'yes' if recorded.sequence == dry.sequence else 'no'} | {dry.peak_live / recorded.peak_live:.4f} | "
            f"{dry.peak_reserved / recorded.peak_reserved:.4f} | {seconds:.0f} |")


def main(tool, python, snapshots, *names):
    print("| recorded | by torch | requests | in the dry run | sizes equal | all events equal | peak live | reserved | seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in names or PAIRS:
        print(row(name, PAIRS[name], tool, python, snapshots), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

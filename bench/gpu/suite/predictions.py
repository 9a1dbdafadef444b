#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predictions of part b's snapshots and workspaces by dry runs, and their comparison with a GPU.

`predictions/GPU.json.gz` has for each network the peaks and all events of PyTorch's allocator, the workspaces of single
convolutions, and the versions that they assume. Predictions are made before a GPU is asked.

usage: predictions.py ANSWERS.json           the answers of part b, with the archive beside them, against the predictions
       predictions.py --make TOOL PYTHON h200|h100      makes them again: TOOL is tidepool, PYTHON has PyTorch
"""
import collections
import gzip
import json
import os
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "tests", "frameworks", "dryrun", "recorded"))
from events import Traffic  # noqa: E402

NETWORKS = ("resnet50", "resnet50-bf16", "convnext", "unet", "gpt2", "llama-1b", "lstm", "alexnet")
FIGURES = ("peak_live_bytes", "peak_reserved_bytes", "reserved_range", "expandable_bytes", "planned_bytes")
LETTERS = {"alloc": "a", "free_requested": "f", "segment_alloc": "s", "segment_free": "t", "segment_map": "m", "segment_unmap": "u"}
DEFAULT = "h200"


def path_of(gpu):
    return os.path.join(HERE, "predictions", gpu + ".json.gz")


def read(gpu=DEFAULT):
    with gzip.open(path_of(gpu), "rt", encoding="utf-8") as file:
        return json.load(file)


def words_of(traffic):
    """Returns the events as words: a letter, the size, and the number of the allocation that a free ends."""
    return [LETTERS.get(action, action + ":") + str(size) + ("" if number is None else f"#{number}")
            for action, size, number in traffic.sequence]


# Comparison. ----------------------------------------------------------------------------------------------------------


def sizes_of(words):
    return [int(word[1:]) for word in words if word[0] == "a"]


def percent_of_equal(one, other):
    common = collections.Counter(one) & collections.Counter(other)
    return 100 * common.total() / max(len(one), len(other), 1)


def compare_snapshot(predicted, traffic):
    """Returns a row of the table for a snapshot of the GPU."""
    dry, gpu = predicted["events"].split(), words_of(traffic)
    first = next((f"event {i}: {a}, on the GPU {b}" for i, (a, b) in enumerate(zip(dry, gpu)) if a != b), "none")
    if first == "none" and len(dry) != len(gpu):
        first = f"{len(dry)} events, on the GPU {len(gpu)}"
    return {"requests": len(traffic.sizes), "predicted_requests": len(sizes_of(dry)),
            "equal_sizes_percent": percent_of_equal(sizes_of(dry), traffic.sizes), "all_events_equal": dry == gpu,
            "live_over_real": predicted["peak_live"] / traffic.peak_live,
            "reserved_over_real": predicted["peak_reserved"] / traffic.peak_reserved, "first_difference": first}


def snapshots(archive, predictions):
    """Yields (network, row) of the snapshots in an archive."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(archive) as files:
        for member in files.getmembers():
            name = os.path.basename(member.name).removesuffix(".pickle.gz")
            if member.name.endswith(".pickle.gz") and name in predictions["networks"]:
                path = os.path.join(folder, name + ".pickle.gz")
                with open(path, "wb") as file:
                    file.write(files.extractfile(member).read())
                yield name, compare_snapshot(predictions["networks"][name], Traffic(path))


def workspaces(real, assumed):
    """Yields (layer, type, order, direction, assumed bytes, real bytes) of the largest request that ends with its call."""
    def key(row):
        return row["layer"], row["type"], row["channels_last"]

    others = {key(row): row for row in assumed["rows"]}
    for row in real["rows"]:
        for direction in ("forward", "data", "filter"):
            pair = [max(its.get(direction, {}).get("passing") or [0]) for its in (others.get(key(row), {}), row)]
            yield row["layer"], row["type"], "NHWC" if row["channels_last"] else "NCHW", direction, *pair


def print_snapshots(archive, predictions):
    print("| network | requests | predicted | equal sizes | all events | live, predicted / real | reserved | first difference |")
    print("|---|---|---|---|---|---|---|---|")
    for name, row in snapshots(archive, predictions):
        print(f"| {name} | {row['requests']} | {row['predicted_requests']} | {row['equal_sizes_percent']:.2f} % | "
              f"{'equal' if row['all_events_equal'] else 'differ'} | {row['live_over_real']:.4f} | {row['reserved_over_real']:.4f} | "
              f"{row['first_difference']} |")


def print_workspaces(real, assumed):
    print("| layer | type | order | direction | assumed MiB | real MiB |\n|---|---|---|---|---|---|")
    for *names, dry, gpu in workspaces(real, assumed):
        print(f"| {' | '.join(names)} | {dry / 2**20:.3f} | {gpu / 2**20:.3f} |")


def compare(path):
    with open(path, encoding="utf-8") as file:
        answers = json.load(file)
    torch = answers["machine"]["torch"]
    gpu = "h100" if "H100" in torch.get("gpu", "") else DEFAULT
    predictions = read(gpu)
    assumed, now = predictions["assumes"], (torch.get("version", "").split("+")[0], torch.get("cudnn"))
    print(f"Predictions for {gpu} assume PyTorch {assumed['torch']} and cuDNN {assumed['cudnn']}; the GPU is {torch.get('gpu')} with "
          f"PyTorch {now[0]} and cuDNN {now[1]}.\n")
    archive = os.path.splitext(path)[0] + ".tar"
    if os.path.exists(archive):
        print_snapshots(archive, predictions)
    else:
        print(f"no {archive}, so there are no snapshots to compare")
    result = answers["steps"].get("workspaces", {}).get("result")
    if result is not None:
        print()
        print_workspaces(result, predictions["workspaces"])


# Making. --------------------------------------------------------------------------------------------------------------


def dry_run(tool, gpu, command):
    done = subprocess.run([tool, "dryrun", "--gpu", gpu, "--steps", "0", "--json", "--", *command], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"predictions: {' '.join(command)}: exit status {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def predict(tool, python, gpu, network, folder):
    path = os.path.join(folder, network + ".pickle.gz")
    answer = dry_run(tool, gpu, [python, os.path.join(HERE, "train.py"), network, "--snapshot", path])
    traffic = Traffic(path)
    return {**{figure: answer[figure] for figure in FIGURES}, "peak_live": traffic.peak_live,
            "peak_reserved": traffic.peak_reserved, "events": " ".join(words_of(traffic))}


def make(tool, python, gpu):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "workspaces.json")
        dry_run(tool, gpu, [python, os.path.join(HERE, "torch_workspaces.py"), "--out", path])
        with open(path, encoding="utf-8") as file:
            its = json.load(file)
        networks = {network: predict(tool, python, gpu, network, folder) for network in NETWORKS}
    predictions = {"assumes": {"gpu": its["gpu"], "torch": its["torch"].split("+")[0], "cudnn": its["cudnn"]}, "networks": networks,
                   "workspaces": its}
    with open(path_of(gpu), "wb") as out, gzip.GzipFile(fileobj=out, mode="wb", filename="", mtime=0) as file:
        file.write(json.dumps(predictions).encode())


def main(words):
    if words[:1] == ["--make"] and len(words) == 4:
        make(*words[1:])
    elif len(words) == 1 and not words[0].startswith("-"):
        compare(words[0])
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

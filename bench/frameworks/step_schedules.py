#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Schedules of the training step of a program that knows nothing of tidepool, in shares of its peak.

A dry run writes the task graph of the step. The table has the time of each policy's schedule in paged memory over that of the step. Needs
PyTorch and torchvision, and the tool.
usage: step_schedules.py TOOL NAME...     NAME: one of PROGRAMS; prints figures for bench/results
       step_schedules.py page             writes those of RESULTS into docs/guide/dryrun.md
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

BEGIN = """
import torch, torchvision
from torch.nn.functional import cross_entropy
def images(count, side=224):
    return torch.zeros(count, 3, side, side).cuda()
def labels(count):
    return torch.zeros(count, dtype=torch.long).cuda()
half = False
"""
END = """
scaler = torch.amp.GradScaler("cuda", enabled=half)
for _ in range(3):
    with torch.autocast("cuda", torch.float16, enabled=half):
        loss = step()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
CLASSIFIER = """
model = torchvision.models.{}().cuda()
optimizer = torch.optim.{}
def step():
    return cross_entropy(model(images({batch})), labels({batch}))
"""
ADAMW, SGD = "AdamW(model.parameters())", "SGD(model.parameters(), lr=0.1, momentum=0.9)"
PROGRAMS = {
    "ViT-L/16, batch 32, AdamW": CLASSIFIER.format("vit_l_16", ADAMW, batch=32),
    "ViT-L/16, batch 64, 16-bit autocast with a scaled loss, Adam":
        CLASSIFIER.format("vit_l_16", "Adam(model.parameters())", batch=64) + "half = True",
    "ConvNeXt-B, batch 32, AdamW": CLASSIFIER.format("convnext_base", ADAMW, batch=32),
    "ResNet-50, batch 128, SGD": CLASSIFIER.format("resnet50", SGD, batch=128),
    "Mask R-CNN, 2 images of 800 x 1333, SGD": f"""
model = torchvision.models.detection.maskrcnn_resnet50_fpn(weights_backbone=None).cuda()
optimizer = torch.optim.{SGD}
def step():
    boxes = torch.tensor([[10.0, 10.0, 400.0, 400.0], [100.0, 50.0, 600.0, 700.0]]).cuda()
    one = {{"boxes": boxes, "labels": torch.ones(2, dtype=torch.long).cuda(), "masks": torch.zeros(2, 800, 1333, dtype=torch.uint8).cuda()}}
    return sum(model([torch.zeros(3, 800, 1333).cuda() for _ in range(2)], [one, one]).values())
""",
}
ROOT = pathlib.Path(__file__).parents[2]
RESULTS = ROOT / "bench/results/2026-11-30-step_schedules.txt"
PAGE, HEAD = ROOT / "docs/guide/dryrun.md", "| step, memory with all data | policy |"
POLICIES = {"best": ("--time-limit", "10s"), "recompute": (), "pofo": ("--time-limit", "10s")}
SHARES = (0.8, 0.6, 0.5, 0.4, 0.25)


def ask(tool, *words):
    done = subprocess.run([tool, words[0], "--json", *map(str, words[1:])], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 2), done.stderr
    return json.loads(done.stdout)


def rows(tool, name, folder):
    program, graph = pathlib.Path(folder, "train.py"), pathlib.Path(folder, "step.json.gz")
    program.write_text(BEGIN + PROGRAMS[name] + END)
    ask(tool, "dryrun", "--no-init", "--steps", 2, "--graph", graph, "--gpu", "h100", "--", sys.executable, program)
    whole = ask(tool, "simulate", graph, "--policy", "none", "--memory", "1TiB")
    peak, seconds = whole["peak_device_bytes"], whole["ideal_seconds"]
    print(f"\n{name}: {whole['tasks']} tasks, {peak / 2**30:.3f} GiB, {1e3 * seconds:.1f} ms\n| memory | " + " | ".join(POLICIES) + " |", flush=True)
    for share in SHARES:
        cells = []
        for policy, options in POLICIES.items():
            made = ask(tool, "schedule", graph, "--policy", policy, "--memory", int(share * peak), "--memory-kind", "paged", *options)
            cells.append(f"{made['seconds'] / seconds:.3f}" if made["fits"] else "does not fit")
        print(f"| {share:.0%} | " + " | ".join(cells) + " |", flush=True)


def write_page():
    """Writes the table: a line for each policy of each step, and a column for each share."""
    lines = [f"{HEAD} " + " | ".join(f"{share:.0%}".replace("%", " %") for share in SHARES) + " |", "|---" * (2 + len(SHARES)) + "|"]
    for part in RESULTS.read_text().split("\n\n")[1:]:
        name, peak = re.match(r"\n*(.*): \d+ tasks, (.*?),", part).groups()
        cells = [row.strip("| ").split(" | ")[1:] for row in part.splitlines() if re.match(r"\| \d", row)]
        for number, policy in enumerate(POLICIES):
            lines.append(" | ".join([f"| {name}: {peak}" if number == 0 else "|", f"`{policy}`", *(row[number] for row in cells)]) + " |")
    before, _, rest = PAGE.read_text().partition(HEAD)
    PAGE.write_text(before + "\n".join(lines) + "\n" + rest[rest.index("\n\n") + 1:])


def main(tool, *names):
    if tool == "page":
        write_page()
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            rows(tool, name, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])

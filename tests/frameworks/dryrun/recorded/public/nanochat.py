# SPDX-License-Identifier: Apache-2.0
"""The pretraining script of nanochat on tokens of zeros: nanochat.py FOLDER [OPTION...]

FOLDER has the files of karpathy/nanochat, of which `scripts/base_train.py` runs as it is, with its own model and optimizers. Tokens, the tokenizer,
the tests of the model and the report are stood in for.
"""
import os
import runpy
import sys
import types

import torch

VOCABULARY = 65536

folder, *options = sys.argv[1:]
os.chdir(folder)
sys.path.insert(0, folder)
sys.argv[1:] = options


def batches(batch, length, split, device="cuda", **_):
    """Batches as the loader makes them: copies of pinned memory, of which a loader keeps the last."""
    tokens = torch.zeros(batch * length + 1, dtype=torch.int64).pin_memory()
    while True:
        inputs = tokens[:-1].to(dtype=torch.int32).view(batch, length).to(device, dtype=torch.int32, non_blocking=True)
        targets = tokens[1:].view(batch, length).to(device, dtype=torch.int64, non_blocking=True)
        yield inputs, targets


def stand_in(name, **values):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(values)


stand_in("wandb")
stand_in("nanochat.dataloader", tokenizing_distributed_data_loader=batches)
stand_in("nanochat.tokenizer", get_tokenizer=lambda: types.SimpleNamespace(get_vocab_size=lambda: VOCABULARY),
         get_token_bytes=lambda device="cpu": torch.ones(VOCABULARY, dtype=torch.int64).to(device))
stand_in("nanochat.engine", Engine=None)
stand_in("nanochat.report", get_report=None)
stand_in("scripts.base_eval", evaluate_model=None)
import nanochat.loss_eval  # noqa: E402

evaluate = nanochat.loss_eval.evaluate_bpb


def evaluate_bpb(*arguments):
    """Runs the evaluation, which divides by the bytes of the tokens that it adds up on the device."""
    try:
        return evaluate(*arguments)
    except ZeroDivisionError:
        return 0.0


nanochat.loss_eval.evaluate_bpb = evaluate_bpb
runpy.run_path("scripts/base_train.py", run_name="__main__")

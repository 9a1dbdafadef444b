# SPDX-License-Identifier: Apache-2.0
"""A finetuning script of lit-gpt in bfloat16 on tokens of zeros: litgpt.py FOLDER SCRIPT MODEL:LENGTH:MICRO_BATCH[:QUANTIZE]...

FOLDER is a clone of Lightning-AI/litgpt, SCRIPT one of lora, adapter, adapter_v2. It runs as it is for one micro-batch of each configuration, since
its first one has the longest sample. Weights, tokens and the tokenizer are stood in for. Prints the peaks of the memory in use, as the script does.
"""
import gc
import importlib
import pathlib
import sys
import tempfile

import torch

folder, script, *configurations = sys.argv[1:]
sys.path.insert(0, folder)


class Tokens:
    """A tokenizer with a hundred tokens for every text."""

    eos_id = None

    def __init__(self, *_):
        pass

    def encode(self, _, device=None):
        return torch.zeros(100, dtype=torch.int64, device=device)

    def decode(self, _):
        return ""


module = importlib.import_module(f"finetune.{script}")
module.Tokenizer = Tokens
module.check_valid_checkpoint_dir = module.load_checkpoint = lambda *_, **__: None
module.max_iters, module.eval_iters, module.eval_max_new_tokens = 1, 1, 2
for configuration in configurations:
    model, length, micro_batch, *quantize = configuration.split(":")
    module.micro_batch_size = int(micro_batch)
    module.gradient_accumulation_iters = module.batch_size // module.micro_batch_size
    torch.cuda.reset_peak_memory_stats()
    with tempfile.TemporaryDirectory() as name:
        data = pathlib.Path(name)
        for file, tokens in (("train.pt", int(length)), ("test.pt", 100)):
            torch.save([{"input_ids": torch.zeros(tokens, dtype=torch.int64), "labels": torch.zeros(tokens, dtype=torch.int64)}], data / file)
        module.setup(data, data / model, data / "out", "bf16-true", *quantize)
    print(f"row {configuration} {torch.cuda.max_memory_allocated()}")
    gc.collect()
    torch.cuda.empty_cache()
    print(f"left {torch.cuda.memory_allocated()}")

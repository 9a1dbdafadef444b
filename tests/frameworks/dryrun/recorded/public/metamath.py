# SPDX-License-Identifier: Apache-2.0
"""An experiment of peft's comparison of methods on tokens of zeros: metamath.py FOLDER LONGEST MEAN EXPERIMENT

FOLDER is a clone of huggingface/peft. Its own `get_model` and `train` run as they are, for a bucket of 20 batches of MEAN tokens a sample, and for
half of one from LONGEST down to MEAN, after which the script empties the cache. Weights are a file of zeros; texts and the tokenizer are stood in
for. Prints the memory in use after a batch of MEAN tokens, and the most memory reserved, as the script tells them.
"""
import json
import pathlib
import sys
import tempfile

import torch
import transformers

folder, longest, mean, experiment = sys.argv[1:]
longest, mean = int(longest), int(mean)
folder = pathlib.Path(folder, "method_comparison/MetaMathQA")
sys.path.insert(0, str(folder))
import run  # noqa: E402
from peft import PeftConfig  # noqa: E402

BATCHES, BATCH = 20, 4
LLAMA = transformers.LlamaConfig(
    architectures=["LlamaForCausalLM"], vocab_size=128256, hidden_size=3072, intermediate_size=8192, num_hidden_layers=28, num_attention_heads=24,
    num_key_value_heads=8, head_dim=128, max_position_embeddings=131072, tie_word_embeddings=True, bos_token_id=128000, eos_token_id=128001)


def write_checkpoint(path):
    """Writes Llama 3.2 of 3 billion parameters, a file of zeros that takes no room on the disk."""
    with torch.device("meta"):
        weights = transformers.AutoModelForCausalLM.from_config(LLAMA).state_dict()
    del weights["lm_head.weight"]  # that of the embedding
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, weight in weights.items():
        header[name] = {"dtype": "BF16", "shape": list(weight.shape), "data_offsets": [end, end + 2 * weight.numel()]}
        end += 2 * weight.numel()
    text = json.dumps(header).encode()
    LLAMA.save_pretrained(path)
    with open(path / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


class Tokenizer:
    """A tokenizer that makes as many tokens of each text as it may, and pads."""

    eos_token_id = pad_token_id = 128001

    def __call__(self, texts, max_length=8, **_):
        return {"input_ids": [[0] * max_length] * len(texts), "attention_mask": [[1] * max_length] * len(texts)}

    def pad(self, batch, **_):
        length = max(map(len, batch["input_ids"]))
        return transformers.BatchEncoding({name: torch.tensor([row + [0] * (length - len(row)) for row in batch[name]]) for name in ("input_ids", "attention_mask")})


class Rows:
    """Samples of a number of tokens each, as `datasets` has them."""

    def __init__(self, lengths):
        self.lengths = lengths

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, part):
        tokens = [[0] * length for length in self.lengths[part]]
        return {"input_ids": tokens, "attention_mask": [[1] * len(row) for row in tokens], "response": [""] * len(tokens)}


def lengths():
    falling = [round(longest - (longest - mean) * batch / (BATCHES - 1)) for batch in range(BATCHES)]
    return [length for length in [mean] * BATCHES + falling for _ in range(BATCH)]


def evaluate(*_, **__):
    """Notes the memory in place of an evaluation, which takes less."""
    seen.append((torch.cuda.memory_allocated(), torch.cuda.max_memory_reserved()))
    return ["0"], ["The answer is: 0"]


seen = []
mean_loss = run.calculate_mean_per_token_loss
run.calculate_mean_per_token_loss = lambda **named: (mean_loss(**named), 1.5)[1]  # the script checks it
run.get_wiki_small = lambda: [""] * BATCH
run.get_train_valid_test_datasets = lambda **_: (Rows(lengths()), Rows([]), Rows([]))
run.print_verbose = lambda *_, **__: None
run.evaluate = evaluate
with tempfile.TemporaryDirectory() as name:
    write_checkpoint(pathlib.Path(name))
    path = folder / "experiments" / experiment
    peft_config = PeftConfig.from_pretrained(path) if (path / "adapter_config.json").exists() else None
    settings = vars(run.get_train_config(path / "training_params.json")) | {"max_steps": 30, "eval_steps": 10, "lr_scheduler_arg": "cosine"}
    run.set_seed(settings["seed"])
    before = run.init_accelerator()
    model = run.get_model(peft_config=peft_config, model_id=name, **{key: settings[key] for key in (
        "dtype", "compile", "use_gc", "attn_implementation", "autocast_adapter_dtype")})
    result = run.train(
        model=model, tokenizer=Tokenizer(), accelerator_memory_init=before, is_adalora=isinstance(peft_config, run.AdaLoraConfig),
        is_adamss=isinstance(peft_config, run.AdamssConfig), **{key: settings[key] for key in (
            "max_steps", "batch_size", "batch_size_eval", "eval_steps", "generation_kwargs", "grad_norm_clip", "optimizer_type", "optimizer_kwargs",
            "query_template", "lr_scheduler_arg", "use_amp", "init_kv_cache_prefix")})
if len(seen) < 3:
    sys.exit(f"{experiment}: {result.error_msg}")
print(f"row allocated {seen[1][0] - before}")
print(f"row reserved {seen[2][1] - before}")

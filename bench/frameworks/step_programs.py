# SPDX-License-Identifier: Apache-2.0
"""The training programs of step_schedules.py, as users write them: they know nothing of dry runs and of tidepool.

step_programs.py NAME     NAME: one of the functions below that train
"""
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY = 50304


def train(model, loss, make_optimizer, micro_batches=1, autocast=None, limit=None):
    """Takes steps until it is ended. `loss` computes the loss of a new batch."""
    optimizer = make_optimizer(model.parameters())
    scaler = torch.amp.GradScaler("cuda", enabled=autocast == torch.float16)
    while True:
        optimizer.zero_grad()
        for _ in range(micro_batches):
            with torch.autocast("cuda", autocast, enabled=autocast is not None):
                found = loss() / micro_batches
            scaler.scale(found).backward()
        scaler.unscale_(optimizer)
        if limit:
            nn.utils.clip_grad_norm_(model.parameters(), limit)
        scaler.step(optimizer)
        scaler.update()


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


class Block(nn.Module):
    """A block of a GPT. `writes_scores` computes attention as minGPT does, with its scores in memory."""

    def __init__(self, width, heads, dropout, writes_scores):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout, self.heads, self.writes_scores = nn.Dropout(dropout), heads, writes_scores

    def attention(self, q, k, v):
        if not self.writes_scores:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout.p)
        length = q.shape[2]
        scores = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
        later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
        return self.dropout(scores.masked_fill(later, -torch.inf).softmax(3)) @ v

    def forward(self, x):
        samples, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(samples, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.dropout(self.out(self.attention(q, k, v).transpose(1, 2).reshape(x.shape)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class Gpt(nn.Module):
    def __init__(self, width, layers, heads, length, vocabulary=VOCABULARY, dropout=0.0, writes_scores=False):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout, writes_scores) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x, y):
        x = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), y.flatten())


def tokens(samples, length):
    return torch.zeros(samples, length, dtype=torch.long).cuda()


def images(samples, side=224):
    return torch.zeros(samples, 3, side, side).cuda()


def train_on_tokens(model, samples, length, make_optimizer=torch.optim.AdamW, **options):
    train(model, lambda: model(tokens(samples, length), tokens(samples, length)), make_optimizer, **options)


def train_on_images(name, samples, make_optimizer, **options):
    import torchvision
    model = getattr(torchvision.models, name)().cuda()
    train(model, lambda: F.cross_entropy(model(images(samples)), torch.zeros(samples, dtype=torch.long).cuda()), make_optimizer, **options)


def nanogpt():
    """nanoGPT's GPT-2, 12 x 1,024 tokens, 2 micro-batches, bfloat16 autocast, AdamW"""
    train_on_tokens(Gpt(768, 12, 12, 1024).cuda(), 12, 1024, micro_batches=2, autocast=torch.bfloat16, limit=1.0)


def mingpt():
    """minGPT's gpt-mini with attention scores in memory, 64 x 128 characters, dropout, AdamW"""
    train_on_tokens(Gpt(192, 6, 6, 128, 65, 0.1, True).cuda(), 64, 128, limit=1.0)


def resnet50():
    """ResNet-50, batch 128, SGD"""
    train_on_images("resnet50", 128, sgd)


def vit_l():
    """ViT-L/16, batch 32, AdamW"""
    train_on_images("vit_l_16", 32, torch.optim.AdamW)


def vit_l_half():
    """ViT-L/16, batch 64, float16 autocast with a scaled loss, Adam"""
    train_on_images("vit_l_16", 64, torch.optim.Adam, autocast=torch.float16)


def convnext():
    """ConvNeXt-B, batch 32, AdamW"""
    train_on_images("convnext_base", 32, torch.optim.AdamW)


def convolutions(inputs, width):
    return nn.Sequential(*[layer for before in (inputs, width) for layer in
                           (nn.Conv2d(before, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True))])


class UNet(nn.Module):
    WIDTHS = (64, 128, 256, 512, 1024)

    def __init__(self):
        super().__init__()
        widths = self.WIDTHS
        self.down = nn.ModuleList(convolutions(*pair) for pair in zip((3, *widths), widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * width, width, 2, 2) for width in widths[-2::-1])
        self.join = nn.ModuleList(convolutions(2 * width, width) for width in widths[-2::-1])
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        kept = []
        for block in self.down:
            kept.append(block(F.max_pool2d(kept[-1], 2) if kept else x))
        x = kept.pop()
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.head(x)


def unet():
    """U-Net of five levels, batch 8 of 256 x 256, AdamW"""
    model = UNet().cuda()
    train(model, lambda: F.cross_entropy(model(images(8, 256)), torch.zeros(8, 256, 256, dtype=torch.long).cuda()), torch.optim.AdamW)


def train_llama(change=lambda model: model):
    from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, TrainingArguments
    config = LlamaConfig(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
                         num_key_value_heads=8, head_dim=64, tie_word_embeddings=True, max_position_embeddings=1024)
    model = change(AutoModelForCausalLM.from_config(config))
    rows = [{"input_ids": [1] * 1024, "labels": [1] * 1024}] * 64
    arguments = TrainingArguments(output_dir=os.environ.get("TMPDIR", "/tmp"), per_device_train_batch_size=4, bf16=True, report_to=[], save_strategy="no",
                                  max_steps=8)
    Trainer(model=model, args=arguments, train_dataset=rows).train()


def llama():
    """`Trainer` of transformers, sizes of Llama-3.2-1B, 4 x 1,024 tokens, bfloat16, AdamW"""
    train_llama()


def llama_lora():
    """the same with LoRA of peft"""
    from peft import LoraConfig, get_peft_model
    train_llama(lambda model: get_peft_model(model, LoraConfig(r=16, task_type="CAUSAL_LM")))


def set_up_rank():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")


def ddp():
    """GPT of 12 blocks of 768, 8 x 1,024 tokens, DDP on 2 ranks, bfloat16 autocast, AdamW"""
    set_up_rank()
    train_on_tokens(nn.parallel.DistributedDataParallel(Gpt(768, 12, 12, 1024).cuda()), 8, 1024, autocast=torch.bfloat16)


def fsdp():
    """GPT of 24 blocks of 1,024, 8 x 1,024 tokens, `fully_shard` on 8 ranks, bfloat16, AdamW"""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    set_up_rank()
    model = Gpt(1024, 24, 16, 1024).cuda()
    for part in (*model.blocks, model):
        fully_shard(part, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    train_on_tokens(model, 8, 1024)


class Lstm(nn.Module):
    def __init__(self, width, vocabulary):
        super().__init__()
        self.tokens, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.layers = nn.LSTM(width, width, 2, dropout=0.65)

    def forward(self, x, y):
        return F.cross_entropy(self.head(self.layers(self.tokens(x))[0]).flatten(0, 1), y.flatten())


def lstm():
    """LSTM, 2 layers of 1,500, 64 sequences of 35 words, SGD"""
    train_on_tokens(Lstm(1500, 10000).cuda(), 35, 64, sgd, limit=0.25)


def mask_rcnn():
    """Mask R-CNN, 2 images of 800 x 1333, SGD"""
    import torchvision
    model = torchvision.models.detection.maskrcnn_resnet50_fpn(weights_backbone=None).cuda()

    def loss():
        boxes = torch.tensor([[10.0, 10.0, 400.0, 400.0], [100.0, 50.0, 600.0, 700.0]]).cuda()
        one = {"boxes": boxes, "labels": torch.ones(2, dtype=torch.long).cuda(), "masks": torch.zeros(2, 800, 1333, dtype=torch.uint8).cuda()}
        return sum(model([torch.zeros(3, 800, 1333).cuda() for _ in range(2)], [one, one]).values())

    train(model, loss, sgd)


def compiled():
    """GPT of 12 blocks of 768, 8 x 1,024 tokens, `torch.compile`, bfloat16 autocast, AdamW"""
    train_on_tokens(torch.compile(Gpt(768, 12, 12, 1024).cuda()), 8, 1024, autocast=torch.bfloat16)


if __name__ == "__main__":
    globals()[sys.argv[1]]()

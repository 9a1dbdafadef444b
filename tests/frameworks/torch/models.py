# SPDX-License-Identifier: Apache-2.0
"""Small models and their training steps. Kernels do nothing, so no value is looked at."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Identity()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False),
                                          nn.BatchNorm2d(outside))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
                                  nn.MaxPool2d(3, 2, 1))
        shapes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1),
                  (256, 512, 2), (512, 512, 1)]
        self.body = nn.Sequential(*[Block(*shape) for shape in shapes])
        self.head = nn.Linear(512, 1000)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))


class GPT(nn.Module):
    def __init__(self, width=256, heads=8, layers=4, words=4096, recompute=False):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.zeros(1024, width))
        self.layers = nn.ModuleList([
            nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, norm_first=True)
            for _ in range(layers)])
        self.head = nn.Linear(width, words)
        self.recompute = recompute

    def forward(self, x):
        x = self.words(x) + self.places[:x.shape[1]]
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        return self.head(x)


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(64, 128, 2)
        self.head = nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0][-1])


def _mlp():
    return nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Dropout(0.1), nn.Linear(1024, 1024),
                         nn.GELU(), nn.Linear(1024, 10))


def _tokens(rows=4, length=128):
    return torch.randint(4096, (rows, length)), torch.randint(4096, (rows * length,))


MODELS = {
    "mlp": (_mlp, lambda: (torch.randn(128, 784), torch.randint(10, (128,)))),
    "resnet18": (ResNet18, lambda: (torch.randn(8, 3, 128, 128), torch.randint(1000, (8,)))),
    "gpt": (GPT, _tokens),
    "gpt-recomputed": (lambda: GPT(recompute=True), _tokens),
    "gpt-larger": (lambda: GPT(width=512, layers=8, words=16384), lambda: _tokens(8, 256)),
    "lstm": (LSTM, lambda: (torch.randn(20, 16, 64), torch.randint(10, (16,)))),
}


def train(name, steps, before_step=lambda i: None, after_step=lambda i: None, autocast=False):
    """Trains a model, and calls a function before and after each step."""
    # The stand-in's cuDNN has no recurrent layers: PyTorch's own kernels run.
    with torch.backends.cudnn.flags(enabled=name != "lstm"):
        _train(name, steps, before_step, after_step, autocast)


def _train(name, steps, before_step, after_step, autocast):
    torch.manual_seed(0)
    torch.backends.cuda.enable_cudnn_sdp(False)
    make, data = MODELS[name]
    model = make().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    inputs, targets = (tensor.pin_memory() for tensor in data())
    for i in range(steps):
        before_step(i)
        x, y = inputs.cuda(non_blocking=True), targets.cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocast):
            output = model(x)
            loss = F.cross_entropy(output.flatten(0, -2), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        after_step(i)

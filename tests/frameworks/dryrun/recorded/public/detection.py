# SPDX-License-Identifier: Apache-2.0
"""Training of a detection model of torchvision with two images of 800 x 1333 and eight boxes each: detection.py NAME

As in torchvision's reference, with one rank of a job with DDP: the first layers of the backbone do not train, and its batch norms are
frozen. Prints the peak of the memory in use.
"""
import os
import sys

import torch
import torchvision



def freeze(module):
    for name, inner in module.named_children():
        if isinstance(inner, torch.nn.BatchNorm2d):
            setattr(module, name, torchvision.ops.FrozenBatchNorm2d(inner.num_features))
        freeze(inner)


torch.distributed.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = getattr(torchvision.models.detection, sys.argv[1])(weights=None, weights_backbone=None)
freeze(model.backbone)
for name, parameter in model.backbone.body.named_parameters():
    parameter.requires_grad_(name.startswith(("layer2", "layer3", "layer4")))
model = torch.nn.parallel.DistributedDataParallel(model.cuda().train(), device_ids=[torch.cuda.current_device()])
parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
optimizer = torch.optim.SGD(parameters, lr=0.02, momentum=0.9, weight_decay=1e-4)
for _ in range(3):
    images = [torch.empty(3, 800, 1333, device="cuda") for _ in range(2)]
    targets = [{"boxes": torch.tensor([[50.0, 60.0, 400.0, 500.0]] * 8, device="cuda"), "labels": torch.ones(8, dtype=torch.int64, device="cuda"),
                "masks": torch.ones(8, 800, 1333, dtype=torch.uint8, device="cuda"), "keypoints": torch.ones(8, 17, 3, device="cuda")}
               for _ in range(2)]
    loss = sum(model(images, targets).values())
    optimizer.zero_grad(set_to_none=False)  # as PyTorch 1.1 did
    loss.backward()
    optimizer.step()
print(f"row peak {torch.cuda.max_memory_allocated()}")

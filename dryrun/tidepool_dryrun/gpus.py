# SPDX-License-Identifier: Apache-2.0
"""The GPUs that a dry run can assume.

Capability, multiprocessors, threads, shared memory and bandwidth are those of NVIDIA's data sheets and of the CUDA C++ programming
guide, table "Technical specifications per compute capability". The memory is the total that PyTorch prints in its
errors; drivers differ by some 0.2 GiB. PyTorch and its libraries choose sizes of scratch memory by these properties.
"""
import dataclasses
import difflib

GIB = 1 << 30


@dataclasses.dataclass(frozen=True)
class Gpu:
    title: str
    capability: int  # ten times the major, plus the minor number
    multiprocessors: int
    threads: int  # of a multiprocessor
    shared_bytes: int  # of a block, at most
    memory_gib: float
    gigabytes_per_second: int  # of its memory

    @property
    def memory_bytes(self):
        return int(self.memory_gib * GIB)


GPUS = {
    "b200": Gpu("NVIDIA B200", 100, 148, 2048, 232448, 178.35, 8000),
    "h200": Gpu("NVIDIA H200", 90, 132, 2048, 232448, 139.81, 4800),
    "h100": Gpu("NVIDIA H100 80GB HBM3", 90, 132, 2048, 232448, 79.19, 3350),
    "h100-pcie": Gpu("NVIDIA H100 PCIe", 90, 114, 2048, 232448, 79.18, 2000),
    "a100-80": Gpu("NVIDIA A100-SXM4-80GB", 80, 108, 2048, 166912, 79.15, 2039),
    "a100-40": Gpu("NVIDIA A100-SXM4-40GB", 80, 108, 2048, 166912, 39.38, 1555),
    "l40s": Gpu("NVIDIA L40S", 89, 142, 1536, 101376, 44.39, 864),
    "l4": Gpu("NVIDIA L4", 89, 58, 1536, 101376, 22.03, 300),
    "a10g": Gpu("NVIDIA A10G", 86, 80, 1536, 101376, 22.07, 600),
    "t4": Gpu("Tesla T4", 75, 40, 1024, 65536, 14.57, 320),
    "v100-32": Gpu("Tesla V100-SXM2-32GB", 70, 80, 2048, 98304, 31.74, 900),
    "v100": Gpu("Tesla V100-SXM2-16GB", 70, 80, 2048, 98304, 15.77, 900),
    "rtx-5090": Gpu("NVIDIA GeForce RTX 5090", 120, 170, 1536, 101376, 31.36, 1792),
    "rtx-4090": Gpu("NVIDIA GeForce RTX 4090", 89, 128, 1536, 101376, 23.64, 1008),
    "rtx-3090": Gpu("NVIDIA GeForce RTX 3090", 86, 82, 1536, 101376, 23.68, 936),
}


def find(name):
    """Returns the GPU, or raises ValueError with the nearest names first."""
    if name in GPUS:
        return GPUS[name]
    nearest = difflib.get_close_matches(name, GPUS, n=3, cutoff=0)
    rest = [one for one in GPUS if one not in nearest]
    raise ValueError(f"no GPU '{name}' is known, expected one of {', '.join(nearest + rest)}")

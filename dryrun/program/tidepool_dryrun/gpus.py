# SPDX-License-Identifier: Apache-2.0
"""The GPUs that a dry run can assume, with the sources of their figures.

Capability, threads and shared memory are those of the CUDA C++ programming guide, table "Technical specifications per compute
capability". The document of each row has the multiprocessors, the bandwidth and the operations; without sparsity these are half
of the figures that data sheets give for sparse matrices. Where it has no figure for doubles, they are a share of the floats: a
64th from capability 8.6 on, and a 32nd for 7.5. The memory is the total that PyTorch prints in its errors; drivers differ by some
0.2 GiB. PyTorch and its libraries choose sizes of scratch memory by these properties.
"""
import dataclasses
import difflib

MIB = 1 << 20
GIB = 1 << 30


@dataclasses.dataclass(frozen=True)
class Gpu:
    title: str
    capability: int  # ten times the major, plus the minor number
    multiprocessors: int
    threads: int  # of a multiprocessor
    shared_bytes: int  # of a block, at most
    l2_bytes: int  # of the cache; compilers of kernels make buffers of this size to empty it
    memory_gib: float
    gigabytes_per_second: int  # of its memory
    # 10^12 operations a second: of matrices of doubles, of floats without tensor cores, and of 16-bit numbers with dense tensor
    # cores that add up floats.
    tera_operations: "tuple[float, float, float]"
    source: str
    link: float = 0  # bytes a second of copies from and to the host; 0: those of the capability

    @property
    def link_bytes_per_second(self):
        return self.link or link_of(self.capability)

    @property
    def memory_bytes(self):
        return int(self.memory_gib * GIB)


def link_of(capability):
    """Returns the rate of copies from and to the host, through 16 lanes of PCI Express 3, 4 or 5, as lib/training/models/gpus.cc has them."""
    return {7: 12e9, 8: 24e9}.get(capability // 10, 48e9)


# NVLink-C2C moves 900 GB/s in both directions between a Grace processor and its two GPUs; as on PCI Express, copies are taken to reach three
# quarters of it.
GRACE = 170e9

GPUS = {
    "gb300": Gpu("NVIDIA GB300", 103, 152, 2048, 232448, 129 * MIB, 276.50, 8000, (1.4, 83, 2500),
                 "GB300 NVL72 data sheet, a 72nd; memory: PyTorch's errors; cache and multiprocessors: measurements of users", GRACE),
    "gb200": Gpu("NVIDIA GB200", 100, 152, 2048, 232448, 132644864, 184.31, 8000, (40, 80, 2500),
                 "GB200 NVL72 data sheet, a 72nd; memory: PyTorch's errors; cache: as the B200", GRACE),
    "b300": Gpu("NVIDIA B300 SXM6 AC", 103, 148, 2048, 232448, 132644864, 267.69, 8000, (1.25, 75, 2250),
                "HGX B300 data sheet, an eighth; memory: PyTorch's errors; cache: as the B200", 96e9),
    "b200": Gpu("NVIDIA B200", 100, 148, 2048, 232448, 132644864, 178.35, 8000, (37, 75, 2250),
                "Blackwell architecture technical brief, HGX B200; floats and doubles: 148 multiprocessors at 1.98 GHz"),
    "h200": Gpu("NVIDIA H200", 90, 132, 2048, 232448, 60 * MIB, 139.81, 4800, (67, 67, 989),
                "H200 data sheet, SXM; cache: 62914560 bytes by PyTorch on one"),
    "h100": Gpu("NVIDIA H100 80GB HBM3", 90, 132, 2048, 232448, 50 * MIB, 79.19, 3350, (67, 67, 989),
                "H100 data sheet, SXM"),
    "h100-pcie": Gpu("NVIDIA H100 PCIe", 90, 114, 2048, 232448, 50 * MIB, 79.18, 2000, (51, 51, 756),
                     "H100 data sheet, PCIe"),
    "a100-80": Gpu("NVIDIA A100-SXM4-80GB", 80, 108, 2048, 166912, 40 * MIB, 79.15, 2039, (19.5, 19.5, 312),
                   "A100 data sheet, 80 GB SXM"),
    "a100-40": Gpu("NVIDIA A100-SXM4-40GB", 80, 108, 2048, 166912, 40 * MIB, 39.38, 1555, (19.5, 19.5, 312),
                   "A100 data sheet, 40 GB SXM"),
    "l40s": Gpu("NVIDIA L40S", 89, 142, 1536, 101376, 96 * MIB, 44.39, 864, (1.4, 91.6, 362),
                "L40S data sheet"),
    "l4": Gpu("NVIDIA L4", 89, 58, 1536, 101376, 48 * MIB, 22.03, 300, (0.47, 30.3, 121),
              "L4 data sheet"),
    "a10g": Gpu("NVIDIA A10G", 86, 80, 1536, 101376, 6 * MIB, 22.07, 600, (0.55, 35, 70),
                "A10G data sheet of AWS; 80 multiprocessors at 1.71 GHz make 35"),
    "t4": Gpu("Tesla T4", 75, 40, 1024, 65536, 4 * MIB, 14.57, 320, (0.25, 8.1, 65),
              "T4 data sheet"),
    "v100-32": Gpu("Tesla V100-SXM2-32GB", 70, 80, 2048, 98304, 6 * MIB, 31.74, 900, (7.8, 15.7, 125),
                   "V100 data sheet, SXM2"),
    "v100": Gpu("Tesla V100-SXM2-16GB", 70, 80, 2048, 98304, 6 * MIB, 15.77, 900, (7.8, 15.7, 125),
                "V100 data sheet, SXM2"),
    "rtx-pro-6000": Gpu("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 120, 188, 1536, 101376, 128 * MIB, 94.97, 1792, (1.95, 125, 503.8),
                        "RTX PRO Blackwell architecture white paper, table 1; multiprocessors, cache and memory: PyTorch on one"),
    "rtx-5090": Gpu("NVIDIA GeForce RTX 5090", 120, 170, 1536, 101376, 96 * MIB, 31.36, 1792, (1.6, 104.8, 209.5),
                    "RTX Blackwell architecture white paper, appendix A"),
    "rtx-4090": Gpu("NVIDIA GeForce RTX 4090", 89, 128, 1536, 101376, 72 * MIB, 23.64, 1008, (1.3, 82.6, 165.2),
                    "Ada architecture white paper, appendix A"),
    "rtx-3090": Gpu("NVIDIA GeForce RTX 3090", 86, 82, 1536, 101376, 6 * MIB, 23.68, 936, (0.56, 35.6, 71),
                    "GA102 architecture white paper, appendix A"),
}


def find(name):
    """Returns the GPU, or raises ValueError with the nearest names first."""
    if name in GPUS:
        return GPUS[name]
    nearest = difflib.get_close_matches(name, GPUS, n=3, cutoff=0)
    rest = [one for one in GPUS if one not in nearest]
    raise ValueError(f"no GPU '{name}' is known, expected one of {', '.join(nearest + rest)}")

# SPDX-License-Identifier: Apache-2.0
"""The GPUs that a dry run can assume, read from gpus.inc, which has the sources of their figures. PyTorch and its libraries choose sizes
of scratch memory by these properties."""
import ast
import dataclasses
import difflib
import pathlib
import re

MIB = 1 << 20
GIB = 1 << 30
TABLE = pathlib.Path(__file__).with_name("gpus.inc").read_text(encoding="utf-8")


def rows(kind):
    """Returns the values of the rows of a kind."""
    return [ast.literal_eval(values) for values in re.findall(rf"^{kind}(\(.*?\))$", TABLE, re.MULTILINE | re.DOTALL)]


LINKS = dict(rows("LINK"))  # bytes a second in each direction
NETWORK = 50e9  # bytes a second of a GPU to other nodes: 400 Gbit/s, as a DGX H100 has for each
UNIFIED = "unified memory"  # in the place of a link
MOST_PER_NODE = 8  # GPUs of a node that nothing else says


@dataclasses.dataclass(frozen=True)
class Gpu:
    title: str  # of the driver
    capability: int  # ten times the major, plus the minor number
    multiprocessors: int
    threads: int  # of a multiprocessor
    shared_bytes: int  # of a block, at most
    l2_mib: float  # of the cache
    memory_gib: float
    gigabytes_per_second: float  # of its memory
    # 10^12 operations a second: of matrices of doubles, of floats without tensor cores, and of 16-bit numbers with dense tensor
    # cores that add up floats.
    doubles: float
    floats: float
    halves: float
    link: str  # to the host
    peers: str  # the link to other GPUs of a node
    source: str

    @property
    def l2_bytes(self):
        """Compilers of kernels make buffers of this size to empty the cache."""
        return int(self.l2_mib * MIB)

    @property
    def memory_bytes(self):
        return int(self.memory_gib * GIB)

    @property
    def bytes_per_second(self):
        return self.gigabytes_per_second * 1e9

    @property
    def operations_per_second(self):
        """Operations on doubles, floats and 16-bit numbers."""
        return tuple(1e12 * one for one in (self.doubles, self.floats, self.halves))

    @property
    def is_integrated(self):
        """Whether the GPU shares the memory of the host, as CUDA's property `integrated` says."""
        return self.link == UNIFIED

    @property
    def link_bytes_per_second(self):
        return self.bytes_per_second / 2 if self.is_integrated else LINKS[self.link]

    @property
    def peer_bytes_per_second(self):
        """The rate of collectives among the GPUs of a node: one that is alone there has none."""
        return NETWORK if self.is_integrated else LINKS[self.peers]

    @property
    def per_node(self):
        """The GPUs of a node that nothing else says."""
        return 1 if self.is_integrated else MOST_PER_NODE


GPUS = {name: Gpu(*values) for name, *values in rows("GPU")}


def link_of(title, capability):
    """Returns the bytes a second of copies from and to the host: those of the GPU with that title, or of PCI Express as GPUs of the
    capability have it."""
    known = next((gpu.link_bytes_per_second for gpu in GPUS.values() if gpu.title == title), None)
    return known or LINKS[{7: "PCIe 3.0 x16", 8: "PCIe 4.0 x16"}.get(capability // 10, "PCIe 5.0 x16")]


def find(name):
    """Returns the GPU, or raises ValueError with the nearest names first."""
    if name in GPUS:
        return GPUS[name]
    nearest = difflib.get_close_matches(name, GPUS, n=3, cutoff=0)
    rest = [one for one in GPUS if one not in nearest]
    raise ValueError(f"no GPU '{name}' is known, expected one of {', '.join(nearest + rest)}")

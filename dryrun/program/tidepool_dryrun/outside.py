# SPDX-License-Identifier: Apache-2.0
"""Memory of a GPU that lies outside of PyTorch's allocator: the context with its modules, NCCL's communicators, and the process on the host
where the GPU shares its memory. Only a driver and NCCL know the bytes of the first two, so these are ranges of public measurements, with
their sources.

Not counted: memory that extensions take from the CUDA runtime, which the dry run sees itself.
"""
import dataclasses
import os
import struct

MIB = 1 << 20
# Ranks, device, peers with messages, whether a collective ran, and whether it is there: dryrun/nccl/communicator_record.h.
ENTRY = struct.Struct("=iiiii")

# Bytes of a context without modules for each thread that the GPU can hold at a time: the driver keeps a stack and more for each. The least
# is that of an RTX PRO 6000 (555 MiB, llama.cpp#23604), the most that of an RTX 4060 Ti (107 MiB there). Between them are an H200 (526.8
# MiB; bench/results), a Titan V (319.25 MiB, pytorch#28394), an RTX 3090 (256 MiB, InvokeAI#9413) and an RTX 6000 Ada (426 MiB,
# unsloth-zoo#1053). The version of CUDA makes no difference there: the Titan V had one of 2019, and the RTX 3090 driver 610.
BYTES_OF_A_THREAD = (2015, 2149)
# Bytes that PyTorch and its libraries add at most, with modules that are loaded when a kernel of theirs first runs: on that H200 686.8 to
# 770.8 MiB lay outside of the allocator in trainings of GPT-2 and ResNet-50 (PyTorch 2.11, driver 580). Those with cuDNN took 20 MiB more.
MODULES = 244 * MIB
# All modules at once: 666,632,192 bytes in the place of 287,047,680 (pytorch#86509).
EAGER_MODULES = 666_632_192 - 287_047_680

# Communicators that have run a collective. NCCL takes buffers of 10 and 2 MiB for each channel and peer (nccl#1685), of which 4 MiB are what
# NCCL_BUFFSIZE sets, so its memory grows with the channels and the buffers (a maintainer in nccl#864).
CHANNEL = 12 * MIB
BUFFER = 4 * MIB
LEAST_CHANNELS = 2
CHANNELS = 24  # of the two below: A100s with NVLink have as many (nccl-tests#100)
MOST_CHANNELS = 64  # that NCCL can have
ONE_RANK = (0, 512 * MIB)  # nothing by default, 536,870,912 bytes on eight B300 (nccl#2363, #2366)
TWO_RANKS = 544 * MIB  # on A100s with NVLink (nccl#964)
MORE_RANKS = 688 * MIB  # the same; 576 MiB on eight GB200 (sglang#30908)
# Eight H100: 1.06 GB before the first exchange, with the context (nccl#1685), less 771 MiB as on the H200, are 240 MiB.
LEAST_CHANNELS_OF_NVLINK = 20
NETWORK = 512 * MIB  # the buffer that all messages to other nodes share (nccl#2363)
PEER = 469_000_000  # for each GPU of a node with messages: 3.28 GB more at the first exchange among eight H100 (nccl#1685)


@dataclasses.dataclass
class Around:
    """The machine of a run."""
    gpu: object  # a gpus.Gpu
    per_node: int = 1  # GPUs
    has_nodes: bool = False  # whether the job has several
    counts: bool = True  # whether the memory is that of the whole GPU: no one has left room by --memory


def context(gpu):
    """Returns the least and the most bytes of a context with PyTorch's modules, and the source."""
    threads = gpu.multiprocessors * gpu.threads
    least, most = (threads * one for one in BYTES_OF_A_THREAD)
    found = least, most + MODULES, ("contexts of six GPUs by their threads (llama.cpp#23604, pytorch#28394, InvokeAI#9413, unsloth-zoo#1053, an H200), "
                                    "and PyTorch's modules on the H200")
    if os.environ.get("CUDA_MODULE_LOADING", "").upper() == "EAGER":
        return found[0] + EAGER_MODULES, found[1] + EAGER_MODULES, f"{found[2]}; pytorch#86509 for all modules at once"
    return found


def least_context(gpu, counts):
    """Returns the bytes that a context has taken of a GPU before the first request, at least. None where the memory is for the program
    alone."""
    return context(gpu)[0] if counts else 0


def setting(name, default):
    """Returns a number of the environment from 1 on, as NCCL reads it."""
    try:
        found = int(os.environ.get(name, ""), 0)
    except ValueError:
        return default
    return found if found > 0 else default


def channels(usual):
    """Returns the channels of a communicator, which are the usual ones where the environment sets no others."""
    return min(max(setting("NCCL_MIN_NCHANNELS", 1), min(setting("NCCL_MAX_NCHANNELS", usual), usual)), MOST_CHANNELS)


def buffers():
    """Returns the memory of a channel as a multiple of the usual one, since the environment may set the size of a buffer."""
    return (CHANNEL - BUFFER + setting("NCCL_BUFFSIZE", BUFFER)) / CHANNEL


def connection(usual_channels):
    """Returns the least bytes of a connection to a peer."""
    return int(channels(usual_channels) * CHANNEL * buffers())


def ring(gpu):
    """Returns the least bytes of a communicator of more than two ranks that has run a collective."""
    return connection(LEAST_CHANNELS_OF_NVLINK if gpu.peers.startswith("NVLink") else LEAST_CHANNELS)


def least_of_nccl(gpu, per_node):
    """Returns the least bytes for a pair of ranks and for a ring of more, and the other GPUs of the node, as NCCL_HOST_MEMORY has them."""
    return f"{connection(LEAST_CHANNELS)},{ring(gpu)},{per_node - 1}"


def communicator(ranks, peers, has_collective, around):
    """Returns the least and the most bytes of a communicator, of which a rank exchanges messages with some peers, and the source. Without
    a collective NCCL connects no ring, from version 2.22 on."""
    if ranks == 1:
        return *ONE_RANK, "nccl#2363, #2366"
    least = (ring(around.gpu) if ranks > 2 else connection(LEAST_CHANNELS)) if has_collective else 0
    near = min(peers, around.per_node - 1)
    share = channels(CHANNELS) / CHANNELS * buffers()
    least += near * connection(LEAST_CHANNELS)
    most = int(share * ((TWO_RANKS if ranks == 2 else MORE_RANKS) + near * PEER))
    if around.has_nodes:
        most += NETWORK
    return least, most, "nccl#864, #964, #1685, #2363, sglang#30908"


def entries(path, device):
    """Returns the communicators of a process on a device: ranks, peers with messages, and whether a collective ran."""
    contents = path.read_bytes() if path.exists() else b""
    whole = contents[:len(contents) // ENTRY.size * ENTRY.size]
    return [(ranks, peers, has_collective) for ranks, number, peers, has_collective, _ in ENTRY.iter_unpack(whole) if number == device]


def answer(path, device, around, host_bytes):
    """Returns the memory outside of PyTorch's allocator as answers have it. `path` is the record of the communicators of a process, which
    takes `host_bytes` of the host, least and most."""
    least, most, source = context(around.gpu)
    found = []
    for entry in entries(path, device):
        *bytes_, of = communicator(*entry, around)
        found.append({"ranks": entry[0], "peers": entry[1], "bytes": bytes_, "source": of})
    return {"context_bytes": [least, most], "context_source": source,
            "nccl_bytes": [sum(one["bytes"][end] for one in found) for end in (0, 1)], "communicators": len(found), "nccl": found,
            "host_bytes": list(host_bytes) if around.gpu.is_integrated else [0, 0], "counts": around.counts}


def counted_bytes(outside):
    """Returns the least and the most bytes that a program's memory has to leave free. The process on the host is a part of the program."""
    counted = ("host_bytes", "context_bytes", "nccl_bytes") if outside["counts"] else ("host_bytes",)
    return tuple(sum(outside[name][end] for name in counted) for end in (0, 1))

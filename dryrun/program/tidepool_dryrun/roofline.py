# SPDX-License-Identifier: Apache-2.0
"""The time and the memory of an operator on a GPU that is not there: the roofline of its operations and its bytes, and the rules by which
PyTorch chooses scratch memory."""
# The clock of dry runs has the same figures: assumed_time.h and attention.cc of dryrun/runtime/cudart, and dryrun/libraries/gpu.h.
LAUNCH = 5e-6  # seconds
EFFICIENCY = 0.8  # of products
ATTENTION = {True: 0.35, False: 0.6}  # from Hopper on, and before
WIDE = ("convolution",)  # PyTorch lets its floats have the precision of TF32
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm"}
# Bytes of a handle of cuBLAS, which each thread has: 32 MiB on Hopper (cublasSetWorkspace in ATen/cuda/CublasHandlePool.cpp).
WORKSPACE, HOPPER_WORKSPACE = (2 * 4096 + 8 * 16) << 10, 32 << 20
LIGHT_WORKSPACE = 1 << 20  # of cuBLASLt
SUMS = {"sum", "mean"}


def name_of(function):
    return function._overloadpacket.__name__


def seconds(torch, gpu, function, used, made, operations):
    """Returns the time of an operator with tensors `used` and `made`, of as many floating point operations."""
    moved = sum(one.numel() * one.element_size() for one in (*used, *made))
    passed = moved / gpu.bytes_per_second
    if not operations:
        return LAUNCH + passed
    doubles, floats, halves = gpu.operations_per_second
    rates = {torch.float64: doubles, torch.float16: halves, torch.bfloat16: halves if gpu.capability >= 80 else floats}
    type_ = next((one.dtype for one in used if one.dtype.is_floating_point), torch.float32)
    rate = rates.get(type_, floats)
    if type_ == torch.float32 and gpu.capability >= 80 and any(part in name_of(function) for part in WIDE):
        rate = halves / 2
    efficiency = ATTENTION[gpu.capability >= 90] if "attention" in name_of(function) else EFFICIENCY
    return LAUNCH + max(passed, operations / (rate * efficiency))


def library_bytes(gpu):
    """Returns the sizes of the requests of cuBLAS in the thread of the forward pass, and of the backward pass."""
    handle = HOPPER_WORKSPACE if gpu.capability == 90 else WORKSPACE
    return handle, LIGHT_WORKSPACE, handle


def workspace(gpu, function, used, made):
    """Returns the bytes that an operator takes beside its results, as far as a rule is known: sums along the first dimensions."""
    if name_of(function) not in SUMS or not used or not made or not used[0].is_contiguous():
        return 0
    before, after = used[0], made[0]
    outputs = after.numel()
    inputs = before.numel() // max(1, outputs)
    # The sum runs along the fastest dimension, or along all.
    if outputs <= 1 or inputs <= 1 or before.size(-1) != outputs or before.element_size() > 4:
        return 0
    return of_columns(gpu, inputs, outputs, max(4, before.element_size()))


def of_columns(gpu, inputs, outputs, size):
    """Returns the bytes for the sums of columns, by setReduceConfig of ATen/native/cuda/Reduce.cuh: several blocks add up parts of one."""
    wide = next(count for count in (4, 2, 1) if outputs % count == 0)
    threads = 512 // wide
    columns = outputs // wide
    width = min(power_of_two(columns), 32)
    height = min(power_of_two(inputs), threads // width)
    width = min(power_of_two(columns), threads // height)
    values = inputs
    if values < height * 16 and values < 256:
        return 0
    values = -(-values // height)
    grid = -(-columns // width)
    target = gpu.multiprocessors * (gpu.threads // (width * height))
    if values < 256 or grid > target:
        return 0
    blocks = max(min(-(-target // grid), -(-values // 16)), -(-values // 256))
    return size * outputs * blocks * width * wide if blocks > 1 else 0


def power_of_two(number):
    """Returns the largest power of two that is not above a number."""
    return 1 << (number.bit_length() - 1)

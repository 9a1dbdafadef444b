# SPDX-License-Identifier: Apache-2.0
"""The memory that convolutions and recurrent layers take beside their results on a GPU that is not there: that of dry runs, by the rules of
their stand-in for cuDNN."""
import ctypes
import functools
import math
import pathlib

LIBRARY = pathlib.Path(__file__).parent.parent / "cudart_host" / "libcuda_libraries.so"
TYPES = {"torch.float32": 0, "torch.float64": 1, "torch.float16": 2, "torch.bfloat16": 9}  # cudnnDataType_t
FORWARD, DATA, FILTER = range(3)


@functools.lru_cache(maxsize=None)
def rules():
    """Returns the stand-in, or None in an installation without it."""
    if not LIBRARY.exists():
        return None
    library = ctypes.CDLL(str(LIBRARY))
    library.tidepoolWorkspaceOfConvolution.restype = ctypes.c_longlong
    return library


def workspace(gpu, function, arguments, made):
    """Returns the bytes that a convolution or its gradients take beside their results; 0 for other operators."""
    name = function._overloadpacket.__name__
    if name == "convolution":
        x, w, (stride, padding, dilation, is_transposed, _, groups) = *arguments[:2], arguments[3:9]
        y = made[0]
        pass_ = DATA if is_transposed else FORWARD
        return of_pass(gpu, pass_, *((y, w, x) if is_transposed else (x, w, y)), stride, padding, dilation, groups)
    if name != "convolution_backward":
        return 0
    y, x, w, _, stride, padding, dilation, is_transposed, _, groups, wanted = arguments
    tensors = (y, w, x) if is_transposed else (x, w, y)
    of_data = of_pass(gpu, FORWARD if is_transposed else DATA, *tensors, stride, padding, dilation, groups) if wanted[0] else 0
    of_filter = of_pass(gpu, FILTER, *tensors, stride, padding, dilation, groups) if wanted[1] else 0
    # The gradient of the input comes first, when the others have no memory yet.
    later = sum(one.numel() * one.element_size() for one in made[1 if wanted[0] else 0:])
    return max(of_data - later, of_filter, 0)


def of_pass(gpu, pass_, x, w, y, stride, padding, dilation, groups):
    if rules() is None or str(x.dtype) not in TYPES or (1 < groups == x.shape[1]):  # PyTorch's own kernel, or one that needs nothing
        return 0
    return of_sizes(gpu, pass_, TYPES[str(x.dtype)], is_channels_last(x) or is_channels_last(w), tuple(x.shape), tuple(w.shape), tuple(y.shape),
                    tuple(padding), tuple(stride), tuple(dilation))


def is_channels_last(tensor):
    strides = tensor.stride()
    return len(strides) > 2 and strides[1] == 1 and (tensor.shape[1] > 1 or strides[-1] != 1) and math.prod(tensor.shape[2:]) > 1


@functools.lru_cache(maxsize=None)
def of_sizes(gpu, pass_, type_, is_last, x, w, y, padding, stride, dilation):
    if len(x) == 3:  # PyTorch takes one direction for two
        x, w, y = ((*sizes[:2], 1, *sizes[2:]) for sizes in (x, w, y))
        padding, stride, dilation = (0, *padding), (1, *stride), (1, *dilation)
    directions = len(x) - 2
    padding, stride, dilation = (one if len(one) == directions else one * directions for one in (padding, stride, dilation))
    numbers = (*x, *w, *y, *padding, *stride, *dilation)
    rates = (gpu.bytes_per_second, *gpu.operations_per_second)
    return rules().tidepoolWorkspaceOfConvolution(pass_, type_, int(is_last), directions, (ctypes.c_longlong * len(numbers))(*numbers),
                                                  gpu.capability, ctypes.c_longlong(gpu.multiprocessors), (ctypes.c_double * 4)(*rates))


def operations(function, arguments):
    """Returns the floating point operations of recurrent layers, as many for each half of the backward pass; 0 for other operators."""
    passes = {"_cudnn_rnn": 1, "_cudnn_rnn_backward": 2}.get(function._overloadpacket.__name__)
    if passes is None:
        return 0
    x, weights = arguments[:2]
    return 2 * passes * x.numel() // x.shape[-1] * sum(one.numel() for one in weights if len(one.shape) == 2)


CELLS = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}  # cudnnRNNMode_t
LSTM = CELLS["lstm"]


class Recurrent:
    """Recurrent layers as cuDNN runs them, by the arguments of PyTorch's operators for them."""

    def __init__(self, x, weights, hx, cx, mode, hidden, projected, layers, batch_first, dropout, is_bidirectional):
        self.x, self.weights, self.hx, self.cx, self.batch_first = x, weights, hx, cx, batch_first
        steps, batch = (x.shape[1], x.shape[0]) if batch_first else x.shape[:2]
        self.workspace, self.reserve = memory_of_layers(TYPES[str(x.dtype)], mode, int(is_bidirectional), x.shape[2], hidden, projected, layers,
                                                        float(dropout), steps, batch)

    def copy_bytes(self):
        """Returns the bytes of a copy of the input with the steps first; 0 where it has them so."""
        return self.x.numel() * self.x.element_size() if self.batch_first else 0

    def backward(self, output, gradients, wanted):
        """Returns the gradients, those of the weights in one piece of memory, and the bytes that they take besides. `gradients` are those of
        the output and of both states: PyTorch makes zeros in the place of None."""
        empty = self.x.new_empty
        found = [empty(self.x.shape), empty(self.hx.shape), None if self.cx is None else empty(self.cx.shape), []]
        if wanted[3]:
            piece = empty(sum(one.numel() for one in self.weights))
            found[3] = [part.view(one.shape) for part, one in zip(piece.split([one.numel() for one in self.weights]), self.weights)]
        copies = self.copy_bytes() + (output.numel() * output.element_size() if self.batch_first else 0)
        zeros = sum(one.numel() * one.element_size() for gradient, one in zip(gradients, (output, self.hx, self.cx)) if gradient is None and
                    one is not None)
        return tuple(found), self.workspace + copies + zeros


@functools.lru_cache(maxsize=None)
def memory_of_layers(type_, mode, is_bidirectional, width, hidden, projected, layers, dropout, steps, batch):
    """Returns the bytes of the workspace and of the reserve that the backward pass reads."""
    library, described, data, rate = rules(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    if library is None:
        return 0, 0
    nothing = ctypes.c_void_p()
    library.cudnnCreateDropoutDescriptor(ctypes.byref(rate))
    library.cudnnSetDropoutDescriptor(rate, nothing, ctypes.c_float(dropout), nothing, ctypes.c_size_t(0), ctypes.c_ulonglong(0))
    library.cudnnCreateRNNDescriptor(ctypes.byref(described))
    library.cudnnSetRNNDescriptor_v8(described, 0, mode, 1, is_bidirectional, 0, type_, 0, 0, width, hidden, projected, layers, rate, 0)
    library.cudnnCreateRNNDataDescriptor(ctypes.byref(data))
    library.cudnnSetRNNDataDescriptor(data, type_, 0, steps, batch, width, nothing, nothing)
    work, reserve = ctypes.c_size_t(), ctypes.c_size_t()
    library.cudnnGetRNNTempSpaceSizes(nothing, described, 1, data, ctypes.byref(work), ctypes.byref(reserve))
    for delete, one in ((library.cudnnDestroyRNNDataDescriptor, data), (library.cudnnDestroyRNNDescriptor, described),
                        (library.cudnnDestroyDropoutDescriptor, rate)):
        delete(one)
    return work.value, reserve.value

# SPDX-License-Identifier: Apache-2.0
"""The task graph of a training step of a model, without a GPU and without its stand-in: operators run on tensors that have sizes but no
memory, forward, backward and update as PyTorch runs them on a GPU, and are noted as in dry runs."""
import contextlib
import copy
import os
import warnings
import weakref

from . import backward, cudnn, events, gpus, graph, live, roofline

DEVICE = 0
NOTE = "of the memory that operators take for themselves, that of cuBLAS, cuDNN and sums of columns is in the graph: a dry run has all"


class Requests:
    """The memory of tensors without memory: a request where an operator makes a new one, and its end where no tensor has it any more.
    `now` is the time in nanoseconds."""

    def __init__(self, torch, gpu):
        self.torch, self.gpu = torch, gpu
        self.events, self.live, self.bytes = [], set(), 0
        self.now = 0
        self.has_library = False

    def add(self, storage):
        """Adds the request for the memory of a tensor, and returns whether it is new."""
        address, size = storage._cdata, storage.nbytes()
        if address in self.live or size == 0:
            return False
        self.request(address, size)
        weakref.finalize(storage, self.end, address, size).atexit = False
        return True

    def request(self, address, size):
        self.live.add(address)
        self.events.append({"action": "alloc", "addr": address, "size": size})
        self.bytes += size

    def begin_library(self):
        """Adds the memory that the library of products keeps from the first one on."""
        if not self.has_library:
            self.has_library = True
            for number, size in enumerate(roofline.library_bytes(self.gpu)):
                self.request(("library", number), size)

    def pass_by(self, size):
        """Adds memory that an operator takes while it runs."""
        if size:
            self.request("workspace", size)
            self.end("workspace", size)

    def end(self, address, size):
        self.live.discard(address)
        self.events.append({"action": "free_completed", "addr": address, "size": size})
        self.bytes -= size

    def position(self, device):
        return len(self.events)

    def requested_bytes(self, device):
        return self.bytes

    def clock(self, device):
        return self.now


def noting(torch, requests):
    """Returns a mode of PyTorch that notes requests and times of operators."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves
    from torch.utils.flop_counter import flop_registry

    def on_gpu(values):
        return [one for one in tree_leaves(values) if isinstance(one, torch.Tensor) and one.is_cuda]

    def operations_of(function, arguments, named, result):
        formula = flop_registry.get(function._overloadpacket)
        return formula(*arguments, **named, out_val=result) if formula else cudnn.operations(function, arguments)

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), named=None):
            named = named or {}
            if function is torch.ops.aten._local_scalar_dense.default:  # the program reads a number, which has no value
                return 1.0 if arguments[0].dtype.is_floating_point else 1
            # PyTorch's own engine lets cuDNN write over the reserve, which alone has this type in the backward pass.
            if function is torch.ops.aten.clone.default and arguments[0].dtype == torch.uint8 and torch._C._current_graph_task_id() != -1:
                return arguments[0]
            result, beside = layers_of(torch, function, arguments) or (function(*arguments, **named), 0)
            used, made = on_gpu((arguments, named)), on_gpu(result)
            if roofline.name_of(function) in roofline.PRODUCTS:
                requests.begin_library()
            is_new = [requests.add(one.untyped_storage()) for one in made]
            if any(is_new) or (used and function._schema.is_mutable):
                requests.pass_by(max(beside, roofline.workspace(requests.gpu, function, used, made),
                                     cudnn.workspace(requests.gpu, function, arguments, made)))
                requests.now += round(1e9 * roofline.seconds(torch, requests.gpu, function, used, made,
                                                             operations_of(function, arguments, named, result)))
            return result

    return Mode()


def layers_of(torch, function, arguments):
    """Returns the result of an operator of recurrent layers, and the bytes that it takes besides; None for other operators."""
    if function is torch.ops.aten._cudnn_rnn.default:
        x, weights, _, _, hx, cx, mode, hidden, projected, layers, batch_first, dropout, _, is_bidirectional, *_ = arguments
        made = cudnn.Recurrent(x, weights, hx, cx, mode, hidden, projected, layers, batch_first, dropout, is_bidirectional)
        output, hy, cy, _, buffer = function(*arguments)
        return (output, hy, cy, x.new_empty(made.reserve, dtype=torch.uint8), buffer), made.workspace + made.copy_bytes()
    if function is torch.ops.aten._cudnn_rnn_backward.default:
        x, weights, _, _, hx, cx, output, *gradients = arguments[:10]
        mode, hidden, projected, layers, batch_first, dropout, _, is_bidirectional, *_, wanted = arguments[10:]
        made = cudnn.Recurrent(x, weights, hx, cx, mode, hidden, projected, layers, batch_first, dropout, is_bidirectional)
        return made.backward(output, gradients, wanted)
    return None


class Step:
    """A training step of a model: `run` is one. The tensors are on a GPU that is not there. `layer` is the module of the running operator
    where the model is a graph."""

    def __init__(self, torch, model, example_inputs, loss, targets, optimizer):
        self.torch, self.loss = torch, loss
        self.layer = ""
        self.model = without_memory(torch, model)
        self.is_graph = isinstance(self.model, torch.fx.GraphModule)
        self.inputs, self.targets = empty_like(torch, example_inputs), empty_like(torch, targets)
        self.optimizer = optimizer([one for one in self.model.parameters() if one.requires_grad]) if optimizer else None

    def run(self):
        for one in self.model.parameters():
            one.grad = None
        engine = backward.Engine(self.torch)
        engine.begin(*self.root(self.forward()))
        engine.run()
        if self.optimizer:
            self.optimizer.step()

    def forward(self):
        if self.is_graph:
            return walk(self.torch, self)
        arguments, named = ((), self.inputs) if isinstance(self.inputs, dict) else (self.inputs, {})
        return self.model(*arguments, **named)

    def root(self, result):
        """Returns the operator of the loss and the gradient that the backward pass begins with."""
        found = self.loss(result, *self.targets) if self.loss else loss_in(self.torch, result)
        if not isinstance(found, self.torch.Tensor) or found.numel() != 1:
            what = f"a tensor of sizes {list(found.shape)}" if isinstance(found, self.torch.Tensor) else type(found).__name__
            raise ValueError(f"the loss is {what}, expected a tensor of one number: give loss=, a function of the result of the model")
        if found.grad_fn is None:
            raise ValueError("the loss depends on no parameter that requires a gradient, expected at least one")
        return found.grad_fn, self.torch.ones_like(found)


def loss_in(torch, result):
    """Returns the loss among the results of a model that computes it."""
    if isinstance(result, dict):
        return result.get("loss")
    if isinstance(result, (tuple, list)):
        return result[0]
    return getattr(result, "loss", result)


def empty_like(torch, values):
    """Returns values with tensors of the GPU in place of tensors."""
    from torch.utils._pytree import tree_map
    return tree_map(lambda one: blank(torch, one) if isinstance(one, torch.Tensor) else one, values)


def blank(torch, tensor):
    made = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=f"cuda:{DEVICE}")
    return made.requires_grad_(tensor.requires_grad)


def without_memory(torch, model):
    """Returns a copy of a module, or the module of an exported program, with parameters and buffers on the GPU."""
    if isinstance(model, torch.export.ExportedProgram):
        model = model.module()
    known = {}
    for one in (*model.parameters(), *model.buffers()):
        made = blank(torch, one)
        known[id(one)] = torch.nn.Parameter(made, one.requires_grad) if isinstance(one, torch.nn.Parameter) else made
    made = copy.deepcopy(model, known)
    for module in made.modules():
        if isinstance(module, torch.fx.GraphModule):
            to_gpu(torch, module)
    return made


def walk(torch, step):
    """Runs the graph of a model. Operators belong to the modules that they had before they were traced."""
    class Walk(torch.fx.Interpreter):
        def run_node(self, node):
            modules = [path for path, _ in node.meta.get("nn_module_stack", {}).values()]
            step.layer = next((path for path in reversed(modules) if path), "").replace("L['self'].", "")
            return super().run_node(node)

    if isinstance(step.inputs, dict):
        raise ValueError("the inputs of a graph are named, expected a tuple")
    return Walk(step.model).run(*step.inputs)


def to_gpu(torch, module):
    """Lets the operators of a graph that name a device name the GPU."""
    for node in module.graph.nodes:
        if isinstance(node.kwargs.get("device"), torch.device):
            node.kwargs = {**node.kwargs, "device": torch.device("cuda", DEVICE)}
    module.recompile()


@contextlib.contextmanager
def operators_of(torch, gpu):
    """Lets attention and recurrent layers choose their operators as on the GPU: PyTorch asks a GPU for them, and takes slow ones without."""
    from torch.overrides import TorchFunctionMode
    from torch.nn import functional

    class Mode(TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), named=None):
            if function in (functional.scaled_dot_product_attention, torch.ops.aten.scaled_dot_product_attention.default):
                found = attention(torch, gpu, *arguments, **(named or {}))
                if found is not None:
                    return found
            if getattr(function, "__name__", "") in cudnn.CELLS and len(arguments) == 9:  # not those of packed sequences
                return recurrent(torch, *arguments, mode=cudnn.CELLS[function.__name__])
            return function(*arguments, **(named or {}))

    with Mode():
        yield


def attention(torch, gpu, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """Returns the result of fused attention, or None where PyTorch has none for these arguments."""
    width = query.shape[-1]
    if query.dim() != 4 or width % 8 or width > 256 or width != value.shape[-1] or enable_gqa:
        return None
    if attn_mask is None and query.dtype in (torch.float16, torch.bfloat16) and gpu.capability >= 80:
        return torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, scale=scale)[0]
    keeps = torch.is_grad_enabled() and any(one.requires_grad for one in (query, key, value))
    return torch.ops.aten._scaled_dot_product_efficient_attention(query, key, value, attn_mask, keeps, dropout_p, is_causal, scale=scale)[0]


def recurrent(torch, x, state, weights, has_biases, layers, dropout, is_training, is_bidirectional, batch_first, *, mode):
    """Returns the result of recurrent layers by cuDNN."""
    hx, cx = state if mode == cudnn.LSTM else (state, None)
    hidden, projected = (cx.shape[2], hx.shape[2]) if cx is not None and cx.shape[2] != hx.shape[2] else (hx.shape[2], 0)
    count = (4 if has_biases else 2) + (projected > 0)
    output, hy, cy, *_ = torch._cudnn_rnn(x, weights, count, weights[0].detach(), hx, cx, mode, hidden, projected, layers, batch_first, dropout,
                                          is_training, is_bidirectional, [], None)
    return (output, hy, cy) if mode == cudnn.LSTM else (output, hy)


@contextlib.contextmanager
def fake_gpu(torch, requests):
    """A context in which tensors have no memory, and optimizers and attention take the ways that they take on a GPU."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    from torch.optim import optimizer
    types = optimizer._foreach_supported_types
    types.append(FakeTensor)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Accessing the data pointer")
            with FakeTensorMode(allow_non_fake_inputs=True), noting(torch, requests), operators_of(torch, requests.gpu):
                yield
    finally:
        types.remove(FakeTensor)


def record(torch, gpu, *step):
    """Runs a training step after a first one, which makes the state of the optimizer. Returns the notes and the requests for memory."""
    from torch.optim.optimizer import register_optimizer_step_post_hook
    steps, requests = live.notes_module(), Requests(torch, gpu)
    with fake_gpu(torch, requests):
        training = Step(torch, *step)
        training.run()
        noted = steps.Steps(torch, requests, None, requests.clock)
        hooks = [noted.hook, register_optimizer_step_post_hook(lambda *_: noted.updates_end())]
        try:
            noted.layers._add(training.model)
            if training.is_graph:
                noted.layers.of_stack = lambda: (training.layer, "")
            noted.mode = steps.mode_of(noted, DEVICE)
            with noted.mode:
                training.run()
            found = noted.notes(noted.mode)
        finally:
            for hook in hooks:
                hook.remove()
    return {**found, "number": 1, "differs_from_before": None}, events.Record(requests.events)


def write(model, path, example_inputs, loss, targets, optimizer, gpu):
    """Writes the task graph of a training step of a model into a file, and returns its part of the JSON of a dry run."""
    import torch
    card = gpus.find(gpu)
    made = graph.Graph(*record(torch, card, model, example_inputs, loss, targets, optimizer))
    title = type(model).__name__
    answer = graph.write(made, title, card, made.peak, os.fspath(path))
    return {**answer, "notes": [*answer["notes"], NOTE if cudnn.rules() else NOTE.replace(", cuDNN", "")]}

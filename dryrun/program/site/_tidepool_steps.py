# SPDX-License-Identifier: Apache-2.0
"""The operators of a training step, for the task graph of the program. A step begins where an optimizer ended the one before, so it
is never the first one, in which optimizers make their state.
"""
import ctypes
import functools
import itertools
import os
import pickle
import sys
import weakref

import _tidepool_joined as joined
import _tidepool_lines as lines
from _tidepool_tensors import parts_of

MOST_NOTES = 200_000  # of operators of a step: of more, neighbours are joined, to half as many at most
LAYER, BEGIN = 2, 4  # in the notes of an operator: the layer, and position and time, before those of its end
LARGEST = "-largest"  # of the file of the step that takes most memory
# Operators with zeros for one of these numbers draw no random numbers.
PROBABILITIES = ("dropout_p", "dropout", "p")
STATISTICS = {"running_mean", "running_var"}  # of batch normalisation, which does not read them while it trains
COLLECTIVES = "c10d"  # the namespace of operators that change their first argument, of which their schemas do not tell
READ_ALONE = ("send", "barrier")  # of them
PRODUCTS = ("mm", "bmm")
LENGTHS = ("input_lengths", "target_lengths")  # of the CTC loss
AROUND = ("/_compile.py", "/eval_frame.py")  # files of PyTorch that call this one in some versions, in programs that import the compiler


class Steps:
    """Notes the operators between two steps of an optimizer. `recording` knows the requests for memory, by which operators are
    placed: a position is the number of requests and frees so far. `clock` returns the sum of the times of the work of a device, and `end`
    when that work ends, in nanoseconds; None: it runs one after the other."""

    def __init__(self, torch, recording, path, clock, end=None):
        self.torch = torch
        self.recording = recording
        self.path = path
        self.mode = None
        checkpoints = [path for path in os.environ.get("TIDEPOOL_DRYRUN_CHECKPOINTS", "").split(":") if path]
        self.layers = Layers(torch, self.tell_models_apart, checkpoints)
        self.calls = torch.nn.modules.module.register_module_forward_pre_hook(self.layers.called) if checkpoints else None
        self.gradients = {}  # of the step: address and name
        self.optimizers = weakref.WeakSet()
        self.is_in_step = 0  # calls of `step` of optimizers
        self.before = None  # the names of the operators of the step before
        self.peak = 0  # live bytes, of all steps so far
        self.clock = clock
        self.end_of_work = end or clock
        self.is_in_budget = bool(os.environ.get("TIDEPOOL_DRYRUN_BUDGET"))
        from torch.optim.optimizer import register_optimizer_step_pre_hook
        self.hook = register_optimizer_step_pre_hook(self.updates_begin)

    def updates_begin(self, optimizer, *_):
        self.optimizers.add(optimizer)
        self.is_in_step += 1
        if self.mode is not None:
            for parameter in parameters_of(optimizer):
                self.gradients.update(addresses_of(self.torch, parameter.grad, self.layers.name_of(parameter)))

    def updates_end(self):
        self.is_in_step = max(0, self.is_in_step - 1)

    def ended(self, number):
        """Ends the step `number`, and begins the next one."""
        if self.mode is not None:
            self.keep(number, self.mode)
            self.mode.begin_step()
        elif self.recording.has_begun and not modes_of_program():
            self.mode = mode_of(self)
            self.has_new_peak()
            self.mode.__enter__()
            if self.calls:
                self.calls.remove()
        self.gradients = {}
        self.layers.begin()

    def keep(self, number, mode):
        """Writes the step, in the place of the one before. A step that takes more memory than all before stays beside later ones."""
        step = {**self.notes(mode), "number": number, "differs_from_before": None if self.before is None else difference(self.before, mode.names)}
        self.before = mode.names
        replace(self.path, step)
        # In a budget later steps may take less, so an earlier one must not take the place of the last one.
        if self.has_new_peak() and not self.is_in_budget:
            replace(self.path + LARGEST, step)

    def notes(self, mode):
        """Returns the operators of the step that ends now, and the names of its memory."""
        end = self.recording.position(mode.device)
        return {"device": mode.device, "begin": mode.begin, "end": end,
                "clock": (mode.begin_clock, self.clock(mode.device)), "span": (mode.begin_span, self.end_of_work(mode.device)), "operators": with_ends(mode.operators, end), "joined": len(mode.names) - len(mode.operators),
                "weights": {**{address: name for optimizer in self.optimizers for parameter in parameters_of(optimizer)
                               for address, name in addresses_of(self.torch, parameter, self.layers.name_of(parameter)).items()}, **self.layers.weights()},
                "requested_bytes": self.recording.requested_bytes(mode.device), "buffers": self.layers.buffers(), "gradients": self.gradients,
                "states": {address_of(value): (self.layers.name_of(parameter), name.strip("."), str(value.dtype), type(optimizer).__name__)
                           for optimizer in self.optimizers for parameter, state in optimizer.state.items()
                           for name, value in parts_of(self.torch, state) if value.is_cuda},
                "optimizers": sorted(type(optimizer).__name__ for optimizer in self.optimizers),
                "models": self.layers.models()}

    def tell_models_apart(self, title):
        """Lets the layers of the operators so far begin with the title of their model, since another one has been called."""
        if self.mode is not None:
            self.mode.operators = [(*note[:LAYER], self.layers.titled(title, note[LAYER]), *note[LAYER + 1:]) for note in self.mode.operators]

    def has_new_peak(self):
        """Returns whether the peak of live memory has risen since the last call."""
        before, self.peak = self.peak, max(self.peak, self.recording.peak_bytes(self.mode.device))
        return self.peak > before


def replace(path, contents):
    """Writes an object in the place of the one before."""
    with open(path + ".new", "wb") as file:
        pickle.dump(contents, file)
    os.replace(path + ".new", path)


def parameters_of(optimizer):
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def address_of(tensor):
    """Returns the address of the memory of a tensor, or 0 where it has none of its own."""
    try:
        storage = tensor.untyped_storage()
        return storage._cdata if storage.device.type == "meta" else storage.data_ptr()  # one without memory has no address
    except (NotImplementedError, RuntimeError):
        return 0


def addresses_of(torch, value, name):
    """Returns the addresses of the memory of a value on a GPU, with the names of its parts."""
    return {address_of(part): own for own, part in parts_of(torch, value, name) if part.is_cuda}


def modes_of_program():
    """Returns the modes of PyTorch that the program has begun. Another mode within one of them would not end before it."""
    from torch.utils import _python_dispatch
    return _python_dispatch._get_current_dispatch_mode_stack()


def difference(before, now):
    """Returns how the operators of a step differ from those of the one before, or None."""
    if before == now:
        return None
    at = next((number for number, pair in enumerate(zip(before, now)) if pair[0] != pair[1]), min(len(before), len(now)))
    return {"operators": len(now), "before": len(before), "at": at, "name": now[at] if at < len(now) else "no operator"}


def clocks_of(torch):
    """Returns the functions that read the sum of the times of the work of a device, and when it ends, in nanoseconds."""
    runtime = ctypes.CDLL("libcudart.so." + torch.version.cuda.split(".")[0])
    clocks = runtime.cudartHostAssumedTime, runtime.cudartHostAssumedEnd
    for clock in clocks:
        clock.restype = ctypes.c_longlong
    return clocks


class Layers:
    """The modules of the program: where each operator belongs. A gradient belongs to the place of its operator, by the
    sequence numbers of autograd. Hooks of modules would change compiled code, so the stack tells which module runs. Of several models
    the names of modules and parameters begin with that of the class; `tell_models_apart` gets the title of the first one at the second.
    Modules with a path in `checkpoints` run again in the backward pass."""

    def __init__(self, torch, tell_models_apart=lambda title: None, checkpoints=()):
        self.torch = torch
        self.call = torch.nn.Module._call_impl.__code__
        self.tell_models_apart = tell_models_apart
        self.titles = weakref.WeakKeyDictionary()  # of outermost modules that were called
        self.has_titles = False
        self.paths = {}  # by the identity of a module
        self.names, self.unnamed = {}, {}  # by the identity of a parameter
        self.of_sequence = {}
        self.places = {}  # one object for all operators of a place
        self.checkpoints = checkpoints
        self.repeated = set()  # identities of modules that run again

    def begin(self):
        self.of_sequence = {}

    def _add(self, root):
        inside = {id(module) for module in root.modules()}
        for other in [other for other in self.titles if id(other) in inside]:  # it was called alone before
            del self.titles[other]
        self.titles[root] = self._free_title(type(root).__name__)
        models = self._models()
        if len(models) > 1 and not self.has_titles:
            self.has_titles = True
            self._tell_apart(models[0])
        self._name(root)
        if self.checkpoints:
            self._run_again()

    def _free_title(self, title):
        """Returns a title that no other model has."""
        while title in self.titles.values():
            title += "'"
        return title

    def _tell_apart(self, first):
        """Lets all names begin with the titles of models. So far there was the first one."""
        title = self.titles[first]
        self.paths = {key: self.titled(title, path) for key, path in self.paths.items()}
        self.names = {key: self.titled(title, name) for key, name in self.names.items()}
        self.of_sequence = {number: (self.titled(title, layer), line) for number, (layer, line) in self.of_sequence.items()}
        self.tell_models_apart(title)

    def _name(self, root):
        for path, module in root.named_modules():
            self.paths[id(module)] = self._path(root, path) or self.titles[root]
        for name, parameter in root.named_parameters():
            self.names[id(parameter)] = self._path(root, name)

    def _path(self, root, path):
        return self.titled(self.titles[root], path) if self.has_titles and has_weights(root) else path

    def titled(self, title, layer):
        """Returns a layer below its model; that of no module, or of one without weights, as it is."""
        return layer if layer in ("", *self.titles.values()) else f"{title}.{layer}"

    def name_of(self, parameter):
        return self.names.get(id(parameter)) or self.unnamed.setdefault(id(parameter), f"parameter{len(self.unnamed)}")

    def _models(self):
        return [root for root in self.titles if has_weights(root)]

    def models(self):
        return sorted(type(root).__name__ for root in self._models())

    def weights(self):
        return self._addresses("named_parameters")

    def buffers(self):
        return self._addresses("named_buffers")

    def _addresses(self, kind):
        return {address: own for root in self.titles for name, tensor in getattr(root, kind)()
                for address, own in addresses_of(self.torch, tensor, self._path(root, name)).items()}

    def _run_again(self):
        """Lets modules keep their input alone, and run again in the backward pass."""
        from torch.utils.checkpoint import checkpoint
        for module in itertools.chain.from_iterable(root.modules() for root in self.titles):
            if self.paths.get(id(module)) in self.checkpoints and id(module) not in self.repeated:
                self.repeated.add(id(module))
                module.forward = functools.partial(checkpoint, module.forward, use_reentrant=False)

    def called(self, *_):
        """Adds a model when it is called, before its first operator is noted."""
        self.of_stack()

    def place(self, is_backward):
        """Returns the layer and the line of the program that runs now."""
        if is_backward:
            node = self.torch._C._current_autograd_node()
            number = node._sequence_nr() if node is not None else None
            return self.of_sequence.get(number, ("", ""))
        found = self.of_stack()
        found = self.places.setdefault(found, found)
        self.of_sequence[self.torch._C._autograd._get_sequence_nr() - 1] = found
        return found

    def of_stack(self):
        line, modules = "", []
        frame = sys._getframe(1)
        while frame is not None and not (line and modules and id(modules[0]) in self.paths):
            code = frame.f_code
            if code is self.call:
                modules.append(frame.f_locals["self"])
            elif not line and (lines.is_of_program(code.co_filename) or code.co_filename in lines.TYPED):
                line = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
            frame = frame.f_back
        if not modules:
            return "", line
        if id(modules[0]) not in self.paths:
            self._add(modules[-1])
            # A module that no other one registered has the place of the one that calls it.
            known = next(module for module in modules if id(module) in self.paths)
            self.paths[id(modules[0])] = self.paths[id(known)]
        return self.paths[id(modules[0])], line


def has_weights(module):
    return any(True for _ in module.parameters())


def leave_alone(torch, function):
    """Keeps PyTorch's compiler from the frames of a function, which it would compile too where compiled code reads a condition."""
    compiler = torch._C._dynamo.eval_frame
    if hasattr(compiler, "skip_code"):  # of older versions
        compiler.skip_code(function.__code__)
    else:
        skip = compiler._FrameAction.SKIP
        compiler.set_code_exec_strategy(function.__code__, compiler._FrameExecStrategy(skip, skip))


def has_other_code():
    """Returns whether code between two operators may ask for memory: that of Inductor does. Optimizers import the compiler without use."""
    return "torch._inductor.compile_fx" in sys.modules


def fewer(operators, counts):
    """Returns notes of operators with those of neighbours joined by modules, and how many operators each stands for."""
    groups = joined.pieces([operator[1:3] for operator in operators], MOST_NOTES // 2, counts)
    notes = [operators[begin] if end - begin == 1 else joined.joined(operators[begin:end], flags_of(may_rerun(operators[begin:end]), False, False, False))
             for begin, end in groups]
    return notes, [sum(counts[begin:end]) for begin, end in groups]


def may_rerun(operators):
    return all(operator[-1]["may_rerun"] for operator in operators)


def with_ends(operators, end):
    """Returns the operators with the positions of their ends: where none was taken, which takes as long as a small operator, all up to the
    next operator are frees. `end` is that of the step."""
    found = []
    for operator in reversed(operators):
        begin, (own, clock) = operator[BEGIN:BEGIN + 2]
        found.append((*operator[:BEGIN + 1], (end if own is None else own, clock), *operator[BEGIN + 2:]))
        end = begin[0]
    return found[::-1]


def mode_of(steps, device=None):
    """Returns a mode of PyTorch that notes each operator. `device` is that of tensors without memory; None: the current one."""
    torch = steps.torch
    from torch.utils._python_dispatch import TorchDispatchMode

    plain = {torch.Tensor, torch.nn.Parameter}
    if device is None:
        device = torch.cuda.current_device()
    else:
        from torch._subclasses.fake_tensor import FakeTensor
        plain.add(FakeTensor)
    position, clock = steps.recording.position, steps.clock

    def addresses(values):
        return tuple(address_of(one) for one in values if one.is_cuda and one.device.index == device)

    class Mode(TorchDispatchMode):
        # Compiled code runs as it does without this mode.
        @classmethod
        def ignore_compile_internals(cls):
            return True

        @classmethod
        def is_infra_mode(cls):
            return True

        # PyTorch would import its compiler, which takes seconds, and turn it off and on around each operator.
        @classmethod
        def _should_skip_dynamo(cls):
            return False

        def __init__(self):
            super().__init__()
            self.device = device
            self.begin_step()

        def begin_step(self):
            self.operators, self.names = [], []
            self.counts = []  # how many operators each of the notes stands for
            self.most = MOST_NOTES
            self.product = None, 0  # the call that made the last product of matrices, and its address
            self.begin = position(device)
            self.begin_clock, self.begin_span = clock(device), steps.end_of_work(device)

        def __torch_dispatch__(self, function, types, arguments=(), named=None):
            named = named or {}
            if not plain.issuperset(types):
                return NotImplemented  # a tensor of tensors: its own code comes first
            # No operators (notes, and questions about tensors without memory), or none of the device.
            if function.namespace in ("profiler", "prim") or is_of_host(torch, function, arguments, named):
                return function(*arguments, **named)
            is_backward = torch._C._current_graph_task_id() != -1
            if is_view(function):  # its place alone counts, for its gradient
                if torch.is_grad_enabled():
                    steps.layers.place(is_backward)
                return function(*arguments, **named)
            place = steps.layers.place(is_backward)
            function, arguments = with_numbers(torch, function, arguments)
            begin = position(device), clock(device)
            if function is torch.ops.aten.add.Tensor and self.adds_bias(arguments):
                function = torch.ops.aten.add_.Tensor
                result = torch.ops.aten.alias.default(function(*arguments))
            else:
                result = function(*arguments, **named)
            name = function._overloadpacket.__name__
            if name in PRODUCTS:
                self.product = call_of_program(), address_of(result)
            end = position(device) if has_other_code() else None, clock(device)
            used = list(tensors_of(torch, (*arguments, *named.values())))
            written = written_by(function, arguments, named)
            self.operators.append((
                name, "backward" if is_backward else "update" if steps.is_in_step else "forward", *place, begin, end,
                addresses(used), addresses(tensors_of(torch, written.values())), flags_of(
                    function.namespace == "aten" and not is_random(torch, function, arguments, named),
                    bool(written) and set(written) <= STATISTICS and is_training(function, arguments, named),
                    any(not one.is_cuda and one.dim() > 0 for one in used),
                    name == "_to_copy" and is_cached(torch, used[0]))))
            self.names.append(name)
            self.counts.append(1)
            if len(self.operators) > self.most:
                self.operators, self.counts = fewer(self.operators, self.counts)
                self.most = max(MOST_NOTES, 2 * len(self.operators))  # phases that alternate keep more than a half
            return result

        def adds_bias(self, arguments):
            """Returns whether a sum is that of one call of PyTorch with a product of matrices, as linear() makes it of an input that is not contiguous.
            Without a mode it adds the bias in place."""
            call, address = self.product
            return call is not None and address == address_of(arguments[0]) and call == call_of_program()

    leave_alone(torch, Mode.__torch_dispatch__)
    return Mode()


def tensors_of(torch, values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_of(torch, value)


def is_of_host(torch, function, arguments, named):
    """Returns whether an operator of PyTorch has tensors of the host alone, for its results too. One without tensors makes its result where
    the argument `device` tells."""
    device = named.get("device")
    if function.namespace != "aten" or (device is not None and device.type != "cpu"):
        return False
    has_tensors = False
    for one in tensors_of(torch, (*arguments, *named.values())):
        if not one.is_cpu:
            return False
        has_tensors = True
    return has_tensors or device is not None


def with_numbers(torch, function, arguments):
    """Returns the CTC loss with lengths as numbers, which PyTorch reads from their tensors where there is no mode: it would ask for all tensors
    on the GPU."""
    if function not in (torch.ops.aten._ctc_loss.Tensor, torch.ops.aten._ctc_loss_backward.Tensor):
        return function, arguments
    names = [argument.name for argument in function._schema.arguments]
    return function._overloadpacket.default, [value.tolist() if name in LENGTHS else value for name, value in zip(names, arguments)]


def call_of_program():
    """Returns the call in Python that runs the operator, or None in the backward pass."""
    frame = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename == __file__ or frame.f_code.co_filename.endswith(AROUND)):
        frame = frame.f_back
    return frame and (id(frame), frame.f_lasti)


@functools.lru_cache(maxsize=None)  # one object for all operators alike: there may be a million
def flags_of(may_rerun, statistics, from_host, is_cached):
    return {"may_rerun": may_rerun, "statistics": statistics, "from_host": from_host, "is_cached": is_cached}


def is_cached(torch, tensor):
    """Returns whether autocast keeps a copy of the tensor until the program leaves it."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting() > 0 and torch.is_autocast_cache_enabled() and tensor.is_leaf and tensor.requires_grad


@functools.lru_cache(maxsize=None)
def is_view(function):
    return any(result.alias_info is not None and not result.alias_info.is_write for result in function._schema.returns)


def named_arguments(function, arguments, named):
    schema = function._schema.arguments
    return {**{argument.name: value for argument, value in zip(schema, arguments)}, **named}


def written_by(function, arguments, named):
    """Returns the arguments that the operator writes, by name."""
    if function.namespace == COLLECTIVES and function._overloadpacket.__name__ not in READ_ALONE:
        return dict(itertools.islice(named_arguments(function, arguments, named).items(), 1))
    if not function._schema.is_mutable:
        return {}
    values = named_arguments(function, arguments, named)
    return {argument.name: values[argument.name] for argument in function._schema.arguments
            if argument.alias_info is not None and argument.alias_info.is_write and values.get(argument.name) is not None}


@functools.lru_cache(maxsize=None)
def has_tag(function, tag):
    return tag in function.tags


def is_random(torch, function, arguments, named):
    if not has_tag(function, torch.Tag.nondeterministic_seeded):
        return False
    values = named_arguments(function, arguments, named)
    chances = [values.get(argument.name, argument.default_value) for argument in function._schema.arguments
               if argument.name in PROBABILITIES]
    return not chances or any(chance != 0 for chance in chances)


def is_training(function, arguments, named):
    values = named_arguments(function, arguments, named)
    return bool(values.get("training", values.get("train", "with_update" in str(function))))

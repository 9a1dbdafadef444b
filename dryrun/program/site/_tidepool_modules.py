# SPDX-License-Identifier: Apache-2.0
"""Notes which module of the program runs, by the requests for memory: a position is their number and that of the frees so far. With
the addresses of weights, gradients and optimizer state, each request has a module.

Compiled code calls no modules inside of it: its memory is that of the compiled module.
"""
import pickle
import threading
import warnings
import weakref

from _tidepool_tensors import parts_of

# Parts of paths that wrappers of PyTorch add.
WRAPPERS = {"_fsdp_wrapped_module", "_orig_mod", "_checkpoint_wrapped_module"}
MOST_SAMPLES = 100


class Root:
    """A module that no other module called."""

    def __init__(self, module):
        self.module = weakref.ref(module)
        self.kind = type(module).__name__
        self.has_weights = any(True for _ in module.parameters())


class Place:
    """The path of a module below its root. It changes where a larger root is called later."""

    def __init__(self, root, path):
        self.root, self.path = root, path


def without_wrappers(path):
    return ".".join(part for part in path.split(".") if part not in WRAPPERS)


class Modules:
    """Notes of one process. `recording` knows the requests, and `optimizers` are those that made a step. `is_own` tells whether the process
    that runs is that one: forked workers inherit the hooks, and may not use the GPU."""

    def __init__(self, torch, recording, optimizers, is_own):
        self.torch = torch
        self.recording = recording
        self.optimizers = optimizers
        self.is_own = is_own
        self.thread = threading.local()  # `stack`: the modules that run, as pairs of an identity and a place
        self.roots = []
        self.places = {}  # by the identity of a module
        self.devices = set()
        self.marks = {}  # of each device: (position, the place that runs from there on, or None)
        self.samples = []  # of addresses: (device, position, {address: (root, path, kind)})
        self.peaks = {}  # of each device, at the last sample
        warnings.filterwarnings("ignore", "Using `torch.compile.module.` when there are global hooks")
        module = torch.nn.modules.module
        module.register_module_forward_pre_hook(self._enter)
        module.register_module_forward_hook(self._leave, always_call=True)

    def _stack(self):
        if not hasattr(self.thread, "stack"):
            self.thread.stack = []
        return self.thread.stack

    def _enter(self, module, arguments):
        if self.torch.compiler.is_compiling() or not self.is_own():
            return
        stack = self._stack()
        if not stack and id(module) not in self.places:
            self._add(module)
        # A module that no other one registered has the place of the one that calls it.
        place = self.places.get(id(module)) or stack[-1][1]
        stack.append((id(module), place))
        self._mark(place)

    def _leave(self, module, arguments, result):
        if self.torch.compiler.is_compiling() or not self.is_own():
            return
        stack = self._stack()
        while stack and stack.pop()[0] != id(module):
            pass
        self._mark(stack[-1][1] if stack else None)

    def _add(self, module):
        root = Root(module)
        self.roots.append(root)
        inner = [(id(one), without_wrappers(path)) for path, one in module.named_modules()]
        for key, path in inner:
            place = self.places.setdefault(key, Place(root, path))
            place.root, place.path = root, path
        weakref.finalize(module, self._forget, [key for key, _ in inner])  # another module may get their identities
        self.devices.update(one.device.index for one in module.parameters() if one.is_cuda)

    def _forget(self, keys):
        for key in keys:
            self.places.pop(key, None)

    def _mark(self, place):
        if not self.recording.has_begun:
            return
        self.devices.add(self.torch.cuda.current_device())
        for device in self.devices:
            marks = self.marks.setdefault(device, [])
            position = self.recording.position(device)
            if marks and marks[-1][0] == position:
                marks.pop()
            if not marks or marks[-1][1] is not place:
                marks.append((position, place))

    def step_ended(self):
        """Notes where weights, gradients and optimizer state are, if more memory was in use than before."""
        if len(self.samples) < MOST_SAMPLES and any(self.recording.peak_bytes(one) > self.peaks.get(one, 0) for one in self.devices):
            self._sample()

    def _sample(self):
        found = {device: {} for device in self.devices}

        def note(value, place, kind):
            for _, tensor in parts_of(self.torch, value):
                address, device = address_of(tensor)
                if address and device in found:
                    found[device].setdefault(address, (*place, kind))

        places, parameters = {}, []
        for root, module in [(root, root.module()) for root in self.roots]:
            if module is None:  # its program has let it go
                continue
            for path, one in module.named_parameters():
                places[id(one)] = (root, without_wrappers(path))
                parameters.append(one)
            for path, one in module.named_buffers():
                note(one, (root, without_wrappers(path)), "weights")
        unnamed = (None, "")
        for optimizer in list(self.optimizers):
            parameters += [one for group in optimizer.param_groups for one in group["params"]]
            for parameter, state in optimizer.state.items():
                note(state, places.get(id(parameter), unnamed), "optimizer state")
        for one in parameters:
            note(one, places.get(id(one), unnamed), "weights")
            note(one.grad, places.get(id(one), unnamed), "gradients")
        for device, addresses in found.items():
            self.samples.append((device, self.recording.position(device), addresses))
            self.peaks[device] = self.recording.peak_bytes(device)

    def write(self, path):
        """Writes the notes into a file, with the names of the modules."""
        self._sample()
        models = {id(root) for root in {id(place.root): place.root for place in self.places.values()}.values() if root.has_weights}

        def name(root, path):
            if root is None:
                return ""
            prefix = root.kind if not path or (len(models) > 1 and root.has_weights) else ""
            return ".".join(filter(None, (prefix, path)))

        marks = {device: [(position, place and name(place.root, place.path)) for position, place in marks]
                 for device, marks in self.marks.items()}
        samples = [(device, position, {address: (name(root, path.rpartition(".")[0]), kind) for address, (root, path, kind) in found.items()})
                   for device, position, found in self.samples]
        with open(path, "wb") as file:
            pickle.dump({"marks": marks, "samples": samples}, file)


def address_of(tensor):
    """Returns the address and the device of the memory of a tensor, or 0 where it has none of its own."""
    try:
        return (tensor.untyped_storage().data_ptr(), tensor.device.index) if tensor.is_cuda else (0, None)
    except (NotImplementedError, RuntimeError):
        return 0, None

# SPDX-License-Identifier: Apache-2.0
"""Names of PyTorch that no version promises, in this file alone. Checked with PyTorch 2.6 and 2.11."""
import functools
import gc

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._pytree import tree_flatten, tree_leaves
from torch.utils.flop_counter import flop_registry

__all__ = ["BATCH_NORM", "BATCH_NORM_BACKWARD", "BATCH_NORM_IN_PLACE", "BATCH_NORM_WITHOUT_STATISTICS", "BoxedCode", "CAST", "Operator",
           "at_end_of_backward", "at_reset", "clear_workspaces", "compile_by_inductor", "compile_joint", "describe_outputs", "fake_tensors", "flops_of", "has_eager_random",
           "has_saved_tensors_hooks", "has_symbols", "is_backward", "is_image", "is_in_place", "is_tangent", "keeps_saved_tensors", "mark_backward", "modules_compiled_by",
           "mutations", "other_inputs", "prefers_channels_last", "random_of_seed", "real_tensors", "register", "storage_key", "tree_flatten", "tree_leaves",
           "watch_saved_tensors_hooks", "with_constants"]


def register(name, backend):
    """Makes `backend` known to torch.compile by a name, unless an entry point has done so."""
    from torch._dynamo.backends import registry  # an import of a second

    if name not in registry._COMPILER_FNS:
        registry.register_backend(compiler_fn=backend, name=name)


def at_reset(backend, forget):
    """Has torch._dynamo.reset() call `forget`: the graphs of a backend run no more then."""
    backend.reset = forget


def modules_compiled_by(backend):
    """Returns the modules that torch.compile has made with a backend of a name."""
    found = [one for one in gc.get_objects() if issubclass(type(one), torch._dynamo.OptimizedModule)]
    return [one for one in found if getattr(_innermost(one.dynamo_ctx.callback), "compiler_name", None) == backend]


def _innermost(callback):
    """Returns the backend within the functions that Dynamo puts around it."""
    for name in ("_torchdynamo_orig_backend", "_torchdynamo_orig_callable"):  # of newer versions and of older ones
        while hasattr(callback, name):
            callback = getattr(callback, name)
    return callback


def compile_joint(module, inputs, *, partition, compile_forward, compile_backward, compile_inference, taken_apart=()):
    """Returns a function that computes `module` for training, by AOTAutograd and a partition function.

    taken_apart: names of operators that are written as simpler ones.
    """
    from torch._dynamo.backends.common import aot_autograd
    from torch._inductor.decomposition import select_decomp_table

    known = select_decomp_table() if taken_apart else {}
    simpler = {operator: known[operator] for operator in known if getattr(operator, "namespace", "") == "aten" and
               operator._opname in taken_apart}
    compiler = aot_autograd(decompositions=simpler, fw_compiler=compile_forward, bw_compiler=compile_backward,
                             inference_compiler=compile_inference, partition_fn=partition)
    return compiler(module, inputs)


def real_tensors():
    """Returns a context in which tensors are real, also while PyTorch traces with fake ones."""
    return unset_fake_temporarily()


def fake_tensors():
    """Returns a context in which tensors are fake."""
    return FakeTensorMode()


def storage_key(tensor):
    """Returns a number that tensors with one storage share."""
    return tensor.untyped_storage()._cdata


def is_in_place(target):
    """Returns whether an operator changes an argument."""
    return isinstance(target, Operator) and target._schema.is_mutable


def is_of_higher_order(target):
    """Returns whether an operator calls other operators or graphs."""
    return isinstance(target, torch._ops.HigherOrderOperator)


def has_nested_regions(module):
    """Returns whether a graph of Dynamo calls regions of torch.compiler.nested_compile_region."""
    return any(is_of_higher_order(node.target) and node.target.name() == "invoke_subgraph"
               for part in module.modules() if isinstance(part, fx.GraphModule)
               for node in part.graph.nodes if node.op == "call_function")


def with_constants(target, keywords):
    """Returns the named arguments of an operator, with the constants of a Triton kernel in the place of their number, which differs in each trace."""
    if not is_of_higher_order(target) or "constant_args_idx" not in keywords:
        return keywords
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    return {**keywords, "constant_args_idx": kernel_side_table.get_constant_args(keywords["constant_args_idx"])}


def flops_of(target, arguments, keywords, result):
    """Returns the floating point operations of an operator; 0 where PyTorch has no formula."""
    formula = flop_registry.get(getattr(target, "_overloadpacket", None))
    if formula is None:
        return 0
    try:
        return formula(*arguments, **keywords, out_val=result)
    except Exception:  # a formula that does not know these arguments
        return 0


# Autograd -------------------------------------------------------------------------------------------


def at_end_of_backward(function):
    """Calls a function when the backward pass that runs now has ended."""
    torch.autograd.Variable._execution_engine.queue_callback(function)


_entered = 0  # contexts of saved_tensors_hooks, in versions that do not tell the innermost one
_top_hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)


@functools.lru_cache(maxsize=None)
def watch_saved_tensors_hooks():
    """Counts contexts of saved_tensors_hooks from now on, where PyTorch does not tell whether there are some. 2.6 does not."""
    if _top_hooks is not None:
        return
    enter, leave = saved_tensors_hooks.__enter__, saved_tensors_hooks.__exit__

    def counted(call, by):
        def run(*arguments):
            global _entered
            _entered += by
            return call(*arguments)
        return run

    saved_tensors_hooks.__enter__, saved_tensors_hooks.__exit__ = counted(enter, 1), counted(leave, -1)


def has_saved_tensors_hooks():
    """Returns whether hooks get saved tensors now."""
    return _top_hooks(True) is not None if _top_hooks is not None else _entered > 0


def keeps_saved_tensors():
    """Returns whether a backward pass runs after which another may follow, which reads the same saved tensors (retain_graph=True)."""
    return torch._C._current_graph_task_id() != -1 and torch._C._autograd._get_current_graph_task_keep_graph()


def clear_workspaces():
    """Gives the workspaces of cuBLAS back to PyTorch's allocator. Each thread takes some for each stream with a product."""
    torch._C._cuda_clearCublasWorkspaces()


# Operators ------------------------------------------------------------------------------------------

Operator = torch._ops.OpOverload
BATCH_NORM = torch.ops.aten._native_batch_norm_legit_functional.default
BATCH_NORM_IN_PLACE = torch.ops.aten._native_batch_norm_legit.default
BATCH_NORM_WITHOUT_STATISTICS = torch.ops.aten._native_batch_norm_legit.no_stats
BATCH_NORM_BACKWARD = torch.ops.aten.native_batch_norm_backward.default
CAST = torch.ops.aten._to_copy.default


# The joint graph ------------------------------------------------------------------------------------


def is_tangent(node):
    """Returns whether a node is a gradient that comes into the backward pass."""
    return node.op == "placeholder" and "tangents" in str(node.target)


def other_inputs(graph):
    """Returns placeholders that are neither inputs of the program nor tangents, such as seeds of random numbers."""
    return [node for node in graph.nodes
            if node.op == "placeholder" and "tangents" not in str(node.target) and "primals" not in str(node.target)]


def is_backward(node):
    """Returns whether tracing marked a node as a part of the backward pass."""
    return node.meta.get("partitioner_tag") == "is_backward"


def mark_backward(graph):
    """Marks operators that depend on tangents as parts of the backward pass. Tracing does not mark those of an autograd.Function."""
    for node in graph.nodes:
        if any(is_tangent(one) or is_backward(one) for one in node.all_input_nodes) and node.op == "call_function":
            node.meta["partitioner_tag"] = "is_backward"


def has_symbols(value):
    """Returns whether a value, or the size of a tensor, is a symbol."""
    if isinstance(value, torch.Tensor):
        return any(isinstance(number, torch.SymInt) for number in (*value.size(), *value.stride()))
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def is_image(value):
    """Returns whether a value is a tensor of four dimensions, which may have its channels last."""
    return isinstance(value, torch.Tensor) and value.dim() == 4 and value.layout == torch.strided


def prefers_channels_last(module):
    """Returns whether Inductor would put the channels of a graph's images last."""
    from torch._inductor.graph import GraphLowering

    return GraphLowering.decide_layout_opt(module, is_inference=False)


def mutations(graph, forward_count):
    """Returns the placeholders with tensors that the step changes after the forward pass, such as running statistics, and those of which
    forward results are the new values, by the numbers of these.

    Versions before 2.9 do not describe the outputs. There the inputs are those that take no gradient, and no new value is known.
    """
    inputs = [node for node in graph.nodes if node.op == "placeholder" and not is_tangent(node)]
    described = next(node for node in graph.nodes if node.op == "output").meta.get("desc")
    if described is None:
        return {node for node in inputs if not node.meta["val"].requires_grad}, {}
    found = {}
    for i, one in enumerate(described[:forward_count]):
        one, attributes = _without_subclasses(one)
        if type(one).__name__ == "InputMutationAOTOutput":
            found[i] = one.mutated_input, attributes
    described_inputs = [(_without_subclasses(node.meta.get("desc")), node) for node in inputs]
    changed = {i: node for i, one in found.items() for other, node in described_inputs if other == one}
    return set(changed.values()), changed


def _without_subclasses(described):
    """Returns the description of a tensor, or of the subclass that it is a part of, and the attributes that lead from there to it."""
    attributes = []
    while type(described).__name__ in ("SubclassGetAttrAOTInput", "SubclassGetAttrAOTOutput"):
        attributes.append(described.attr)
        described = described.base
    return described, attributes


def describe_outputs(joint, forward, backward, results):
    """Gives the outputs of both graphs the descriptions that newer versions expect. `results`: the forward outputs."""
    described = next(node for node in joint.nodes if node.op == "output").meta.get("desc")
    if described is None:
        return
    from torch._functorch._aot_autograd.descriptors import SavedForBackwardsAOTOutput

    ends = [next(node for node in graph.nodes if node.op == "output") for graph in (forward, backward)]
    saved = len(ends[0].args[0]) - results
    ends[0].meta["desc"] = [*described[:results], *(SavedForBackwardsAOTOutput(i) for i in range(saved))]
    ends[1].meta["desc"] = list(described[results:])


def compile_by_inductor(module, examples):
    """Returns a function that computes a graph of operators by kernels of Inductor. It takes a list of tensors of the sizes and strides of
    the examples, which are fake, and returns tensors of those that the operators have."""
    from torch._guards import TracingContext, tracing
    from torch._inductor.compile_fx import compile_fx_inner  # an import of a second
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.fx_passes.joint_graph import joint_graph_passes
    from torch._inductor.virtualized import V
    from torch.fx.experimental.proxy_tensor import make_fx

    mode = examples[0].fake_mode
    with tracing(TracingContext(mode)), V.set_fake_mode(mode):
        with mode:
            module = make_fx(module, decomposition_table=select_decomp_table())(*examples)
            module = joint_graph_passes(module)
        end = next(node for node in module.graph.nodes if node.op == "output")
        end.meta["user_visible_output_idxs"] = list(range(len(end.args[0])))  # these keep their strides
        return compile_fx_inner(module, examples)


def has_eager_random():
    """Returns whether Inductor is to draw random numbers as eager programs do."""
    from torch._inductor import config

    return config.fallback_random


def random_of_seed():
    """Returns Inductor's operator of random numbers: of a size, a seed and "rand" or "randn". Its eager kernel does not use the seed."""
    from torch._inductor import inductor_prims

    return inductor_prims.random


# Generated code -------------------------------------------------------------------------------------


class BoxedCode(fx.graph.CodeGen):
    """Code of a graph that takes its arguments in a list and empties it, so that each ends with its last use."""

    def gen_fn_def(self, free_vars, maybe_return_annotation, **_):
        lines = [f"def {getattr(self, '_func_name', 'forward')}(self, arguments){maybe_return_annotation}:"]
        names = [name.split(":")[0].split("=")[0].strip() for name in free_vars if name != "self"]
        if names:
            lines += [f"    {', '.join(names)}, = arguments", "    arguments.clear()"]
        return "\n".join(lines)

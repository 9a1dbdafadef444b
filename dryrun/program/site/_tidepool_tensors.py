# SPDX-License-Identifier: Apache-2.0
"""The memory of tensors that consist of others, such as quantized and distributed ones."""


def parts_of(torch, value, name=""):
    """Yields the names and the tensors of the memory of a value: a tensor, or a list or dict with some. Several parts of one have names of their
    own."""
    if isinstance(value, torch.Tensor):
        inner = inner_names(value)
        if not inner:
            yield name, value
        for one in inner:
            yield from parts_of(torch, getattr(value, one), f"{name}.{one}" if len(inner) > 1 else name)
    elif isinstance(value, (list, tuple, dict)):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from parts_of(torch, one, f"{name}.{key}")


def inner_names(tensor):
    """Returns the names of the tensors that a tensor consists of; none where it has memory of its own."""
    if hasattr(type(tensor), "__tensor_flatten__"):
        return tensor.__tensor_flatten__()[0]
    return ["_local_tensor"] if hasattr(type(tensor), "__torch_dispatch__") and hasattr(tensor, "_local_tensor") else []

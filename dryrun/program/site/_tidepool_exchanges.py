# SPDX-License-Identifier: Apache-2.0
"""Exchanges among ranks by splits that a kernel counted, as of tokens for experts: these read as zeros.

Rows that a rank sends are taken to be equal numbers for each peer, and it gets as many. Without rows, and for lists of tensors that
the program has divided, the answer says so alone.
"""
import functools
import inspect
import sys

import _tidepool_imports as imports

OPERATION = "all_to_all_single with splits of zero"
OF_LISTS = "all_to_all of tensors without rows"


class Exchanges:
    def __init__(self, torch, note):
        self.c10d, self.note = torch.distributed.distributed_c10d, note
        self.replace(self.c10d, "all_to_all_single", self.exchange)
        self.replace(self.c10d, "all_to_all", self.exchange_lists)
        imports.watch("torch.distributed._functional_collectives", self.replace_functional)

    def replace_functional(self, module):
        for name in ("all_to_all_single", "all_to_all_single_autograd"):
            self.replace(module, name, self.exchange_functional)

    def replace(self, module, name, replacement):
        """Replaces a function of torch.distributed, also where PyTorch has imported it."""
        own = getattr(module, name, None)
        if own is None:
            return

        @functools.wraps(own)
        def call(*arguments, **named):
            found = inspect.signature(own).bind(*arguments, **named)
            replacement(found.arguments)
            return own(*found.args, **found.kwargs)

        for other in [one for path, one in sys.modules.items() if path.startswith("torch.distributed")]:
            if vars(other).get(name) is own:
                setattr(other, name, call)

    def balanced(self, tensor, found):
        """Returns the splits of the rows for each peer where both of the program are zeros, or None."""
        names = "output_split_sizes", "input_split_sizes"
        splits = [found.get(name) for name in names]
        if not tensor.is_cuda or not all(splits) or any(map(any, splits)):
            return None
        self.note(OPERATION)
        ranks, rows = len(splits[0]), tensor.shape[0]
        return [rows // ranks + (1 if rank < rows % ranks else 0) for rank in range(ranks)]

    def exchange(self, found):
        splits = self.balanced(found["input"], found)
        if splits is not None:
            found["output"].resize_(sum(splits), *found["output"].shape[1:])
            found.update(output_split_sizes=splits, input_split_sizes=splits)

    def exchange_lists(self, found):
        tensors = [*found["output_tensor_list"], *found["input_tensor_list"]]
        if tensors and all(tensor.is_cuda and tensor.numel() == 0 for tensor in tensors):
            self.note(OF_LISTS)

    def exchange_functional(self, found):
        splits = self.balanced(found["self"], found)
        if splits is not None:
            found.update(output_split_sizes=splits, input_split_sizes=splits)

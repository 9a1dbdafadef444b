# SPDX-License-Identifier: Apache-2.0
"""Gives torch.optim.LBFGS its history before a step. It would keep none: it does so where a product of gradients is positive, and results are
zeros here."""
import functools


def keep_history(module):
    own = module.LBFGS.step

    @functools.wraps(own)
    def step(self, closure):
        fill(self, module.torch)
        return own(self, closure)

    module.LBFGS.step = step


def fill(optimizer, torch):
    """Fills the history as far as the iterations of the first step can, and whole before the next."""
    first, group = optimizer._params[0], optimizer.param_groups[0]
    if not first.is_cuda:
        return
    state = optimizer.state[first]
    most = min(group["history_size"], group["max_iter"] - 1) if "old_dirs" not in state else group["history_size"]

    def zeros():
        return torch.zeros(optimizer._numel(), dtype=first.dtype.to_real(), device=first.device)

    if "old_dirs" not in state:  # as after one iteration
        state.update(func_evals=1, n_iter=1, d=zeros(), t=1.0, old_dirs=[], old_stps=[], ro=[], H_diag=1, prev_flat_grad=zeros(), prev_loss=0.0)
    for name, make in (("old_dirs", zeros), ("old_stps", zeros), ("ro", lambda: zeros()[0].clone())):
        state[name] += [make() for _ in range(most - len(state[name]))]

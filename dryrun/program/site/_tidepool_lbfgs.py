# SPDX-License-Identifier: Apache-2.0
"""Lets torch.optim.LBFGS keep its history, which it keeps only where a product of gradients is positive: results are zeros here.

The history is whole from the second iteration on, as it is after many. A first step has as much of it as its iterations can make.
"""
import ast
import functools
import inspect
import textwrap

MOST_SEARCHED = 4  # evaluations of a line search, which would else take all of a step: no result ends it
ENOUGH_ITERATIONS = 2  # then a loss that stays ends the step
CHANGED = {
    "ys > 1e-10": "_tidepool_keep(ys > 1e-10, self, old_dirs, old_stps, ro, y, s)",
    "abs(loss - prev_loss) < tolerance_change": f"(abs(loss - prev_loss) < tolerance_change and n_iter >= {ENOUGH_ITERATIONS})"}


def keep(_, optimizer, directions, steps, products, direction, step):
    """Fills the history but for the newest iteration, which the caller appends. Returns True."""
    group = optimizer.param_groups[0]
    most = group["history_size"]
    if not hasattr(optimizer, "tidepool_has_stepped"):
        most = min(most, group["max_iter"] - 1)
    for _ in range(most - 1 - len(directions)):
        directions.append(direction.clone())
        steps.append(step.clone())
        products.append(direction.new_zeros(()))
    return True


class _Changes(ast.NodeTransformer):
    def visit_Compare(self, node):
        text = CHANGED.get(ast.unparse(node))
        return node if text is None else ast.copy_location(ast.parse(text, mode="eval").body, node)


def changed(function, module):
    """Returns the function with those conditions, at the same lines of its file."""
    lines, first = inspect.getsourcelines(inspect.unwrap(function))
    tree = ast.fix_missing_locations(_Changes().visit(ast.parse(textwrap.dedent("".join(lines)))))
    ast.increment_lineno(tree, first - 1)
    made = {}
    exec(compile(tree, inspect.getsourcefile(module), "exec"), module.__dict__, made)
    return made[function.__name__]


def keep_history(module):
    module._tidepool_keep = keep
    try:
        step = changed(module.LBFGS.step, module)
    except OSError:  # a PyTorch without its sources
        return

    @functools.wraps(step)
    def stepped(self, *arguments, **named):
        try:
            return step(self, *arguments, **named)
        finally:
            self.tidepool_has_stepped = True

    module.LBFGS.step = stepped
    own = module._strong_wolfe

    @functools.wraps(own)
    def search(*arguments, **named):
        named["max_ls"] = min(named.get("max_ls", MOST_SEARCHED), MOST_SEARCHED)
        return own(*arguments, **named)

    module._strong_wolfe = search

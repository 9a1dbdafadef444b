# SPDX-License-Identifier: Apache-2.0
"""The memory of a benchmark of Liger-Kernel: liger.py FOLDER NAME CASE...

FOLDER has the files of linkedin/Liger-Kernel, NAME is that of one of its scripts, and CASE is kernel, provider, mode, name and value of the axis and
configuration, as the table of its results has them, with | between and without blanks. Its own functions measure, as they are.
"""
import importlib.metadata
import json
import runpy
import sys

folder, name, *cases = sys.argv[1:]
del sys.argv[1:]
sys.path[:0] = [f"{folder}/benchmark/scripts", f"{folder}/src"]
version = importlib.metadata.version
importlib.metadata.version = lambda package: "0" if package == "liger-kernel" else version(package)  # which is not installed

import utils  # noqa: E402


def run(bench_test_fn, kernel_name, metric_name, x_name, x_values, kernel_providers, kernel_operation_modes=(None,), extra_benchmark_configs=None, **_):
    """Stands for the function of the scripts that runs all cases and adds them to the table."""
    for config in (extra_benchmark_configs or [{}]) if metric_name == "memory" else []:
        text = json.dumps(config, cls=utils.CustomEncoder).replace(" ", "")
        for provider in kernel_providers:
            for mode in kernel_operation_modes:
                for x in x_values:
                    case = "|".join([kernel_name, provider, mode or "", x_name, str(x), text])
                    if case in cases:
                        print(f"row {case} {round(bench_test_fn(utils.SingleBenchmarkRunInput(x, provider, mode, config)).y_50 * 2**20)}", flush=True)


utils.run_benchmarks = run
runpy.run_path(f"{folder}/benchmark/scripts/benchmark_{name}.py", run_name="__main__")

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's CUDA provider with its outputs in the memory of a pool. Prints one JSON object.

usage: onnx_binding.py MODEL      of tests/frameworks/onnx_model.py: z = 3 x
"""
import json
import sys

import numpy
import onnxruntime

from tidepool._c_api import Pool

ROUNDS, COUNT, PROVIDER = 100, 100_000, "CUDAExecutionProvider"


def run(session, pool, host):
    """Returns z, which the provider writes into memory of the pool."""
    z = pool.allocate(host.nbytes)
    try:
        on_device = onnxruntime.OrtValue.ortvalue_from_numpy(host, "cuda", 0)
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", on_device)
        binding.bind_output("z", "cuda", 0, numpy.float32, [COUNT], z)
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return binding.copy_outputs_to_cpu()[0]
    finally:
        pool.free(z)


def main(model):
    if PROVIDER not in onnxruntime.get_available_providers():
        sys.exit(f"onnxruntime {onnxruntime.__version__} has no {PROVIDER}")
    session = onnxruntime.InferenceSession(model, providers=[PROVIDER])
    pool = Pool(device="cuda:0", budget="1GiB")
    random = numpy.random.default_rng(1)
    wrong = 0
    for _ in range(ROUNDS):
        host = random.random(COUNT, dtype=numpy.float32)
        wrong += not numpy.allclose(run(session, pool, host), 3 * host)
    print(json.dumps({"onnxruntime": onnxruntime.__version__, "providers": session.get_providers(), "rounds": ROUNDS,
                      "wrong_rounds": wrong}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

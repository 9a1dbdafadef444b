# SPDX-License-Identifier: Apache-2.0
"""The 94 convolutional layers of DeepBench's training set.

The sizes are those of the table `training_set` in code/kernels/conv_problems.h of github.com/baidu-research/DeepBench.
Table IV of Oyama et al., "Accelerating Deep Learning Frameworks with Micro-batches", counts them by group.
"""
# Groups: the batches, and the layers as width, height, channels, outputs, columns and rows of the filter, padding, stride.
GROUPS = {
    "DeepSpeech": [((4, 8, 16, 32), [(700, 161, 1, 32, 20, 5, 0, 2), (341, 79, 32, 32, 10, 5, 0, 2)])],
    "OCR": [((16,), [(480, 48, 1, 16, 3, 3, 1, 1), (240, 24, 16, 32, 3, 3, 1, 1), (120, 12, 32, 64, 3, 3, 1, 1),
                     (60, 6, 64, 128, 3, 3, 1, 1)])],
    "Face Recognition": [
        ((8,), [(108, 108, 3, 64, 3, 3, 1, 2), (54, 54, 64, 64, 3, 3, 1, 1), (27, 27, 128, 128, 3, 3, 1, 1),
                (14, 14, 128, 256, 3, 3, 1, 1), (7, 7, 256, 512, 3, 3, 1, 1)]),
        ((8, 16), [(56, 56, 64, 64, 3, 3, 1, 1), (56, 56, 64, 256, 1, 1, 0, 2), (28, 28, 128, 128, 3, 3, 1, 1),
                   (28, 28, 128, 512, 1, 1, 0, 2), (14, 14, 256, 256, 1, 1, 0, 1), (14, 14, 256, 256, 3, 3, 1, 1),
                   (14, 14, 256, 1024, 1, 1, 0, 2), (7, 7, 512, 512, 1, 1, 0, 1), (7, 7, 2048, 512, 1, 1, 3, 2)])],
    "Vision": [
        ((8, 16), [(224, 224, 3, 64, 3, 3, 1, 1), (112, 112, 64, 128, 3, 3, 1, 1), (56, 56, 128, 256, 3, 3, 1, 1),
                   (28, 28, 256, 512, 3, 3, 1, 1), (14, 14, 512, 512, 3, 3, 1, 1), (7, 7, 512, 512, 3, 3, 1, 1)]),
        ((16,), [(224, 224, 3, 64, 7, 7, 3, 2), (28, 28, 192, 32, 5, 5, 2, 1), (28, 28, 192, 64, 1, 1, 0, 1),
                 (14, 14, 512, 48, 5, 5, 2, 1), (14, 14, 512, 192, 1, 1, 0, 1), (7, 7, 832, 256, 1, 1, 0, 1),
                 (7, 7, 832, 128, 5, 5, 2, 1)])],
    "Speaker ID": [((16,), [(700, 161, 1, 64, 5, 5, 1, 2), (350, 80, 64, 64, 3, 3, 1, 1), (350, 80, 64, 128, 5, 5, 1, 2),
                            (175, 40, 128, 128, 3, 3, 1, 1), (175, 40, 128, 256, 5, 5, 1, 2), (84, 20, 256, 256, 3, 3, 1, 1),
                            (84, 20, 256, 512, 5, 5, 1, 2), (42, 10, 512, 512, 3, 3, 1, 1)])],
    "ResNet": [((8, 16), [(112, 112, 64, 64, 1, 1, 0, 1), (56, 56, 64, 256, 1, 1, 0, 1), (56, 56, 256, 64, 1, 1, 0, 1),
                          (56, 56, 256, 128, 1, 1, 0, 2), (28, 28, 128, 512, 1, 1, 0, 1), (28, 28, 512, 128, 1, 1, 0, 1),
                          (28, 28, 512, 256, 1, 1, 0, 2), (14, 14, 256, 1024, 1, 1, 0, 1), (28, 28, 512, 1024, 1, 1, 0, 2),
                          (14, 14, 1024, 256, 1, 1, 0, 1), (14, 14, 256, 1024, 1, 1, 0, 1), (14, 14, 1024, 512, 1, 1, 0, 2),
                          (7, 7, 512, 512, 3, 3, 1, 1), (7, 7, 512, 2048, 1, 1, 0, 1), (14, 14, 1024, 2048, 1, 1, 0, 2),
                          (7, 7, 2048, 512, 1, 1, 0, 1)])],
}


def layers():
    """Returns all layers, as parameters of convolutions in a task graph."""
    return [{"kind": "convolution", "n": n, "c": c, "h": h, "w": w, "k": k, "r": r, "s": s, "padding_height": padding,
             "padding_width": padding, "stride_height": stride, "stride_width": stride}
            for parts in GROUPS.values() for batches, shapes in parts for n in batches
            for w, h, c, k, s, r, padding, stride in shapes]


def graphs(factor):
    """Returns a task graph for each batch, `factor` times DeepBench's, with all layers of that batch."""
    made = {}
    for parameters in layers():
        batch = parameters["n"] * factor
        graph = made.setdefault(batch, {"tidepool_graph": 2, "name": f"deepbench-{batch}", "batch": batch,
                                        "data": [{"name": "x", "bytes": 8, "kind": "input"}], "tasks": []})
        at = len(graph["tasks"])
        graph["data"].append({"name": f"y{at}", "bytes": 8, "kind": "activation"})
        graph["tasks"].append({"name": f"layer{at}", "operation": "conv", "phase": "forward", "reads": ["x"],
                               "writes": [f"y{at}"], "parameters": {**parameters, "n": batch},
                               "algorithms": [{"name": "any", "seconds": 1, "workspace": 0}]})
    return made

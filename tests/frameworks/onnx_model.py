# SPDX-License-Identifier: Apache-2.0
"""Writes a model of two additions, z = (x + x) + x, for 100,000 numbers: onnx_model.py FILE."""
import sys

FLOAT = 1
NUMBERS = 100_000


def number(value):
    data = b""
    while value > 127:
        data += bytes([value & 127 | 128])
        value >>= 7
    return data + bytes([value])


def field(index, value):
    """Encodes a field of a message of protocol buffers: a number, or bytes."""
    if isinstance(value, int):
        return number(index << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(index << 3 | 2) + number(len(data)) + data


def add(left, right, output):
    return field(1, left) + field(1, right) + field(2, output) + field(3, output) + field(4, "Add")


def tensor(name):
    shape = field(1, field(1, NUMBERS))
    return field(1, name) + field(2, field(1, field(1, FLOAT) + field(2, shape)))


graph = (field(1, add("x", "x", "y")) + field(1, add("y", "x", "z")) + field(2, "sums") + field(11, tensor("x")) +
         field(12, tensor("z")))
with open(sys.argv[1], "wb") as file:
    file.write(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13)))

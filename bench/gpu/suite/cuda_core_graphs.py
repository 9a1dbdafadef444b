#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cuda.core on a pool: graphs that keep their memory to themselves, and streams that end. Prints one JSON object."""
import ctypes
import json
import sys

import cuda.core
from cuda.core import Buffer, Device

import tidepool.cuda_core

ROUNDS, BYTES = 100, 1 << 20


class Rounds:
    def __init__(self):
        self.device = Device(0)
        self.device.set_current()
        self.resource = tidepool.cuda_core.MemoryResource(0, budget="1GiB")
        self.pinned = self.resource.pool.allocate_pinned(BYTES)

    def is_filled(self, buffer, value, stream):
        buffer.copy_to(Buffer.from_handle(self.pinned, BYTES), stream=stream)
        stream.sync()
        return ctypes.string_at(self.pinned, BYTES) == bytes([value]) * BYTES

    def is_graph_right(self, value):
        """A launch writes to memory of its capture, which no other buffer got meanwhile."""
        stream = self.device.create_stream()
        result = self.resource.allocate(BYTES, stream=stream)
        builder = stream.create_graph_builder()
        with self.resource.capture(builder) as memory:
            builder.begin_building("global")
            inside = self.resource.allocate(BYTES, stream=builder)
            inside.fill(value, stream=builder)
            result.copy_from(inside, stream=builder)
            inside.close(builder)
            builder.end_building()
        graph = memory.keep_for(builder.complete())
        others = [self.resource.allocate(BYTES, stream=stream) for _ in range(8)]
        for other in others:
            other.fill(0, stream=stream)
        for _ in range(2):
            graph.launch(stream)
        return self.is_filled(result, value, stream) and all(self.is_filled(other, 0, stream) for other in others)

    def is_reuse_right(self, value):
        """A stream ends while it fills memory that another stream, perhaps with its handle, takes."""
        first = self.device.create_stream()
        buffer = self.resource.allocate(BYTES, stream=first)
        for _ in range(50):
            buffer.fill(value ^ 255, stream=first)
        buffer.close(first)
        first.close()
        second = self.device.create_stream()
        buffer = self.resource.allocate(BYTES, stream=second)
        buffer.fill(value, stream=second)
        return self.is_filled(buffer, value, second)


def main():
    rounds = Rounds()
    values = [1 + i % 255 for i in range(ROUNDS)]
    wrong_graphs = sum(not rounds.is_graph_right(value) for value in values)
    wrong_streams = sum(not rounds.is_reuse_right(value) for value in values)
    print(json.dumps({"cuda_core": cuda.core.__version__, "rounds": ROUNDS, "wrong_graphs": wrong_graphs,
                      "wrong_streams": wrong_streams, "live_count": rounds.resource.pool.statistics().live_count}))
    return 1 if wrong_graphs or wrong_streams else 0


if __name__ == "__main__":
    sys.exit(main())

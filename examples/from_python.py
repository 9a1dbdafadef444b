# SPDX-License-Identifier: Apache-2.0
"""Asks for sizes, a schedule and a sweep, and uses a pool. Run it in the top folder of the sources."""
import numpy

import tidepool

# [size]
trace = tidepool.read("examples/traces/vgg16-b4-sgd.rmm.csv.gz")
answer = trace.size(fits="1GiB")
for policy in answer.policies:
    print(policy.policy, policy.pool_bytes, policy.overhead)
print("fits" if answer.fits.fits else "does not fit")
# [/size]

# [schedule]
graph = tidepool.model("vgg-16", batch=64)
schedule = tidepool.schedule(graph, memory="8GiB", policy="vdnn++")
print(schedule.answer.seconds, schedule.answer.bytes_out)
print(schedule.simulate(link="12GB/s").seconds)  # the same schedule on a slower link
schedule.write("vgg.schedule.json")
# [/schedule]

# [pool]
pool = tidepool.Pool("64MiB", placement="best-fit", trace="step.tide")
weights = pool.array((1000, 1000), "float32")  # a NumPy array, in the pool until its last view goes
with pool.allocate(4096) as buffer:            # bytes
    numbers = numpy.asarray(buffer)
    numbers[:] = 7
del numbers                                    # the block is over, and no array views the buffer: it is free
print(pool.statistics().live_bytes, pool.statistics().peak_live_bytes)
pool.close_trace()
print(tidepool.read("step.tide").size(policy="best-fit").policies[0].pool_bytes)
# [/pool]


# [sweep]
def point(memory, policy):
    return graph.simulate(memory=memory, policy=policy)


rows = tidepool.sweep(point, {"memory": ["4GiB", "8GiB"], "policy": ["none", "vdnn", "vdnn++"]})
print([(row["memory"], row["policy"], row["seconds"]) for row in rows if row["fits"]])
# [/sweep]

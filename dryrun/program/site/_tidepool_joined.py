# SPDX-License-Identifier: Apache-2.0
"""Joins neighbouring operators of one module, for steps of very many operators."""
import itertools


def pieces(places, most, counts=None):
    """Returns the ranges of at most `most` groups of neighbours, or of one for each stretch of a phase. `places` are pairs of the phase and the
    layer of each operator, and `counts` how many operators each of them stands for: None: one. Operators of one module are a group, those of the innermost modules first; a module much longer than others
    is divided."""
    parts = {}
    paths = [parts.setdefault(place, (place[0], *filter(None, place[1].split(".")))) for place in places]
    for depth in range(max(map(len, parts.values())), 0, -1):
        whole = list(stretches(paths, 0, len(paths), depth))
        if len(whole) <= most:
            break
    before = [0, *itertools.accumulate(counts or itertools.repeat(1, len(paths)))]
    limit = -(-2 * before[-1] // most)
    while True:
        found = [piece for begin, end in whole for piece in divided(paths, before, begin, end, depth, limit)]
        if len(found) <= most or limit >= before[-1]:
            return found
        limit *= 2


def stretches(paths, begin, end, depth):
    """Yields the ranges of neighbours of which the first `depth` parts of the paths are equal."""
    for _, group in itertools.groupby(range(begin, end), key=lambda at: paths[at][:depth]):
        first = last = next(group)
        for last in group:
            pass
        yield first, last + 1


def divided(paths, before, begin, end, depth, limit):
    """Yields a range, or parts of at most `limit` operators where it has more: modules inside of it as far as they are short enough. `before` has the
    operators before each place."""
    if end - begin == 1 or before[end] - before[begin] <= limit:
        yield begin, end
        return
    is_deepest = all(len(path) <= depth for path in paths[begin:end])
    inner = ((at, at + 1) for at in range(begin, end)) if is_deepest else stretches(paths, begin, end, depth + 1)
    part = begin
    for first, last in inner:
        if before[last] - before[part] > limit:
            if first > part:
                yield part, first
            part = first
        if before[last] - before[part] > limit:
            yield from divided(paths, before, first, last, depth + 1, limit)
            part = last
    if end > part:
        yield part, end


def common(layers):
    """Returns the innermost module that all of the layers are in."""
    paths = [layer.split(".") for layer in set(layers)]
    same = itertools.takewhile(lambda names: len(set(names)) == 1, zip(*paths))
    return ".".join(names[0] for names in same)


def joined(notes, flags):
    """Returns one note for those of neighbouring operators. Its memory has the position of the first use: later uses of the address may be
    of other memory."""
    name, phase, _, line, begin, *_ = notes[0]
    used, written = {}, {}
    for note in notes:
        for firsts, addresses in zip((used, written), note[6:8]):
            for address in addresses:
                firsts.setdefault(address, addresses[address] if isinstance(addresses, dict) else note[4][0])
    return ("module", phase, common(note[2] for note in notes), line, begin, notes[-1][5], used, written, flags)

# SPDX-License-Identifier: Apache-2.0
"""The modes of a chain of stages: which keep their data, send it to the host, or run again. Pure functions.

A step was measured in phases, in which each stage had its data on the device in its own passes alone. The memory of other modes is
that of these phases, with the data that stages hold in others. The search begins with stages that keep all, and makes the
change that takes the least time for the memory that is missing, again and again.
"""
import dataclasses
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

__all__ = ["AGAIN", "AGAIN_FROM_HOST", "KEEP", "SEND", "Chain", "Phase", "Prediction", "Stage", "changes", "least", "predict", "search"]

KEEP = "keep"  # all data stays
SEND = "send"  # the data goes to the host, and comes back
AGAIN = "again"  # the stage runs again, from its inputs
AGAIN_FROM_HOST = "again from host"  # and its inputs go to the host, and come back
_AHEAD = 1  # data comes back while this many stages before it run their backward pass
_BEHIND = 2  # and has left when the stage after as many begins


def changes(link: float) -> Sequence[str]:
    """Returns the modes of stages that do not keep all their data, the one with the least on the device last. `link` is that of a chain."""
    return (SEND, AGAIN, AGAIN_FROM_HOST) if link else (AGAIN,)


@dataclasses.dataclass(frozen=True)
class Stage:
    saved: int  # bytes that its backward pass needs
    inputs: int  # bytes from which it can run again
    seconds: float  # of a second run, until it has saved what its backward pass needs


class Phase(NamedTuple):
    """A part of a step. Bytes count from the start of the step."""

    kind: str  # "forward", "backward", or "other": between stages
    stage: int  # -1 between stages
    peak: int
    seconds: float
    gradients: int = 0  # bytes of the parameters' gradients that came before the phase


@dataclasses.dataclass(frozen=True)
class Chain:
    stages: Sequence[Stage]
    phases: Sequence[Phase]
    link: float  # bytes a second in each direction; 0: nothing is sent

    def with_gradients(self, size: int) -> "Chain":
        """Returns the chain of a step that begins with `size` bytes of gradients and adds its own to them."""
        phases = [phase._replace(peak=phase.peak - min(phase.gradients, size)) for phase in self.phases]
        return Chain(self.stages, phases, self.link)


class Prediction(NamedTuple):
    """Memory and time of a step, predicted."""

    peak_bytes: int
    seconds: float


class _Places:
    """The numbers of phases at which stages begin."""

    def __init__(self, chain: Chain):
        self.forward: Dict[int, int] = {}
        self.backward: Dict[int, int] = {}
        for number, phase in enumerate(chain.phases):
            if phase.kind != "other":
                (self.forward if phase.kind == "forward" else self.backward).setdefault(phase.stage, number)
        self.border = min(self.backward.values(), default=len(chain.phases))

    def left(self, stage: int) -> int:
        """Returns the first phase without the data of a stage that was sent."""
        return min(self.forward.get(stage + _BEHIND, self.border), self.border)

    def wanted(self, stage: int) -> int:
        """Returns the phase in which the data of a stage begins to come back."""
        own = self.backward.get(stage, self.border)
        return min(self.backward.get(stage + _AHEAD, own), own)


def _spans(chain: Chain, places: _Places, stage: int, mode: str) -> List[Tuple[int, int, int]]:
    """Returns (first phase, phase after the last, bytes) of the data that a stage holds."""
    if stage not in places.forward or stage not in places.backward:
        return []
    begin, end = places.forward[stage] + 1, places.backward[stage]
    runs_again = mode in (AGAIN, AGAIN_FROM_HOST)
    data = chain.stages[stage].inputs if runs_again else chain.stages[stage].saved
    spans = [(begin, end, data)]
    if mode in (SEND, AGAIN_FROM_HOST):
        left = places.left(stage)
        spans = [(begin, left, data), (max(places.wanted(stage), left), end, data)]
    return spans + [(end, end + 1, data)] * runs_again


def _peaks(chain: Chain, places: _Places, modes: Sequence[str]) -> List[int]:
    """Returns the peak of each phase."""
    change = [0] * (len(chain.phases) + 1)
    for stage, mode in enumerate(modes):
        for begin, end, data in _spans(chain, places, stage, mode):
            if begin < end:
                change[begin] += data
                change[end] -= data
    peaks, held = [], 0
    for number, phase in enumerate(chain.phases):
        held += change[number]
        peaks.append(phase.peak + held)
    return peaks


def _seconds(chain: Chain, places: _Places, modes: Sequence[str]) -> float:
    """Returns the time of a step, with its waits for copies."""
    moved = [chain.stages[i].inputs if mode == AGAIN_FROM_HOST else chain.stages[i].saved if mode == SEND else 0
             for i, mode in enumerate(modes)]
    out_ends: Dict[int, float] = {}
    in_ends: Dict[int, float] = {}
    now = out_free = in_free = 0.0
    for number, phase in enumerate(chain.phases):
        for stage in [i for i, size in enumerate(moved) if size and places.left(i) == number]:
            now = max(now, out_ends.get(stage, now))
        for stage in sorted((i for i, size in enumerate(moved) if size and places.wanted(i) == number), reverse=True):
            in_free = max(in_free, now, out_ends.get(stage, 0.0)) + moved[stage] / chain.link
            in_ends[stage] = in_free
        if phase.kind == "backward":
            now = max(now, in_ends.get(phase.stage, now))
            if modes[phase.stage] in (AGAIN, AGAIN_FROM_HOST):
                now += chain.stages[phase.stage].seconds
        now += phase.seconds
        if phase.kind == "forward" and moved[phase.stage]:
            out_free = max(out_free, now) + moved[phase.stage] / chain.link
            out_ends[phase.stage] = out_free
    return now


def predict(chain: Chain, modes: Sequence[str]) -> Prediction:
    """Returns the memory, above that at the start of the step, and the time of a step with these modes."""
    places = _Places(chain)
    return Prediction(max(_peaks(chain, places, modes), default=0), _seconds(chain, places, modes))


def _excess(peaks: Sequence[int], memory: int) -> int:
    return sum(max(0, peak - memory) for peak in peaks)


def _best_change(chain: Chain, places: _Places, modes: List[str], memory: int) -> Optional[Tuple[int, str]]:
    """Returns the stage and the mode that save the most excess for their time; None if no change saves any."""
    excess, seconds = _excess(_peaks(chain, places, modes), memory), _seconds(chain, places, modes)
    best, best_gain = None, 0.0
    for stage, present in enumerate(modes):
        for mode in changes(chain.link):
            if mode == present:
                continue
            tried = [*modes[:stage], mode, *modes[stage + 1:]]
            saved = excess - _excess(_peaks(chain, places, tried), memory)
            gain = saved / (max(0.0, _seconds(chain, places, tried) - seconds) + 1e-7)
            if saved > 0 and gain > best_gain:
                best, best_gain = (stage, mode), gain
    return best


def least(chain: Chain) -> List[str]:
    """Returns the modes that take the least memory."""
    modes = [changes(chain.link)[-1]] * len(chain.stages)
    if chain.link:
        return modes
    # A stage that runs again has its inputs besides, so one with a backward pass right after its forward pass keeps its data.
    for stage in range(len(modes)):
        tried = [*modes[:stage], KEEP, *modes[stage + 1:]]
        modes = min(modes, tried, key=lambda one: predict(chain, one).peak_bytes)
    return modes


def search(chain: Chain, memory: int) -> Optional[List[str]]:
    """Returns modes of a step that takes at most `memory` bytes above its start; None where no modes do."""
    places = _Places(chain)
    modes = [KEEP] * len(chain.stages)
    while _excess(_peaks(chain, places, modes), memory):
        change = _best_change(chain, places, modes, memory)
        if change is None:
            modes = least(chain)
            break
        modes[change[0]] = change[1]
    if _excess(_peaks(chain, places, modes), memory):
        return None
    # Early changes may have become needless.
    for stage in range(len(modes)):
        for mode in (KEEP, AGAIN):
            tried = [*modes[:stage], mode, *modes[stage + 1:]]
            if not _excess(_peaks(chain, places, tried), memory) and (
                    _seconds(chain, places, tried) < _seconds(chain, places, modes)):
                modes = tried
                break
    return modes

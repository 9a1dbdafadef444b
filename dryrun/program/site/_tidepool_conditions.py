# SPDX-License-Identifier: Apache-2.0
"""Conditions of a program of which one outcome raises an exception at once, as `assert x.all()` and `if not x.any(): raise`: a program that
works takes the other one.
"""
import bisect
import dis
import functools

JUMPS = {"POP_JUMP_IF_FALSE": False, "POP_JUMP_IF_TRUE": True, "POP_JUMP_FORWARD_IF_FALSE": False, "POP_JUMP_FORWARD_IF_TRUE": True,
         "POP_JUMP_BACKWARD_IF_FALSE": False, "POP_JUMP_BACKWARD_IF_TRUE": True}
JUMPS_ON = ("JUMP_FORWARD", "JUMP_ABSOLUTE")
CALLS = ("CALL", "CALL_METHOD")
REST = "__resume_at_"  # functions by which compiled code goes on with the rest of one of the program
ENDS = ("RETURN_VALUE", "RETURN_CONST", "RETURN_GENERATOR", "YIELD_VALUE", "SEND", "RERAISE", "FOR_ITER")


def outcome_that_goes_on(frame):
    """Returns the value that a tensor with one number must have where a frame just reads it, as a condition or by item(), so that the next
    step of the program raises nothing. None where neither value makes it raise, or both do."""
    code = code_of(frame.f_code)
    place = code.place_of(frame.f_lasti)
    return None if place is None else code.outcome(place, frame.f_globals)


@functools.lru_cache(maxsize=1024)
def code_of(code):
    return Code(code)


class Code:
    """The instructions of a function."""

    def __init__(self, code):
        self.instructions = [one for one in dis.get_instructions(code) if one.opname not in ("CACHE", "PRECALL", "EXTENDED_ARG", "NOT_TAKEN")]
        self.offsets = [one.offset for one in self.instructions]

    def place_of(self, offset):
        """Returns the first instruction that has the value which the one at the offset reads, or None."""
        place = bisect.bisect_right(self.offsets, offset) - 1
        if place < 0:
            return None
        if self.instructions[place].opname in CALLS:
            return place + 1 if place > 0 and self.instructions[place - 1].argval == "item" else None
        return place

    def outcome(self, place, names):
        """Returns the outcome of a condition from that instruction on. `names` are the globals."""
        is_inverted = False
        for one in self.instructions[place:]:
            if one.opname in JUMPS:
                return self.outcome_of_jump(one, is_inverted, names)
            if one.opname == "UNARY_NOT":
                is_inverted = not is_inverted
            elif one.opname != "TO_BOOL":
                return None
        return None

    def outcome_of_jump(self, jump, is_inverted, names):
        taken = self.raises(jump.argval, names)
        if taken == self.raises(jump.offset + 1, names):
            return None
        return (JUMPS[jump.opname] != taken) != is_inverted

    def raises(self, offset, names):
        """Returns whether the instructions from there on raise an exception, without another way out."""
        place = bisect.bisect_left(self.offsets, offset)
        while place < len(self.instructions):
            one = self.instructions[place]
            if one.opname == "RAISE_VARARGS":
                return True
            if one.opname == "LOAD_GLOBAL" and one.argval.startswith(REST) and one.argval in names:
                return code_of(names[one.argval].__code__).raises(0, names)
            is_forward = one.opname in JUMPS_ON and one.argval > one.offset
            if not is_forward and ("JUMP" in one.opname or one.opname in ENDS):
                return False
            place = bisect.bisect_left(self.offsets, one.argval) if is_forward else place + 1
        return False


FUNCTIONS = (outcome_that_goes_on, code_of.__wrapped__, Code.__init__, Code.place_of, Code.outcome, Code.outcome_of_jump, Code.raises)

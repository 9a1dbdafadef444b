# SPDX-License-Identifier: Apache-2.0
"""Ends `generate` of transformers at the most tokens that the program allows.

It asks the device whether the tokens suffice, and a dry run answers zero to everything, so it would go on for ever.
"""
import functools

import _tidepool_imports as imports

CRITERIA, UTILITIES = "transformers.generation.stopping_criteria", "transformers.generation.utils"


class Generation:
    """Remembers whether the last tokens reached the length."""

    def __init__(self):
        self.is_long_enough = False
        imports.watch(CRITERIA, self.watch_lengths)
        imports.watch(UTILITIES, self.end_at_lengths)

    def watch_lengths(self, module):
        criterion = module.MaxLengthCriteria
        own = criterion.__call__

        @functools.wraps(own)
        def call(this, input_ids, *arguments, **named):
            self.is_long_enough = input_ids.shape[-1] >= this.max_length
            return own(this, input_ids, *arguments, **named)

        criterion.__call__ = call

    def end_at_lengths(self, module):
        mixin = module.GenerationMixin
        own = getattr(mixin, "_has_unfinished_sequences", None)  # versions before 4.39 have none

        @functools.wraps(own or (lambda: None))
        def has_unfinished(this, *arguments, **named):
            if self.is_long_enough:
                self.is_long_enough = False
                return False
            return own(this, *arguments, **named)

        if own is not None:
            mixin._has_unfinished_sequences = has_unfinished

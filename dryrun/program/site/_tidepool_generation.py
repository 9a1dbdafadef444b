# SPDX-License-Identifier: Apache-2.0
"""Ends `generate` of transformers at the most tokens that the program allows, and gives trainers of TRL as many.

Both ask the device, and a dry run answers zero to everything: generation would go on for ever, and answers would have no tokens.
"""
import functools

import _tidepool_imports as imports

CRITERIA, UTILITIES = "transformers.generation.stopping_criteria", "transformers.generation.utils"
TRAINERS = {"trl.trainer.grpo_trainer": "GRPOTrainer", "trl.trainer.rloo_trainer": "RLOOTrainer"}


class Generation:
    """Remembers whether the last tokens reached the length."""

    def __init__(self):
        self.is_long_enough = False
        imports.watch(CRITERIA, self.watch_lengths)
        imports.watch(UTILITIES, self.end_at_lengths)
        for module, trainer in TRAINERS.items():
            imports.watch(module, lambda module, trainer=trainer: fill_answers(getattr(module, trainer)))

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


def fill_answers(trainer):
    """Gives answers without tokens the most tokens that the trainer allows."""
    own = getattr(trainer, "_generate_single_turn", None)  # versions before 0.24 have none
    if own is None:
        return

    @functools.wraps(own)
    def generate(this, *arguments, **named):
        results = own(this, *arguments, **named)
        parts = list(results) if isinstance(results, tuple) else [results]
        answers = 1 if len(parts) > 2 else 0  # older versions return prompts first
        if isinstance(parts[answers], list):
            parts[answers] = [tokens or [0] * this.max_completion_length for tokens in parts[answers]]
        return tuple(parts) if isinstance(results, tuple) else parts[0]

    trainer._generate_single_turn = generate

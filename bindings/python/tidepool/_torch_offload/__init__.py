# SPDX-License-Identifier: Apache-2.0
"""Training in less memory for programs that are not compiled.

The stages of a model are modules that run one after the other. _training.py runs each by its mode, with the copies of
_copies.py; _chain.py predicts memory and time of modes, and finds the ones for a budget.
"""

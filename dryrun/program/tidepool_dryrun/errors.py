# SPDX-License-Identifier: Apache-2.0
"""Errors that end the command with a sentence and the exit status 1."""


class DryRunError(Exception):
    pass

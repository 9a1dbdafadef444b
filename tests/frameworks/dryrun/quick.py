# SPDX-License-Identifier: Apache-2.0
"""Marks the tests that a quick check leaves out: TIDEPOOL_QUICK=1 scripts/framework_tests.sh."""
import os
import unittest

slow = unittest.skipIf(os.environ.get("TIDEPOOL_QUICK"), "takes long, and a quick check was asked for")

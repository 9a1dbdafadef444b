# SPDX-License-Identifier: Apache-2.0
"""Ends a process with the one that started it, also where that one is killed and can end nothing itself."""
import ctypes
import os
import signal

PARENT = "TIDEPOOL_DRYRUN_PARENT"  # the process of which the direct children end with it
SIGNAL_AT_ITS_DEATH = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>


def end_with_parent():
    """Lets the system send SIGTERM to this process when its parent ends, if that is the one of the environment: others may outlive theirs."""
    if os.environ.get(PARENT) == str(os.getppid()):
        ctypes.CDLL(None).prctl(SIGNAL_AT_ITS_DEATH, signal.SIGTERM)

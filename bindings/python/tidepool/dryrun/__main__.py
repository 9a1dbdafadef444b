# SPDX-License-Identifier: Apache-2.0
"""python -m tidepool.dryrun [OPTIONS] -- COMMAND...: the command `tidepool dryrun` of this installation."""
import os
import sys

from .. import _program

tool = _program.find()
if tool is None:
    sys.exit(f"tidepool: no program tidepool belongs to {_program.PACKAGE}, expected an installation with pip")
# The command starts Python again, and should find this one.
os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
os.execv(tool, ["tidepool", "dryrun", *sys.argv[1:]])

# SPDX-License-Identifier: Apache-2.0
"""python -m tidepool.dryrun [OPTIONS] -- COMMAND...: the command `tidepool dryrun` of this installation."""
import os
import pathlib
import shutil
import sys
import sysconfig

PACKAGE = pathlib.Path(os.path.abspath(__file__)).parent.parent


def tool() -> str:
    """Returns the program tidepool that belongs to this package."""
    places = [pathlib.Path(sysconfig.get_path("scripts")), PACKAGE.parent.parent / "trace_replay", PACKAGE.parents[3] / "bin"]
    for place in places:
        if os.access(place / "tidepool", os.X_OK):
            return str(place / "tidepool")
    found = shutil.which("tidepool")
    if found is None:
        sys.exit(f"tidepool: no program tidepool belongs to {PACKAGE}, expected an installation with pip")
    return found


# The command starts Python again, and should find this one.
os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
os.execv(tool(), ["tidepool", "dryrun", *sys.argv[1:]])

# SPDX-License-Identifier: Apache-2.0
"""The program `tidepool` of this installation or build tree."""
import os
import pathlib
import shutil
import sysconfig
from typing import Optional

PACKAGE = pathlib.Path(os.path.abspath(__file__)).parent


def find() -> Optional[str]:
    """Returns the path of the program that belongs to this package, else of the first one on the PATH, else None."""
    for place in (pathlib.Path(sysconfig.get_path("scripts")), PACKAGE.parent.parent / "trace_replay", PACKAGE.parents[3] / "bin"):
        if os.access(place / "tidepool", os.X_OK):
            return str(place / "tidepool")
    return shutil.which("tidepool")

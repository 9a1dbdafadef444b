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
    for folder in (sysconfig.get_path("scripts"), PACKAGE / "../../trace_replay", PACKAGE / "../../../../bin"):
        program = os.path.normpath(os.path.join(folder, "tidepool"))
        if os.access(program, os.X_OK):
            return program
    return shutil.which("tidepool")

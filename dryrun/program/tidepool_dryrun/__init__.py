# SPDX-License-Identifier: Apache-2.0
"""The part of a dry run outside of the program. Some modules of the part inside, which lies in the folder beside, are used here too."""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "site"))

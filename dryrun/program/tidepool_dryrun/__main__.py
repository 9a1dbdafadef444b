# SPDX-License-Identifier: Apache-2.0
"""The command line starts this folder with its options, one JSON object, and the words of the command."""
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)

from tidepool_dryrun.main import main  # noqa: E402

sys.exit(main(sys.argv[1], sys.argv[2:]))

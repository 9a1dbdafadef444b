# SPDX-License-Identifier: Apache-2.0
"""Distributed checkpoints of ranks without peers: each rank saves and loads its own part alone, where PyTorch makes its plans from those of all
ranks.

So the files of each rank have the same names. Those of the first rank that saves lie where the program says, and those of each other
process in a folder of its own there.
"""
import functools
import os
import pathlib

import _tidepool_imports as imports

CHECKPOINT = "torch.distributed.checkpoint."


class Checkpoints:
    def __init__(self, folder, rank, helps):
        self.owner = os.path.join(folder, "owner-of-checkpoints")
        self.rank, self.helps = rank, helps
        imports.watch(CHECKPOINT + "utils", self.plan_alone)
        imports.watch(CHECKPOINT + "filesystem", self.lie_apart)

    def plan_alone(self, module):
        own = module._DistWrapper.__init__

        @functools.wraps(own)
        def init(wrapper, group, use_dist, coordinator_rank):
            own(wrapper, group, False, coordinator_rank)

        module._DistWrapper.__init__ = init

    def lie_apart(self, module):
        files = module.FileSystem
        own_folder, own_path = files.mkdir, files.concat_path

        @functools.wraps(own_folder)
        def mkdir(found, path):  # before files are written
            own_folder(found, path)
            if not self.is_owner():
                own_folder(found, self.apart(path))

        @functools.wraps(own_path)
        def concat_path(found, path, suffix):
            apart = self.apart(path)
            return own_path(found, apart if apart.is_dir() and not self.is_owner() else path, suffix)

        files.mkdir, files.concat_path = mkdir, concat_path

    def apart(self, path):
        return pathlib.Path(path, f"{'helping-' if self.helps else ''}rank-{self.rank}")

    def is_owner(self):
        """Returns whether this is the first rank of the run that saves. A process that runs only to send values never is."""
        if self.helps:
            return False
        try:
            os.symlink(str(self.rank), self.owner)
        except FileExistsError:
            pass
        return os.readlink(self.owner) == str(self.rank)

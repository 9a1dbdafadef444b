# SPDX-License-Identifier: Apache-2.0
"""Starts ranks of a program, as torchrun would start them on their nodes: start_ranks.py OPTIONS COMMAND...

OPTIONS is JSON: a World of world.py, and a folder. There the ranks name others of
which they need a value (need-RANK): these are started too, to send it, and end with those asked for. ended-RANK tells that a rank
has ended, so none waits for its values.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import tidepool_dryrun  # noqa: E402,F401 # makes the next one known
import _tidepool_parent as parent  # noqa: E402

SECONDS_BETWEEN_LOOKS = 0.05


def environment(rank, size, per_node, one_device, is_asked):
    own = dict(os.environ)
    own.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank % per_node), LOCAL_WORLD_SIZE=str(per_node),
               GROUP_RANK=str(rank // per_node), GROUP_WORLD_SIZE=str(size // per_node), ROLE_NAME="default", ROLE_RANK=str(rank),
               ROLE_WORLD_SIZE=str(size), TORCHELASTIC_RESTART_COUNT="0", TORCHELASTIC_MAX_RESTARTS="0", TORCHELASTIC_RUN_ID="none",
               TIDEPOOL_DRYRUN_RANK=str(rank), TIDEPOOL_DRYRUN_WORLD=str(size))
    own[parent.PARENT] = str(os.getpid())
    own.setdefault("MASTER_ADDR", "localhost")
    own.setdefault("OMP_NUM_THREADS", "1")
    if one_device:
        own.update(LOCAL_RANK="0", CUDA_VISIBLE_DEVICES=str(rank % per_node))
    # Programs of Slurm and Open MPI read others.
    own.update(SLURM_PROCID=str(rank), SLURM_NTASKS=str(size), SLURM_LOCALID=own["LOCAL_RANK"], OMPI_COMM_WORLD_RANK=str(rank),
               OMPI_COMM_WORLD_SIZE=str(size), OMPI_COMM_WORLD_LOCAL_RANK=own["LOCAL_RANK"])
    if not is_asked:
        own["TIDEPOOL_DRYRUN_HELPS"] = "1"
    return own


class Ranks:
    """The processes of one command."""

    def __init__(self, options, command):
        self.size, self.per_node = options["size"], options["per_node"]
        self.folder = pathlib.Path(options["folder"])
        self.adds_stages = options["adds_stages"]
        self.one_device, self.rank_option_at = options["one_device"], options["rank_option_at"]
        self.command = command
        self.asked = list(options["ranks"])
        self.running = {}  # by rank and whether it was asked for
        self.started = set()  # as the keys of `running`
        self.status = 0  # the first one of a rank asked for that is not 0

    def start(self, rank, is_asked):
        self.started.add((rank, is_asked))
        own = environment(rank, self.size, self.per_node, self.one_device, is_asked)
        command, at = self.command, self.rank_option_at
        if at is not None:
            command = [*command[:at], f"--local-rank={own['LOCAL_RANK']}", *command[at:]]
        if is_asked:
            self.running[rank, is_asked] = subprocess.Popen(command, env=own, stdin=subprocess.DEVNULL)
            return
        with open(self.output_of(rank), "wb") as output:
            self.running[rank, is_asked] = subprocess.Popen(command, env=own, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=output)

    def output_of(self, rank):
        return self.folder / f"helper-{rank}"

    def show_output_of(self, rank):
        with open(self.output_of(rank), "rb") as output:
            shutil.copyfileobj(output, sys.stderr.buffer)
        sys.stderr.flush()

    def waiting(self):
        """Returns the ranks asked for that have not been started."""
        return [rank for rank in self.asked if (rank, True) not in self.started]

    def asked_running(self):
        return sum(is_asked for _, is_asked in self.running)

    def start_more(self):
        for path in self.folder.glob("need-*"):
            number = path.name.partition("-")[2]
            if not number.isdecimal():  # a file that is not whole yet
                continue
            rank = int(number)
            if not {(rank, True), (rank, False)} & self.started:
                self.start(rank, rank in self.asked)
        for rank in self.waiting():
            if self.asked_running() >= max(1, os.cpu_count() or 1):
                return
            self.start(rank, True)

    def note_ends(self):
        for (rank, is_asked), process in list(self.running.items()):
            if process.poll() is None:
                continue
            del self.running[rank, is_asked]
            (self.folder / f"ended-{rank}").touch()
            if not is_asked and process.returncode != 0:
                self.show_output_of(rank)
            if is_asked:
                self.status = self.status or process.returncode
                self.add_stages()

    def add_stages(self):
        """Asks for one rank of each pipeline stage, which a rank has noted."""
        note = self.folder / "stages"
        if self.adds_stages and note.exists():
            self.adds_stages = False
            self.asked = sorted({*self.asked, *json.loads(note.read_text())})

    def run(self):
        while self.waiting() or self.asked_running():
            self.start_more()
            self.note_ends()
            time.sleep(SECONDS_BETWEEN_LOOKS)
        for process in self.running.values():
            process.kill()
        for process in self.running.values():
            process.wait()
        return self.status


if __name__ == "__main__":
    parent.end_with_parent()
    found = Ranks(json.loads(sys.argv[1]), sys.argv[2:]).run()
    if found < 0:  # the signal that ended the rank ends this process too
        os.kill(os.getpid(), -found)
    sys.exit(found)

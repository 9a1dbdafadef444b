# SPDX-License-Identifier: Apache-2.0
"""Calls a function of another process, as a program of its own: call.py FOLDER

The folder has the file call.pickle: first the state of the main module, as new processes of `multiprocessing` get it, and
then the function and its arguments. An error of the function goes into the file error.pickle.
"""
import multiprocessing.pool
import multiprocessing.spawn
import os
import pickle
import sys


def keep(error, path):
    """Writes the error with its traceback, if it can be pickled."""
    try:
        contents = pickle.dumps(multiprocessing.pool.ExceptionWithTraceback(error, error.__traceback__))
    except Exception:  # any error of the object's own code
        return
    with open(path, "wb") as file:
        file.write(contents)


def main(folder):
    try:
        with open(os.path.join(folder, "call.pickle"), "rb") as file:
            multiprocessing.spawn.prepare(pickle.load(file))
            function, arguments = pickle.load(file)
        function(*arguments)
    except SystemExit as ended:
        sys.exit(ended.code)  # by the function that notes the reason
    except Exception as error:
        keep(error, os.path.join(folder, "error.pickle"))
        raise


if __name__ == "__main__":
    main(sys.argv[1])

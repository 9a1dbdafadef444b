# SPDX-License-Identifier: Apache-2.0
"""Training in less memory under torch.compile: schedules of the policy `best`, carried out by two graphs.

AOTAutograd hands the joint graph of forward and backward to a partition function. From there:
_capture.py makes a task graph of it, with the times and workspaces of _costs.py; _search.py asks for a schedule;
_order.py moves the copies so that a run takes the time of the prediction; _places.py finds an address for each request, which
_slab.py serves; _emit.py writes the graphs in that order, with the operators of _operators.py, and _fuse.py makes kernels of Inductor
of operators that follow each other, on images with the layout of _layouts.py; _planner.py makes a plan by these steps, and _compiled.py
compiles it. _region.py decides before each step whether the plan still fits, with the memory that _optimizers.py expects; _cuda_graphs.py
knows which graphs hold the slab. _private.py alone has private names of PyTorch.
"""

"""Functions of sequences of nodes: making them, their order, checks, liveness, dead code."""

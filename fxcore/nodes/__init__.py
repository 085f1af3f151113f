"""Functions of sequences of nodes: construction, order, checks, liveness, dead code."""

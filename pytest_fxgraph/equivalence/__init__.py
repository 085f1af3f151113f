"""Eager against graph: the same inputs, everything that can be seen, and the first operator where they part."""

"""Recordings: the graphs that a run of any test suite made, kept by content. Imports neither torch nor pytest."""

"""The recorder: what a run of pytest makes of graphs, written to a recording."""

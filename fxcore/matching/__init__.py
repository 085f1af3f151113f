"""Search of patterns in graphs, and their replacement."""

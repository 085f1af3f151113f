"""A small decoder, and its plan for tensor parallelism."""

"""The command `fxgraph`, which works on golden files alone and imports no torch."""

"""The command `fxgraph`. It works on golden files alone and imports no torch."""

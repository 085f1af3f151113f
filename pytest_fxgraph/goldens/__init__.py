"""Golden files: where they lie, how they are read and written. Imports neither torch nor pytest."""

"""The parts of a node: arguments, targets, names, metadata, and its printed form."""

"""From a subject to its graph: tracing, the frontends of PyTorch, and the stages of a lowering."""

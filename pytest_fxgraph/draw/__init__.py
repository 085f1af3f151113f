"""Pictures of graphs: one graph, or two that differ as one overlay, in layers; without torch."""

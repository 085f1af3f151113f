"""Checks of guards while a graph runs: their places in the graph, their code, and the way back after a refusal."""

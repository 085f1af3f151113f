"""Passes for graphs of any family of operators."""

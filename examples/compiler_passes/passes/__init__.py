"""Passes over graphs of fxcore. Each is a function that changes the graph module that it is given, and returns it."""

from passes.double_negation import remove_double_negation
from passes.fused_add_relu import add_relu, fuse_add_relu
from passes.scale_folding import fold_scale_into_linear

__all__ = ["add_relu", "fold_scale_into_linear", "fuse_add_relu", "remove_double_negation"]

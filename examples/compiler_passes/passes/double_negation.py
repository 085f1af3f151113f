"""-(-x) is x."""

from __future__ import annotations

import operator

import torch

import fxcore

_NEGATIONS = {operator.neg, torch.neg, torch.negative}


def remove_double_negation(gm: fxcore.GraphModule) -> fxcore.GraphModule:
    """Let who reads the negation of a negation read the value itself."""
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target in _NEGATIONS and isinstance(node.args[0], fxcore.Node):
            negated = node.args[0]
            if negated.op == "call_function" and negated.target in _NEGATIONS and not _is_written_into(negated):
                node.replace_all_uses_with(negated.args[0])
                gm.graph.erase_node(node)
                if not negated.users:
                    gm.graph.erase_node(negated)
    gm.recompile()
    return gm


def _is_written_into(node: fxcore.Node) -> bool:
    return any(isinstance(user.target, str) and user.target.endswith("_") for user in node.users)

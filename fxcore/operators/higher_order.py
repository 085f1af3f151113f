"""Operators that take functions: the releases of torch that have them."""

from __future__ import annotations

import torch

# By the name in torch.ops.higher_order: the first release with the operator among 2.6, 2.13 and 2.14.
_NAMES = {
    "2.6": (
        "associative_scan cond flex_attention hints_wrapper invoke_subgraph map_impl out_dtype run_const_graph scan "
        "strict_mode tag_activation_checkpoint while_loop wrap wrap_activation_checkpoint wrap_with_autocast "
        "wrap_with_set_grad_enabled"
    ),
    "2.13": (
        "flat_apply foreach_map inline_asm_elementwise invoke_leaf_function invoke_quant local_map_hop print "
        "register_hook while_loop_stack_output"
    ),
    "2.14": "flex_gemm switch",
}
FIRST_RELEASE = {name: release for release, names in _NAMES.items() for name in names.split()}


def missing_operator(name: str) -> str:
    """Return a sentence if this torch lacks the operator at the end of a dotted name; else an empty text."""
    operator = name.rpartition(".")[2]
    release = FIRST_RELEASE.get(operator)
    if release is None or torch.torch_version.TorchVersion(torch.__version__) >= release:
        return ""
    return f"torch {torch.__version__} does not have the operator {operator!r}; torch {release} has it"

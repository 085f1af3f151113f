"""What the contents of input tensors decide about, as opposed to their shapes, and to what the model keeps."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from fxcore.examples.arguments import drawn
from fxcore.examples.proxies import ExampleProxy, ExampleTensor
from fxcore.node import Node
from fxcore.node_data.targets import is_from_torch
from fxcore.operators.syntax import INPLACE_OPERATORS

# Give plain values that follow from shape and type. What else gives plain values is taken to read contents.
_OF_SHAPE = frozenset({"size", "numel", "nelement", "stride", "storage_offset", "len", "sym_size", "sym_numel", "list"})
_OF_TYPE = frozenset(
    {
        *("dim", "ndimension", "element_size", "get_device", "type", "is_contiguous", "has_names", "isinstance"),
        *("is_floating_point", "is_complex", "is_signed", "is_inference", "is_tensor", "is_same_size", "is_set_to"),
        *("is_conj", "is_neg", "is_pinned", "is_shared", "is_storage", "result_type", "can_cast", "promote_types"),
        *("dense_dim", "sparse_dim", "broadcast_shapes", "callable", "hasattr"),
    }
)
# Give tensors whose shape follows from the contents of others.
_SHAPED_BY_CONTENTS = frozenset(
    {"nonzero", "masked_select", "unique", "unique_consecutive", "argwhere", "bincount", "_unique2", "unique_dim"}
)
# Give tensors whose contents follow from the shape of others alone.
_FRESH = frozenset(
    {
        *("zeros_like", "ones_like", "empty_like", "full_like", "new_zeros", "new_ones", "new_empty", "new_full"),
        *("zeros", "ones", "empty", "full", "arange", "eye", "linspace", "new_tensor"),
    }
)
_RANDOM = frozenset(
    {
        *("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "dropout", "poisson"),
        *("bernoulli", "multinomial", "normal", "normal_", "uniform_", "random_", "bernoulli_", "exponential_"),
    }
)

_CHANGING_METHODS = frozenset({"update", "pop", "popitem", "append", "extend", "insert", "clear", "setdefault", "add"})


class Origin(NamedTuple):
    """What the contents of input tensors decide about a value.

    `is_data`: about the value itself. `has_contents`: about what a tensor holds. `data_sizes`: about which sizes of a
    tensor, or in a shape.
    """

    is_data: bool
    has_contents: bool
    data_sizes: frozenset[int] = frozenset()


def origin_of(kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any) -> Origin:
    """Return what the contents of input tensors decide about the value of a call."""
    proxies = [leaf for leaf in _leaves((args, kwargs)) if isinstance(leaf, ExampleProxy)]
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    tensors = [proxy for proxy in proxies if isinstance(proxy, ExampleTensor)]
    of_data = any(proxy.is_data for proxy in proxies)
    sizes = frozenset[int]().union(*[proxy.data_sizes for proxy in proxies])
    contents = any(proxy.has_contents for proxy in proxies)
    if target is drawn:
        return Origin(True, True)
    if isinstance(value, torch.Tensor) or kind == "call_module" or value is None or _holds_tensors(value):
        is_shaped = contents and _is_shaped_by_contents(name, args, kwargs)
        found = _data_sizes(value, tensors, sizes, is_new=of_data or is_shaped)
        return Origin(False, of_data or name in _RANDOM or (contents and name not in _FRESH), found)
    if type(value) is torch.Size:
        return Origin(False, False, sizes.intersection(value))
    if name == "len" and isinstance(args[0], ExampleProxy) and type(args[0].example) is torch.Size:
        return Origin(False, False)  # the number of dimensions
    if name in _OF_TYPE:
        return Origin(of_data, of_data)
    if name in _OF_SHAPE or not tensors:
        is_one_size = name in ("size", "getitem", "len") and type(value) is int
        is_data = of_data or (value in sizes if is_one_size else bool(sizes))
    else:
        is_data = of_data or contents
    return Origin(is_data, is_data)


def _data_sizes(value: Any, inputs: list[ExampleTensor], sizes: frozenset[int], *, is_new: bool) -> frozenset[int]:
    """Return the sizes of a result that contents decide about.

    Those are the sizes that were so in the inputs, and any that no input has, if there was one in the inputs or the
    call makes them.
    """
    if not sizes and not is_new:
        return frozenset()
    made = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    of_result = frozenset(size for tensor in made for size in tensor.shape)
    known = frozenset(size for tensor in inputs for size in tensor.example.shape) - sizes
    unknown = of_result - known
    if is_new and not unknown:
        return of_result  # nothing tells which
    return unknown


def is_free_of_effects(node: Node) -> bool:
    """Tell whether a node that computes a number or a text changes nothing, so that it may go if nobody reads it."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if node.op == "get_attr":
        return True
    if node.op == "call_method":
        return name in _OF_SHAPE or name in _OF_TYPE or not (name.endswith("_") or name in _CHANGING_METHODS)
    if node.op != "call_function" or name in INPLACE_OPERATORS:
        return False
    module = getattr(node.target, "__module__", None) or ""
    return module in ("_operator", "builtins", "math") or (is_from_torch(node.target) and not name.endswith("_"))


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, (bool, int, float, torch.Size, torch.dtype, torch.device)):
        return False
    return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value))


def _is_shaped_by_contents(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if name in _SHAPED_BY_CONTENTS:
        return True
    if name in ("getitem", "__getitem__"):
        return any(_is_mask(leaf) for leaf in _leaves(args[1:]))
    if name == "repeat_interleave":
        return any(isinstance(leaf, torch.Tensor) for leaf in _leaves((args[1:], kwargs)))
    return name == "where" and len(args) + len(kwargs) == 1


def _is_mask(value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return False
    dtype = value.example.dtype if isinstance(value, ExampleTensor) else value.dtype
    return dtype in (torch.bool, torch.uint8)


def _leaves(value: Any) -> list[Any]:
    leaves: list[Any] = []
    for leaf in pytree.tree_leaves(value):
        leaves += [leaf.start, leaf.stop, leaf.step] if type(leaf) is slice else [leaf]
    return leaves

"""Sizes that follow from the contents of tensors, found by running a call a second time on other sizes.

If a size depends on tensor contents (`x[mask]`, `nonzero`), the result also carries a second value with another size:
fake tensors as large as they might be with other contents. Later calls are run on the second values too. Thus each
dimension of a result, and each size that Python asks for, is known to depend on contents or not.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fxcore.guided.arguments import value_of
from fxcore.guided.proxies import VALUE_PROXIES, ExampleProxy, ExampleTensor
from fxcore.node_data.targets import is_from_torch
from fxcore.operators.table import facts_of_name
from fxcore.state.storage import ORDINARY
from fxcore.tracing.recorder import CONSTANT_TYPES

_PLAIN_LEAVES = CONSTANT_TYPES | VALUE_PROXIES | ORDINARY | {ExampleTensor}
_MORE = 7  # the difference in size: a number that is seldom a size by itself


def leaves_of(value: Any) -> list[Any]:
    """Return the leaves of an argument, and the ends of slices in it."""
    leaves: list[Any] = []
    _collect_leaves(value, leaves)
    return leaves


def _collect_leaves(value: Any, leaves: list[Any]) -> None:
    # Each recorded call asks. The pytree alone would take a tenth of a trace.
    kind = type(value)
    if kind in _PLAIN_LEAVES:
        leaves.append(value)
    elif kind is tuple or kind is list:
        for item in value:
            _collect_leaves(item, leaves)
    elif kind is slice:
        leaves += [value.start, value.stop, value.step]
    elif not (kind is dict and not value):
        for leaf in pytree.tree_leaves(value):
            leaves += [leaf.start, leaf.stop, leaf.step] if type(leaf) is slice else [leaf]


def proxies_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[ExampleProxy]:
    """Return the proxies among the arguments of a call."""
    return [leaf for leaf in leaves_of((args, kwargs)) if isinstance(leaf, ExampleProxy)]


class OtherSizes:
    """Runs the calls of one trace on other sizes."""

    @functools.cached_property
    def _mode(self) -> Any:
        from torch._subclasses.fake_tensor import FakeTensorMode  # most traces do without

        return FakeTensorMode(allow_non_fake_inputs=True)

    @contextmanager
    def fake_tensors(self) -> Iterator[None]:
        """Compute with tensors that have sizes and no contents. Keep torch's log of sizes that do not fit silent."""
        log = logging.getLogger("torch._subclasses.fake_tensor")
        was_disabled, log.disabled = log.disabled, True
        try:
            with self._mode:
                yield
        finally:
            log.disabled = was_disabled

    def result_of(
        self, call: Callable[..., Any] | None, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any
    ) -> Any:
        """Return the result of a call that `contents_decide_about_size`; None if no size of it follows from contents.

        `call` runs the call, or is None if it must not run again; `value` is the result on the example.
        """
        proxies = proxies_in(args, kwargs)
        is_shaped = _is_shaped_by_contents(name, args, kwargs)
        found = None
        try:
            if is_shaped:
                found = self._shaped_by_contents(call, name, args, kwargs, value)
            elif call is not None:
                with self.fake_tensors():
                    found = call(*value_of(args, True), **value_of(kwargs, True))
            if found is not None and _is_of_other_size(value, found):
                return found
        except Exception:  # some calls cannot be run so, and some results cannot be compared
            found = None
        is_new = is_shaped or any(each.is_data for each in proxies)
        if found is not None and not is_new:
            return None
        return self._by_known_sizes(value, [each for each in proxies if isinstance(each, ExampleTensor)], is_new=is_new)

    def _shaped_by_contents(
        self, call: Callable[..., Any] | None, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any
    ) -> Any:
        """Return the result of a call with a shape that follows from contents, as it might be with other contents."""
        if name in ("getitem", "__getitem__"):
            key = args[1] if type(args[1]) is tuple else (args[1],)
            counts = [int(value_of(each).count_nonzero()) if _is_mask(each) else 0 for each in key]
            with self.fake_tensors():
                parts = [part for each, count in zip(key, counts, strict=True) for part in _indices(each, count)]
                indexed: Any = value_of(args[0], True)
                return indexed[tuple(parts)]
        if name == "repeat_interleave":
            dim = kwargs.get("dim", args[2] if len(args) > 2 else 0) or 0
            return self._resized(value, lambda index, tensor: index == dim % tensor.dim())
        is_any = name in ("unique", "unique_consecutive", "unique_dim", "_unique2")
        return self._resized(value, lambda index, tensor: is_any or index == 0)

    def _by_known_sizes(self, value: Any, inputs: list[ExampleTensor], *, is_new: bool) -> Any:
        """Return a result with changed sizes: all sizes but the inputs' sizes that do not depend on contents."""
        sizes = frozenset(size for each in inputs for size in _sizes_that_differ(each))
        known = frozenset(size for each in inputs for size in each.example.shape) - sizes
        found = self._resized(value, lambda index, tensor: tensor.shape[index] not in known)
        if is_new and not _is_of_other_size(value, found):
            return self._resized(value, lambda index, tensor: True)  # the size that changes is unknown
        return found if _is_of_other_size(value, found) else None

    def _resized(self, value: Any, is_chosen: Callable[[int, torch.Tensor], bool]) -> Any:
        """Return fake tensors in the form of a result, with the chosen dimensions larger."""

        def resized(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            sizes = [size + _MORE if is_chosen(index, leaf) else size for index, size in enumerate(leaf.shape)]
            return torch.empty(sizes, dtype=leaf.dtype, device=leaf.device)

        with self.fake_tensors():
            return pytree.tree_map(resized, value)


def contents_decide_about_size(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], proxies: list[ExampleProxy]
) -> bool:
    """Return whether the contents of inputs may decide about a size of a call's result. `proxies` are its arguments."""
    return any(each.other is not None for each in proxies) or _is_shaped_by_contents(name, args, kwargs)


def _is_shaped_by_contents(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    deciding = _deciding_about_shape(name, args, kwargs)
    return any(each.has_contents or each.other is not None for each in deciding)


def can_be_repeated(kind: str, target: Any, root: Any, args: tuple[Any, ...]) -> bool:
    """Return whether a call may run a second time: calls of torch or Python change nothing else."""
    if kind == "call_module":
        return type(root.get_submodule(target)).__module__.startswith("torch.")
    if kind == "call_method":
        owner = getattr(args[0], "example", args[0])
        return isinstance(owner, torch.Tensor) or type(owner) is torch.Size
    return getattr(target, "__module__", None) in ("_operator", "builtins", "math") or is_from_torch(target)


def other_number(number: Any) -> Any:
    """Return a second value for a number that depends on contents; None for anything but a whole number."""
    if type(number) is not int:
        return None
    return number // 2 if number > 1 else number + 1


def _deciding_about_shape(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[ExampleTensor]:
    """Return the tensors with contents that decide about the shape of a call's result."""
    found: list[Any] = []
    facts = facts_of_name(name) or facts_of_name(f"aten.{name}")
    if "sized_by_contents" in facts or (name == "where" and len(args) + len(kwargs) == 1):
        found = leaves_of((args, kwargs))[:1]
    elif name == "masked_select":
        found = leaves_of((args[1:], kwargs))
    elif name in ("getitem", "__getitem__"):
        found = [leaf for leaf in leaves_of(args[1:]) if _is_mask(leaf)]
    elif name == "repeat_interleave":
        found = leaves_of((args[1:], kwargs)) or leaves_of(args)
    return [each for each in found if isinstance(each, ExampleTensor)]


def _indices(key: Any, count: int) -> list[Any]:
    """Return the second value of one part of an index: for a mask of `count`, an index into each of its dimensions."""
    if not _is_mask(key):
        return [value_of(key, True)]
    mask = value_of(key)
    return [torch.empty(count + _MORE, dtype=torch.long, device=mask.device) for _ in range(mask.dim())]


def _is_mask(value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return False
    dtype = value.example.dtype if isinstance(value, ExampleTensor) else value.dtype
    return dtype in (torch.bool, torch.uint8)


def _is_of_other_size(value: Any, other: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return bool(value.shape != other.shape)
    if isinstance(value, (list, tuple)):
        return len(value) != len(other) or any(map(_is_of_other_size, value, other))
    return type(value) is int and bool(value != other)


def _sizes_that_differ(proxy: ExampleTensor) -> list[int]:
    if proxy.other is None:
        return []
    return [size for size, other in zip(proxy.example.shape, proxy.other.shape, strict=True) if size != other]

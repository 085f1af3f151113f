"""The patterns that passes of Inductor hold: torch's own, and those that users register in a PatternMatcherPass."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from pytest_fxgraph.captures.torch_internals import part_of_torch

_MATCHER = "torch._inductor.pattern_matcher"
_PASSES = "torch._inductor.fx_passes"
_NEEDED_FOR = "the patterns of Inductor"


class InductorPattern(NamedTuple):
    """One pattern of a pass."""

    name: str  # of the registration, or of the function that is searched for or called
    operators: tuple[str, ...]  # the operators of the pattern's last call
    entry: Any  # torch's PatternEntry, with the pattern as `entry.pattern`
    search: Callable[..., Any] | None = None  # the function whose trace is the pattern; None for a pattern by hand
    replacement: Callable[..., Any] | None = None
    example_inputs: tuple[Any, ...] | None = None  # tensors without data; None where torch keeps none
    constants: Mapping[str, Any] | None = None  # numbers of the pattern, by the parameter of `search`
    is_training: bool = False  # traced with its backward

    def arguments(self, seed: int = 0) -> tuple[Any, ...] | None:
        """Return the example inputs with random values and the constants; None where torch keeps no examples.

        A dropout rate becomes 0, because pattern and replacement may draw in another order.
        """
        if self.search is None or self.example_inputs is None:
            return None
        generator = torch.Generator().manual_seed(seed)
        rest = iter(pytree.tree_map(lambda leaf: _with_values(leaf, generator), self.example_inputs))
        constants = {
            name: 0.0 if name.startswith("dropout") else value for name, value in (self.constants or {}).items()
        }
        return tuple([
            constants[name] if name in constants else next(rest) for name in inspect.signature(self.search).parameters
        ])  # fmt: skip


def _with_values(leaf: Any, generator: torch.Generator) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if leaf.dtype is torch.bool:
        return torch.randint(0, 2, tuple(leaf.shape), generator=generator).bool()
    made = torch.randn(tuple(leaf.shape), generator=generator)
    return made.to(leaf.dtype) if leaf.is_floating_point() else (made * 4).to(leaf.dtype)


def patterns_of(pattern_pass: Any) -> Iterator[InductorPattern]:
    """Yield the patterns of a PatternMatcherPass, each once, in the order of registration."""
    examples = _examples_by_pattern()
    entries: dict[int, tuple[Any, list[str]]] = {}
    for (_, target), found in pattern_pass.patterns.items():
        for entry in found:
            entries.setdefault(id(entry), (entry, []))[1].append(str(target))
    for entry, operators in entries.values():
        handler = getattr(entry, "handler", None)
        if handler is not None:
            yield InductorPattern(getattr(handler, "__name__", repr(handler)), tuple(operators), entry)
            continue
        held = inspect.getclosurevars(entry.extra_check).nonlocals if inspect.isfunction(entry.extra_check) else {}
        search, replacement, trace = held.get("search_fn"), held.get("replace_fn"), held.get("trace_fn")
        yield InductorPattern(
            str(getattr(entry, "pattern_name", None) or getattr(search, "__name__", repr(entry.pattern))),
            tuple(operators),
            entry,
            search,
            replacement,
            examples.get(id(entry.pattern)),
            held.get("scalar_workaround"),
            getattr(trace, "__name__", "") == "joint_fwd_bwd",
        )


def _examples_by_pattern() -> dict[int, tuple[Any, ...]]:
    """Map the identity of torch's pattern expressions to the example inputs that they were traced with."""
    found = {}
    for each in part_of_torch(_MATCHER, "_known_precompiled_patterns", _NEEDED_FOR):
        # A tuple of five values before torch 2.14.
        inputs, pattern = (
            (each[1], each[4]) if isinstance(each, tuple) else (each.example_inputs, each.search_fn_pattern)
        )
        found[id(pattern)] = tuple(inputs)
    return found


def joint_graph_patterns(device: str = "cpu") -> Iterator[InductorPattern]:
    """Yield the patterns of Inductor's passes on joint graphs, registered for a device as a compilation does."""
    joint_graph = importlib.import_module(f"{_PASSES}.joint_graph")
    register = part_of_torch(f"{_PASSES}.joint_graph", "lazy_init", _NEEDED_FOR)
    # Torch 2.6 registers for all devices at once, and keeps no early patterns.
    register(*(torch.device(device) for _ in inspect.signature(register).parameters))
    early = getattr(joint_graph, "early_patterns", None)
    passes = part_of_torch(f"{_PASSES}.joint_graph", "pass_patterns", _NEEDED_FOR)
    for each in (early, *passes) if early is not None else passes:
        yield from patterns_of(each)

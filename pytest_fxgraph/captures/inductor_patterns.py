"""The patterns that passes of Inductor hold: torch's own, and those that users register in a PatternMatcherPass."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
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
        given = (self.constants or {}).items()
        constants = {name: 0.0 if name.startswith("dropout") else value for name, value in given}
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
    for entry, operators in entries_of(pattern_pass):
        held = closure_of(entry.extra_check)
        functions = held.get("search_fn"), held.get("replace_fn")
        inputs, constants = examples.get(id(entry.pattern)), held.get("scalar_workaround")
        is_training = getattr(held.get("trace_fn"), "__name__", "") == "joint_fwd_bwd"
        yield InductorPattern(name_of(entry), tuple(operators), entry, *functions, inputs, constants, is_training)


def entries_of(pattern_pass: Any) -> Iterable[tuple[Any, list[str]]]:
    """Return the entries of a PatternMatcherPass, each once, with the operators of their patterns' last calls."""
    entries: dict[int, tuple[Any, list[str]]] = {}
    for (_, target), found in pattern_pass.patterns.items():
        for entry in found:
            entries.setdefault(id(entry), (entry, []))[1].append(str(target))
    return entries.values()


def name_of(entry: Any) -> str:
    """Return the name of an entry: of its registration, or of the function that is searched for or called."""
    search = closure_of(entry.extra_check).get("search_fn")
    name = getattr(entry, "pattern_name", None) or getattr(getattr(search, "func", search), "__name__", None)
    # Many handlers of torch are named "fn", and their outer functions tell them apart.
    handler = getattr(getattr(entry, "handler", None), "__qualname__", "").replace("<locals>.", "")
    return str(name or handler or repr(entry.pattern))


def closure_of(function: Any) -> dict[str, Any]:
    """Return the outer variables of a function; register_replacement keeps the user's functions there alone."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    return {name: cell.cell_contents for name, cell in zip(names, function.__closure__ or (), strict=True)}


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

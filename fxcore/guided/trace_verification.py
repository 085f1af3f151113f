"""Verification of a traced graph: it is compared with its model on the example and on inputs of other sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from fxcore.errors import GuardError, TraceError, VerificationError
from fxcore.graph_module import GraphModule
from fxcore.guided.higher_order import operators_called_in_python
from fxcore.guided.inputs import copied_example, positional_of
from fxcore.state.readings import seed_generators
from fxcore.state.snapshot import state_kept

# Relative to the largest magnitude. Eager runs the same operators as the graph.
_TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 5e-2}
_ORDINARY_TOLERANCE = 1e-4

# The largest number of dimensions of one size that are changed alone.
_MOST_ALONE = 4


@dataclass(frozen=True)
class FreeSizes:
    """The sizes of inputs that a graph leaves free: another size was run, and eager and graph agreed.

    `dimensions` maps the path of each tensor among the inputs to the dimensions that were changed. If eager takes a
    change only together with other dimensions of the same size, these dimensions are listed too.
    """

    dimensions: dict[str, tuple[int, ...]]
    refused: dict[str, str]  # path and dimension -> the guard that another size breaks

    def __str__(self) -> str:
        if not self.dimensions:
            return "no size of an input is free"
        return "; ".join(f"{path}: {', '.join(map(str, dims))}" for path, dims in self.dimensions.items())


def verify_trace(
    root: nn.Module | Callable[..., Any],
    graph_module: GraphModule,
    example_inputs: Any,
    example_kwargs: Mapping[str, Any] | None = None,
) -> FreeSizes:
    """Run eager and graph on the example, on fresh values of its sizes, and on other sizes where the guards allow them.

    Returns the free sizes, and keeps them in `graph_module.meta["free_sizes"]`. Model and generators are left as they
    were. Raises VerificationError (an AssertionError) if outputs differ.
    """
    example: _Inputs = (positional_of(example_inputs), dict(example_kwargs or {}))
    comparison = _Comparison(root, graph_module)
    comparison.run([example], ["the example"], must_run=True)
    comparison.run([_resized(example, {})], ["other values of the example's sizes"])
    if getattr(graph_module.graph.guards, "notes", ()):
        comparison.run_later_calls(example)
    dimensions: dict[str, set[int]] = {}
    refused: dict[str, str] = {}
    for sizes in _other_sizes(example):
        if all(dimension in dimensions.get(path, ()) for path, dimension in sizes):
            continue
        told = ", ".join(f"{path} with {size} in dimension {dim}" for (path, dim), size in list(sizes.items())[:3])
        outcome = comparison.run([_resized(example, sizes)], [f"inputs of another size ({told})"])
        for path, dimension in sizes:
            if outcome is _AGREES:
                dimensions.setdefault(path, set()).add(dimension)
            elif outcome is not None:
                refused.setdefault(f"{path}[{dimension}]", str(outcome))
    found = FreeSizes({path: tuple(sorted(dims)) for path, dims in dimensions.items()}, refused)
    graph_module.meta["free_sizes"] = found
    return found


def refuse_kept_state(
    root: nn.Module | Callable[..., Any],
    graph_module: GraphModule,
    example_inputs: Any,
    example_kwargs: Mapping[str, Any] | None = None,
) -> None:
    """Raise TraceError if a second call of the model depends on state that a first call left, and the graph does not.

    The notes of the graph name this state. Model and generators are left as they were.
    """
    notes = getattr(graph_module.graph.guards, "notes", ())
    if not notes:
        return
    try:
        _Comparison(root, graph_module).run_later_calls((positional_of(example_inputs), dict(example_kwargs or {})))
    except VerificationError as error:
        raise TraceError(
            f"cannot trace {type(root).__name__}: a second call of the model computes with state that the first call "
            f"left, and a graph of one call does not have it\n{'; '.join(notes[:3])}\n"
            "Keep the state in a buffer that forward writes in place, pass it as an input and return it, or keep the "
            "module that has it in a leaf (leaf_modules=); verify=False gives the graph of the first call"
        ) from error


# Positional and keyword arguments.
_Inputs = tuple[tuple[Any, ...], dict[str, Any]]
_Place = tuple[str, int]
_AGREES = object()


class _Comparison:
    """Runs eager and graph on the same inputs."""

    def __init__(self, root: Any, graph_module: GraphModule) -> None:
        self._root, self._graph_module = root, graph_module
        self._is_enforced = getattr(graph_module.graph.guards, "are_enforced", True)
        self._module = root if isinstance(root, nn.Module) else nn.Module()

    def run_later_calls(self, example: _Inputs) -> None:
        """Compare the second and the third call, which show the state that the model keeps and the graph leaves out.

        Raises VerificationError if results differ.
        """
        others = _other_values(example)
        for later in (others, example):
            if self.run([example, later, later], ["", "the second of two calls", "the third call"]) is _AGREES:
                break

    def run(self, calls: list[_Inputs], told: list[str], *, must_run: bool = False) -> object:
        """Make calls one after the other, and compare those with a name in `told`.

        Return that both agree, the guard that refuses the inputs, or None if eager refuses them. Raises
        VerificationError if results differ, or if the graph alone fails. With `must_run`, raises eager's error.
        """
        expected, refusal = self._results(self._root, calls)
        if refusal is not None and must_run:
            raise refusal
        obtained, failure = self._results(self._graph_module, calls[: len(expected)])
        if isinstance(failure, GuardError) and must_run:
            raise failure
        for what, wanted, found in zip(told, expected, obtained, strict=False):
            difference = next(_differences(wanted, found, "output"), None) if what else None
            if difference is not None:
                raise VerificationError(f"{self._words(what)}: {difference}")
        if failure is not None and not isinstance(failure, GuardError):
            what = told[len(obtained)] or "the first call"
            raise VerificationError(
                f"{self._words(what)}: eager runs, and the graph raises {type(failure).__name__}: {failure}"
            ) from failure
        if refusal is not None:
            return None
        return _AGREES if failure is None else str(failure).splitlines()[1].strip()

    def _results(self, call: Callable[..., Any], calls: Sequence[_Inputs]) -> tuple[list[Any], Exception | None]:
        """Return the results of calls up to the first error, and the error."""
        is_eager = call is self._root
        results: list[Any] = []
        with (
            state_kept(self._module, functions=(call,), parameters=True),
            operators_called_in_python() if is_eager else nullcontext(),
        ):
            seed_generators(0)
            for inputs in calls:
                args, kwargs = copied_example(inputs)
                try:
                    if not (is_eager or self._is_enforced):
                        self._graph_module.check_guards(*args, **kwargs)
                    results.append(copied_example(call(*args, **kwargs)))
                except Exception as error:
                    return results, error
        return results, None

    def _words(self, what: str) -> str:
        return (
            f"the graph that was traced from {type(self._root).__name__} does not do what the model does on {what}. "
            "Something was computed while tracing that depends on the inputs, and no guard says so"
            f"{self._told()}; trace with "
            "leaf_modules= for the module that does it, or with verify=False to look at the graph"
        )

    def _told(self) -> str:
        """Return the notes of the graph as a part of a sentence."""
        notes = getattr(self._graph_module.graph.guards, "notes", ())
        return f", but for its notes ({'; '.join(notes[:3])})" if notes else ""


def _other_sizes(inputs: _Inputs) -> Iterator[dict[_Place, int]]:
    """Yield sizes to try: first all dimensions of one size together, then each alone."""
    places: dict[int, list[_Place]] = {}
    for path, leaf in pytree.tree_flatten_with_path(inputs)[0]:
        for dimension, size in enumerate(leaf.shape) if isinstance(leaf, torch.Tensor) and leaf.numel() else ():
            places.setdefault(size, []).append((_path_text(path), dimension))
    for size, group in places.items():
        for other in (size + 1, 2 * size):
            yield dict.fromkeys(group, other)
    for size, group in places.items():
        if len(group) > 1:
            for place in group[:_MOST_ALONE]:
                yield {place: size + 1}


def _path_text(path: Any) -> str:
    return "".join(str(key) for key in path[1:]).strip("[]'") if len(path) == 2 else "".join(map(str, path[1:]))


def _resized(inputs: _Inputs, sizes: Mapping[_Place, int]) -> _Inputs:
    """Return inputs of other sizes. Their tensors hold the example's values in another order."""
    generator = torch.Generator().manual_seed(0)

    def changed(path: Any, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not leaf.numel() or leaf.is_meta:
            return leaf
        text = _path_text(path)
        shape = [sizes.get((text, dimension), size) for dimension, size in enumerate(leaf.shape)]
        flat = leaf.detach().reshape(-1)
        if list(leaf.shape) == shape:
            order = torch.randperm(leaf.numel(), generator=generator)
        else:
            order = torch.randint(0, leaf.numel(), (math.prod(shape),), generator=generator)
        return flat[order.to(leaf.device)].reshape(shape).requires_grad_(leaf.requires_grad)

    return pytree.tree_map_with_path(changed, inputs)  # type: ignore[no-any-return]  # of the same structure


def _other_values(inputs: _Inputs) -> _Inputs:
    """Return inputs of the same sizes with other values, in another order and with another sum."""

    def changed(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.is_meta or not leaf.is_floating_point():
            return leaf
        return leaf.detach().mul(0.5).requires_grad_(leaf.requires_grad)

    return pytree.tree_map(changed, _resized(inputs, {}))  # type: ignore[no-any-return]  # of the same structure


def _differences(expected: Any, obtained: Any, path: str) -> Iterator[str]:
    if isinstance(expected, torch.Tensor) and isinstance(obtained, torch.Tensor):
        if expected.shape != obtained.shape or expected.dtype != obtained.dtype:
            yield (
                f"{path} is {expected.dtype} of shape {list(expected.shape)} in eager, {obtained.dtype} of shape "
                f"{list(obtained.shape)} in the graph"
            )
        elif not _agree(expected, obtained):
            yield f"{path} has other values in the graph than in eager"
        return
    parts, others = _parts(expected), _parts(obtained)
    if parts is None or others is None:
        is_plain = type(expected) in (int, float, bool, str)
        # NaN agrees with NaN.
        if is_plain and expected != obtained and (expected == expected or obtained == obtained):
            yield f"{path} is {expected!r} in eager, {obtained!r} in the graph"
        return
    if parts.keys() != others.keys():
        yield f"{path} has the parts {list(parts)} in eager, {list(others)} in the graph"
        return
    for name, part in parts.items():
        yield from _differences(part, others[name], f"{path}{name}")


def _parts(value: Any) -> dict[str, Any] | None:
    if isinstance(value, dict):
        return {f"[{key!r}]": item for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return {f"[{index}]": item for index, item in enumerate(value)}
    if isinstance(value, torch.Tensor) or not hasattr(value, "__dict__") or isinstance(value, (type, nn.Module)):
        return None
    return {f".{name}": item for name, item in vars(value).items()}


def _agree(expected: torch.Tensor, obtained: torch.Tensor) -> bool:
    if expected.is_meta or not expected.numel():
        return True
    if not (expected.is_floating_point() or expected.is_complex()):
        return bool(torch.equal(expected, obtained))
    tolerance = _TOLERANCE.get(expected.dtype, _ORDINARY_TOLERANCE)
    expected, obtained = expected.detach(), obtained.detach()
    finite = expected[expected.isfinite()].abs()
    scale = float(finite.max()) if finite.numel() else 0.0
    return torch.allclose(expected, obtained, rtol=tolerance, atol=tolerance * scale, equal_nan=True)

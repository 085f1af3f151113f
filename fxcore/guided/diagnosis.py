"""Diagnosis: all obstacles to tracing a model, found in one run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from fxcore.errors import TraceError
from fxcore.guards import Guard
from fxcore.guided.example_tracer import ExampleTracer
from fxcore.guided.leaf_tracer import LeafTracer
from fxcore.tracing.refused_calls import place_of

_MOST_LINES = 20


@dataclass(frozen=True)
class Obstacle:
    """A place in the model's source that stops a trace with an example."""

    module_path: str
    file: str
    line: int
    source: str
    reason: str
    cure: str
    count: int = 1

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" + (f": {self.source}" if self.source else "")
        module = f" (in module {self.module_path!r})" if self.module_path else ""
        times = f" x{self.count}" if self.count > 1 else ""
        return f"{where}{module}{times}\n  {self.reason}\n  {self.cure}"


@dataclass(frozen=True)
class Diagnosis:
    """The result of `diagnose`.

    `obstacles` stop a trace with this example, the most frequent first. `guards` are the places that stop a trace
    without an example.
    """

    obstacles: tuple[Obstacle, ...]
    guards: tuple[Guard, ...]

    @property
    def is_traceable(self) -> bool:
        """Whether the model can be traced with this example."""
        return not self.obstacles

    def __str__(self) -> str:
        lines: list[str] = []
        if not self.obstacles:
            lines.append("nothing stands in the way of a trace with these example inputs")
        for number, each in enumerate(self.obstacles):
            if len(lines) + 3 > _MOST_LINES:
                lines.append(f"and {len(self.obstacles) - number} more places")
                break
            lines += str(each).splitlines()
        asked = [guard for guard in self.guards if guard.file]
        if asked:
            lines.append(f"without example_inputs, {_places(len(asked))} more would stop it, such as {asked[0].place}")
        return "\n".join(lines)


def diagnose(
    root: nn.Module | Callable[..., Any], example_inputs: Any = None, example_kwargs: Mapping[str, Any] | None = None
) -> Diagnosis:
    """Trace a model with an example, go on after each obstacle, and return all obstacles.

    At a branch that depends on the contents of tensors the trace takes the example's branch. A module that fails in its
    forward is recorded as one call. Raises the model's own errors on the example.
    """
    tracer = _DiagnosingTracer()
    positional = () if example_inputs is None else example_inputs
    graph = tracer.trace(root, example_inputs=positional, example_kwargs=example_kwargs)
    counts = Counter((each.file, each.line) for each in tracer.obstacles)
    first = {(each.file, each.line): each for each in reversed(tracer.obstacles)}
    obstacles = [replace(first[place], count=count) for place, count in counts.most_common()]
    return Diagnosis(tuple(obstacles), tuple(guard for guard in graph.guards if not guard.is_assumed))


class _DiagnosingTracer(LeafTracer, ExampleTracer):
    """Notes each obstacle, and goes on."""

    def __init__(self) -> None:
        super().__init__("auto")
        self.obstacles: list[Obstacle] = []

    def note_data_read(self, guard: Guard, reason: str) -> bool:
        """Note a branch that depends on the contents of tensors, and take it as in the example."""
        place = f"{os.path.basename(guard.file)}:{guard.line}"
        assumption = f"assume={{{place!r}: True}}"
        cure = (
            f"torch.where or torch.cond; fxcore.assume(condition), or {assumption}, for the example's branch; or a "
            f"leaf: wrap= for the function, {_leaf_option(guard.module_path)} for the module"
        )
        self.obstacles.append(Obstacle(guard.module_path, guard.file, guard.line, guard.source, reason, cure))
        return True

    def note_leaf(self, module_path: str, error: Exception) -> None:
        """Note a module, or the model itself, that cannot be traced."""
        file, line, source = place_of(error)
        first, _, _ = str(error).partition("\n")
        reason = f"{type(error).__name__}: {first}" if not isinstance(error, TraceError) else first
        cure = f"{_leaf_option(module_path)}, wrap= for the function there, or torch.export.export(model, inputs)"
        self.obstacles.append(Obstacle(module_path, file, line, source, reason, cure))


def _leaf_option(module_path: str) -> str:
    return f"leaf_modules=({module_path!r},)" if module_path else "leaf_modules="


def _places(count: int) -> str:
    return f"{count} place{'s' if count > 1 else ''}"

"""Diagnosis: all obstacles to tracing a model, found in one run."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from fxcore.errors import ExampleError, FxError, LeafError
from fxcore.guards import Guard, place_suffix
from fxcore.guided.example_tracer import ExampleTracer
from fxcore.guided.leaf_tracer import LeafModules, LeafTracer
from fxcore.guided.value_statements import Place, ValueStatements
from fxcore.tracer import module_path_of
from fxcore.tracing.refused_calls import place_of

_MOST_LINES = 20
# Guards that stop no trace without an example: it unpacks a shape by the number of names, and knows the model's state.
_HARMLESS = re.compile(r"len\([^()]*\.shape\) == \d+|(not )?self\.[\w.]+( (==|is) .*)?")
_PLACE = re.compile(r" at (?P<file>[^ :]+):(?P<line>\d+)(: (?P<source>.*?))?(, in what the traced function returns|$)")
_MOST_SECONDS = 0.2  # of a failed trace that is repeated to name the other places
_MOST_STATEMENTS = 30  # the trace starts again for each


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

    @property
    def place(self) -> tuple[str, int]:
        """The file and the line."""
        return self.file, self.line

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}{place_suffix(self.source, self.module_path)}"
        times = f" x{self.count}" if self.count > 1 else ""
        return f"{where}{times}\n  {self.reason}\n  {self.cure}"


@dataclass(frozen=True)
class Diagnosis:
    """The result of `diagnose`.

    `obstacles` stop a trace with this example, the most frequent first. `guards` are the conditions that other inputs
    have to keep; most of them stop a trace without an example.
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
        asked = [guard for guard in self.guards if guard.file and not _HARMLESS.fullmatch(guard.expression)]
        if asked:
            places = f"{len(asked)} place{'s' if len(asked) > 1 else ''}"
            lines.append(f"without example_inputs, {places} more would stop it, such as {asked[0].place}")
        return "\n".join(lines)


def diagnose(
    root: nn.Module | Callable[..., Any], example_inputs: Any = None, example_kwargs: Mapping[str, Any] | None = None
) -> Diagnosis:
    """Trace a model with an example, go on after each obstacle, and return all obstacles.

    At a branch that depends on the contents of tensors the trace takes the example's branch. A statement that cannot be
    traced runs on the example's values, and the trace starts again. Where that does not help, the module is recorded as
    one call. Raises the model's own errors on the example, and ExampleError (a TypeError) if the example does not fit.
    """
    statements: dict[Place, Obstacle] = {}
    is_automatic = False
    while True:
        tracer = _DiagnosingTracer(list(statements), "auto" if is_automatic else ())
        guards: tuple[Guard, ...] = ()
        try:
            positional = () if example_inputs is None else example_inputs
            guards = tuple(tracer.trace(root, example_inputs=positional, example_kwargs=example_kwargs).guards)
        except ExampleError:
            raise
        except FxError as error:
            found = tracer.obstacle_of(error)
            if not is_automatic:
                is_automatic = not found.file or found.place in statements or len(statements) >= _MOST_STATEMENTS
                statements.setdefault(found.place, found)
                continue
            tracer.obstacles.append(found)
        for name in tracer._lifted_paths:  # constants of a graph that nobody gets
            delattr(tracer.root, name)
        counts = Counter(each.place for each in tracer.obstacles) | tracer.statements.runs
        first = {each.place: each for each in reversed(tracer.obstacles)} | statements
        counts |= Counter(dict.fromkeys(statements, 1))
        obstacles = [replace(first[place], count=count) for place, count in counts.most_common()]
        return Diagnosis(tuple(obstacles), tuple(guard for guard in guards if not guard.is_assumed))


def name_other_places(
    error: FxError,
    seconds: float,
    root: nn.Module | Callable[..., Any],
    example_inputs: Any,
    example_kwargs: Mapping[str, Any] | None,
    assume: Mapping[str, Any] | None,
) -> None:
    """Add a line on the other places to the message of a failed trace, which took so many seconds.

    A slow trace is not repeated for it. Its line names `diagnose` alone.
    """
    if isinstance(error, (ExampleError, LeafError)):
        return
    others = "lists every place that stops this trace"
    if seconds < _MOST_SECONDS:
        found = diagnose(root, example_inputs, example_kwargs).obstacles
        assumed = tuple(place for place, wanted in (assume or {}).items() if wanted)
        places = [f"{each.file}:{each.line}" for each in found]
        left = [place for place in places if not place.endswith(assumed)] if assumed else places
        if len(left) < 2:
            return
        others = f"lists all {len(left)} places that stop this trace, each with its cure: {', '.join(left[:3])}"
        others += ", ..." if len(left) > 3 else ""
    error.args = (f"{error}\nprint(fxcore.diagnose(model, example_inputs)) {others}", *error.args[1:])


class _DiagnosingTracer(LeafTracer, ExampleTracer):
    """Notes each obstacle, and goes on. Chosen statements run on the example's values."""

    def __init__(self, places: list[Place], leaf_modules: LeafModules) -> None:
        super().__init__(leaf_modules)
        self.statements = ValueStatements(self, places)
        self.obstacles: list[Obstacle] = []

    def _run(self, call: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]) -> Any:
        with self.statements:
            return super()._run(call, arguments, keywords)

    def refuse_computed(self, tensor: torch.Tensor) -> None:
        """Refuse a constant that was computed from the example, unless statements ran on the example."""
        if not self.statements.runs:
            super().refuse_computed(tensor)

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
        self.obstacles.append(self.obstacle_of(error, module_path))

    def obstacle_of(self, error: Exception, module_path: str | None = None) -> Obstacle:
        """Return the obstacle that an error tells of. Its module is the innermost one that ran."""
        raised: BaseException = error
        while raised.__cause__ is not None and place_of(raised.__cause__)[0]:
            raised = raised.__cause__
        if module_path is None:
            module_path = module_path_of(raised.__traceback__)
        file, line, source = place_of(raised)
        first, _, _ = str(error).partition("\n")
        if not file and (told := _PLACE.search(first)) is not None:  # an error about the result of forward
            file, line, source = told["file"], int(told["line"]), told["source"] or ""
        reason = first.partition(f" at {file}:")[0] if file else first
        if not isinstance(error, FxError):
            reason = f"{type(error).__name__}: {reason}"
        cure = f"{_leaf_option(module_path)}, wrap= for the function there, or torch.export.export(model, inputs)"
        return Obstacle(module_path, file, line, source, reason, cure)


def _leaf_option(module_path: str) -> str:
    return f"leaf_modules=({module_path!r},)" if module_path else "leaf_modules="

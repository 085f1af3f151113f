"""The application of one pass to a graph, by the pass's own signature."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

import fxcore
from pytest_fxgraph.captures.inductor_context import is_inductor_pass, run_inductor_pass, virtualized_fake_mode
from pytest_fxgraph.captures.subjects import is_exported_program, is_graph, is_torch_graph_module, to_graph_module
from pytest_fxgraph.equivalence.check import GraphCall
from pytest_fxgraph.equivalence.exported_call import called_as_module, owner_of, with_graph_module
from pytest_fxgraph.equivalence.run import InterpreterCall
from pytest_fxgraph.errors import SubjectError
from pytest_fxgraph.report.printable import printable_line
from pytest_fxgraph.transform.program_sets import is_program_set, program_at, programs_in, with_programs

# The argument of a pass, from the smallest to the largest.
Form = Literal["graph", "module", "program", "programs"]

_BY_ANNOTATION: dict[str, Form] = {
    "Graph": "graph",
    "GraphModule": "module",
    "Module": "module",
    "ExportedProgram": "program",
    "EdgeProgramManager": "programs",
}
_BY_NAME: dict[str, Form] = {
    **dict.fromkeys(("gm", "graph_module", "module", "mod"), "module"),
    **dict.fromkeys(("ep", "program", "exported_program", "exported", "edge_program"), "program"),
}
_GRAPH_MODULES = {("fxcore.graph_module", "GraphModule"), ("torch.fx.graph_module", "GraphModule")}
_INTERPRETERS = ("fxcore.interpreter", "torch.fx.interpreter")


@dataclass(frozen=True)
class Applied:
    """The result of one pass."""

    made: Any  # the input of the next pass: a graph module, an exported program, or a set of programs
    call: Callable[..., Any] | None = None  # runs `made` if `made` does not: an interpreter, or a module of the user's
    modified: bool | None = None  # the claim of the pass, if it makes one

    @property
    def has_own_graph(self) -> bool:
        """Return whether a call runs the graph itself."""
        return self.call is None or self.call is self.made

    def graph_call(self, made: Any) -> GraphCall:
        """Return the function that runs a graph module or program of the pass, with the holder of its state."""
        graph = called_as_module(made)
        call = self.call or graph
        readable = None if isinstance(graph, fxcore.GraphModule) else to_graph_module(graph)
        return GraphCall(call if isinstance(call, nn.Module) else graph, call, readable)


def steps_of(transform: Any) -> list[tuple[str, Any]]:
    """List one transform, or the transforms of a list, with their names.

    Raises SubjectError for an empty list and for objects that cannot be called.
    """
    steps = list(transform) if isinstance(transform, (list, tuple)) else [transform]
    if not steps:
        raise SubjectError("an empty list of transforms checks nothing; hand over at least one")
    for step in steps:
        if not (callable(step) or is_inductor_pass(step)):
            raise SubjectError(
                f"{step!r} is no transform: expected a function of a GraphModule, a Transformer or Interpreter class, "
                "a pass, or a list of these"
            )
    return [(name_of_step(step), step) for step in steps]


def name_of_step(step: Any) -> str:
    """Return the name of a transform in one line: of the function, or of the class."""
    function = getattr(step, "func", step)  # of a functools.partial
    if is_inductor_pass(function):
        function = getattr(function, "__self__", function)  # of a PatternMatcherPass's method `apply`
    try:
        name = getattr(function, "__name__", None) or getattr(function, "pass_name", None)
    except Exception:  # a property of the user's
        name = None
    return printable_line(str(name or type(function).__name__))


def apply_step(step: Any, given: Any, form: Form | None = None) -> Applied:
    """Apply one transform to a graph module, exported program or set of programs; the transform may change it.

    The annotation or the name of its first parameter names the part that the transform gets. Otherwise the transform
    gets `form`, or the whole without a form. Raises SubjectError if it asks for more, or returns no graph.
    """
    if is_program_set(given):
        return _applied_to_programs(step, given)
    if is_exported_program(given):
        return _applied_to_program(step, given)
    return _applied_to_module(step, given, form or "module")


def _applied_to_programs(step: Any, given: Any) -> Applied:
    if _form_asked_for(step, "programs") == "programs":
        made, modified = _unpacked(step(given), given)
        if not is_program_set(made):
            raise _wrong_result(step, made)
        return Applied(made, None, modified)
    each = {name: apply_step(step, program_at(given, name)) for name in programs_in(given)}
    claims = [applied.modified for applied in each.values() if applied.modified is not None]
    made = with_programs(given, {name: applied.made for name, applied in each.items()})
    return Applied(made, None, any(claims) if claims else None)


def _applied_to_program(step: Any, given: Any) -> Applied:
    kind = _interpreter_kind(step, given.graph_module)
    if kind == "Interpreter":
        return Applied(given, InterpreterCall(step, called_as_module(given)))
    is_of_module = kind == "Transformer" or is_inductor_pass(step)
    if is_of_module or _form_asked_for(step, "program") in ("module", "graph"):
        applied = _applied_to_module(step, given.graph_module)
        if applied.call is not None:
            raise _wrong_result(step, applied.call)
        return Applied(with_graph_module(given, applied.made), None, applied.modified)
    made, modified = _unpacked(step(given), given)
    return Applied(made, None, modified) if is_exported_program(made) else _of_module(step, made, modified, given)


def _applied_to_module(step: Any, given: Any, form: Form = "module") -> Applied:
    kind = _interpreter_kind(step, given)
    if kind == "Interpreter":
        return Applied(given, InterpreterCall(step, given))
    if kind == "Transformer":
        return _of_module(step, step(given).transform(), None, given)
    if is_inductor_pass(step):
        return Applied(run_inductor_pass(step, given, name_of_step(step)))
    form = _form_asked_for(step, form)
    if form in ("program", "programs"):
        raise SubjectError(
            f"{name_of_step(step)} asks for an exported program, and it is given a graph module; hand over the result "
            "of torch.export.export(), or the module with trace='export'"
        )
    with virtualized_fake_mode(given):  # a pass of the user's may apply patterns of Inductor
        made, modified = _unpacked(step(given.graph if form == "graph" else given), given)
    if form == "graph":
        given.recompile()  # a pass of a graph cannot recompile, because it does not get the module
    return _of_module(step, made, modified, given)


def _unpacked(made: Any, given: Any) -> tuple[Any, bool | None]:
    """Return the graph and the `modified` flag of a PassResult of any library."""
    modified: bool | None = None
    if hasattr(made, "graph_module") and hasattr(made, "modified"):
        made, modified = made.graph_module, bool(made.modified)
    return (given if made is None else made), modified


def _of_module(step: Any, made: Any, modified: bool | None, given: Any) -> Applied:
    if isinstance(made, fxcore.GraphModule) or is_torch_graph_module(made) or is_exported_program(made):
        return Applied(made, None, modified)
    if is_graph(made):
        if made is getattr(given, "graph", None):
            return Applied(given, None, modified)
        return Applied(_with_modules_of(given, made), None, modified)
    if isinstance(made, nn.Module):
        return Applied(to_graph_module(made), made, modified)
    raise _wrong_result(step, made)


def _with_modules_of(given: Any, graph: Any) -> Any:
    if isinstance(graph, fxcore.Graph) is not isinstance(given, fxcore.GraphModule):
        return owner_of(graph)
    base = next(kind for kind in type(given).__mro__ if (kind.__module__, kind.__qualname__) in _GRAPH_MODULES)
    return base(given, graph)


def _wrong_result(step: Any, made: Any) -> SubjectError:
    return SubjectError(
        f"{name_of_step(step)} returned {type(made).__name__}; a transform returns a module, a graph, an exported "
        "program if it was given one, a PassResult, or None after changing what it was given"
    )


def _interpreter_kind(step: Any, given: Any) -> str | None:
    """Return "Transformer" or "Interpreter" for a class of these.

    Raises SubjectError if it is one of torch.fx and the graph one of fxcore, or the other way round.
    """
    if not isinstance(step, type):
        return None
    found = next((base for base in step.__mro__ if base.__module__ in _INTERPRETERS), None)
    if found is None:
        return None
    is_of_torch = found.__module__ == "torch.fx.interpreter"
    if is_of_torch is isinstance(given, fxcore.GraphModule):
        package, way = ("torch.fx", "torch") if is_of_torch else ("fxcore", "fxcore")
        raise SubjectError(
            f"{step.__name__} is a {found.__name__} of {package}, and the graph that it is given is none of {package}; "
            f"have the module traced with trace={way!r}"
        )
    return found.__name__


def _form_asked_for(step: Any, default: Form) -> Form:
    """Return the form that a pass takes, by the annotation or the name of its first parameter."""
    try:
        parameters = list(inspect.signature(step).parameters.values())
    except (TypeError, ValueError):  # a builtin
        return default
    first = next(iter(parameters), None)
    if first is None:
        return default
    annotation = first.annotation
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    if annotation is inspect.Parameter.empty or text.rpartition(".")[2] in ("Any", "object"):
        return default if default in ("graph", "module") else _BY_NAME.get(first.name, default)
    asked = {_BY_ANNOTATION[word] for word in re.findall(r"\w+", text) if word in _BY_ANNOTATION}
    return asked.pop() if len(asked) == 1 else default

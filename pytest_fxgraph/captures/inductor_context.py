"""The context that passes of Inductor run in: a virtualized fake mode, and arguments by the names of parameters."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

from torch.utils import _pytree as pytree

import fxcore
from fxcore import interop
from pytest_fxgraph.captures.torch_internals import InternalsError, part_of_torch
from pytest_fxgraph.errors import SubjectError
from pytest_fxgraph.report.printable import printable_line

_INDUCTOR = "torch._inductor"
_NEEDED_FOR = "the context of Inductor's passes"
_MODULE_NAMES = ("gm", "graph_module", "module", "mod")
_MARK = "mutation_region_id"  # written by the pattern matcher into the meta of every node
_OF_POST_GRAD = {"fake_tensor_updater", "is_inference"}  # parameters of passes that change nothing without `val`
_REGISTRIES = ("_parameters", "_buffers", "_modules")


def is_inductor_pass(step: Any) -> bool:
    """Return whether a pass is a function of torch._inductor, or an object or method of one of its classes."""
    if _INDUCTOR not in sys.modules or isinstance(step, type):
        return False
    while isinstance(step, partial):
        step = step.func
    if isinstance(step, (MethodType, BuiltinMethodType)):
        step = step.__self__
    owners = [step] if isinstance(step, FunctionType) else type(step).__mro__
    return any(f"{getattr(owner, '__module__', '')}.".startswith(f"{_INDUCTOR}.") for owner in owners)


@contextlib.contextmanager
def virtualized_fake_mode(graph_module: Any) -> Iterator[Any]:
    """Set the fake mode of a graph's `val` as Inductor's own in a with block, and yield it.

    At the end the pattern matcher's marks are removed, because a pass without a match must leave the graph unchanged.
    Yields None, and sets nothing, for a graph of fxcore, for a graph without fake tensors in `val`, and before
    something imported Inductor.
    """
    mode = None
    if f"{_INDUCTOR}.virtualized" in sys.modules and not isinstance(graph_module, fxcore.GraphModule):
        mode = _fake_mode_of(graph_module)
    if mode is None:
        yield None
        return
    virtualized = part_of_torch(f"{_INDUCTOR}.virtualized", "V", _NEEDED_FOR)
    try:
        with virtualized.set_fake_mode(mode):
            yield mode
    finally:
        _remove_marks(graph_module)


def _remove_marks(graph_module: Any) -> None:
    for node in graph_module.graph.nodes:
        node.meta.pop(_MARK, None)


def _fake_mode_of(graph_module: Any) -> Any:
    fake_tensor = part_of_torch("torch._subclasses.fake_tensor", "FakeTensor", _NEEDED_FOR)
    values = pytree.tree_leaves([node.meta.get("val") for node in graph_module.graph.nodes])
    return next((value.fake_mode for value in values if isinstance(value, fake_tensor)), None)


def run_inductor_pass(step: Any, given: Any, name: str) -> Any:
    """Run a pass of Inductor on a graph module, recompile, and return the graph module with the pass's graph.

    The pass gets the arguments that its parameters name; its count of matches is dropped. Inductor changes graphs of
    torch.fx only, therefore a graph of fxcore is converted, and takes over the graph that the pass leaves. Raises
    SubjectError for a parameter that no graph tells, and if a pass fails on a graph without `val`.
    """
    module = interop.to_torch(given, nested=True) if isinstance(given, fxcore.GraphModule) else given
    function = step if callable(step) else step.apply
    part_of_torch(f"{_INDUCTOR}.virtualized", "V", _NEEDED_FOR)  # loads the module
    text = str(module.graph)
    with virtualized_fake_mode(module) as mode:
        if mode is None and _OF_POST_GRAD.intersection(inspect.signature(function).parameters):
            raise _values_missing(name, "the pass reads it")
        try:
            returned = function(**_arguments(function, module, name))
        except (SubjectError, InternalsError):
            raise
        except Exception as error:
            if mode is not None:
                raise
            reason = printable_line(str(error).partition("\n")[0])
            raise _values_missing(name, f"the pass failed with {type(error).__name__}: {reason}") from error
    made = returned if hasattr(returned, "graph") and hasattr(returned, "recompile") else module
    _remove_marks(made)
    is_changed = str(made.graph) != text
    if is_changed:
        # Inductor sorts a graph, and drops its unused nodes, after several passes together.
        part_of_torch(f"{_INDUCTOR}.pattern_matcher", "stable_topological_sort", _NEEDED_FOR)(made.graph)
        made.graph.eliminate_dead_code()
    _recompile(made, name)
    return _taken_over(given, made, is_changed=is_changed) if isinstance(given, fxcore.GraphModule) else made


def _values_missing(name: str, reason: str) -> SubjectError:
    remedy = "Hand over a graph that has `val`: fx_capture(model, inputs, frontend='aot').graphs[0]"
    if "tensor_meta" in reason:
        remedy = "Record meta['tensor_meta'] first: torch.fx.passes.shape_prop.ShapeProp(gm).propagate(*inputs)"
    return SubjectError(
        f"cannot run {name}, a pass of Inductor: no node of the graph has a fake tensor in meta['val'], and {reason}. "
        f"{remedy}; frontends 'make_fx' and 'inductor' record both"
    )


def _recompile(made: Any, name: str) -> None:
    try:
        made.recompile()
    except SyntaxError as error:
        raise SubjectError(
            f"cannot run the graph that {name}, a pass of Inductor, left: a call of it has no form in Python, because "
            "the pass is one step of another pass. Check the pass that calls it, such as reinplace_inplaceable_ops"
        ) from error


def _arguments(function: Callable[..., Any], module: Any, name: str) -> dict[str, Any]:
    """Return the arguments of a pass's parameters without default."""
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {
        parameter.name: _argument(parameter, module, name)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is inspect.Parameter.empty and parameter.kind not in variable
    }


def _argument(parameter: inspect.Parameter, module: Any, name: str) -> Any:
    annotation = str(getattr(parameter.annotation, "__name__", parameter.annotation))
    if "GraphModule" in annotation or parameter.name in _MODULE_NAMES:
        return module
    if parameter.name == "graph" or annotation.rpartition(".")[2].strip("'") == "Graph":
        return module.graph
    if parameter.name == "fake_tensor_updater":
        updater = part_of_torch(f"{_INDUCTOR}.fx_utils", "FakeTensorUpdater", _NEEDED_FOR)
        return updater(**_arguments(updater, module, name))
    if parameter.name == "is_inference":
        return True
    values = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
    if parameter.name == "example_inputs" and all(value is not None for value in values):
        return values
    raise SubjectError(
        f"cannot call {name}, a pass of Inductor: it asks for {parameter.name!r}, and the graph does not tell it; "
        f"bind the argument: functools.partial({name}, {parameter.name}=...)"
    )


def _taken_over(given: fxcore.GraphModule, changed: Any, *, is_changed: bool) -> fxcore.GraphModule:
    """Give a graph module of fxcore the state of a module of torch.fx, and its graph if a pass changed that."""
    made: Any = interop.from_torch(changed)
    state = vars(made)
    given.__dict__.update({name: state[name] for name in state if name in _REGISTRIES or name not in vars(given)})
    if is_changed:
        given.graph = made.graph
    return given

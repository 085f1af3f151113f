"""The subject of passes: a model that is traced, or a graph that a pass gets as it is, and their copies.

Copies are whole or share tensors, so that a pass does not change the user's own graph.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any

import torch
from torch import nn

import fxcore
from pytest_fxgraph.arguments import TRACES
from pytest_fxgraph.captures.capture import Capture
from pytest_fxgraph.captures.choice import runnable_by
from pytest_fxgraph.captures.subjects import FunctionModule, is_exported_program, is_graph, is_torch_graph_module
from pytest_fxgraph.captures.tracing import trace as trace_by_fxcore
from pytest_fxgraph.captures.tracing import trace_for_inputs
from pytest_fxgraph.captures.tracing_failure import describe_failure, name_of
from pytest_fxgraph.captures.train_step import TrainStep
from pytest_fxgraph.equivalence.exported_call import owner_of, refuse_lifted
from pytest_fxgraph.equivalence.inputs import Arguments, arguments_of
from pytest_fxgraph.errors import CaptureError, ChoiceError, SubjectError
from pytest_fxgraph.transform.passes import Form
from pytest_fxgraph.transform.program_sets import is_program_set, program_at, programs_in, with_programs


@dataclass(frozen=True)
class PassSubject:
    """The model or graph that a test hands over."""

    model: Any  # of a graph without its module, that module
    trace: str | None
    concrete_args: dict[str, Any] | None
    inplace: bool
    form: Form | None = None  # for a pass without an annotation; None for the whole

    @staticmethod
    def of(model: Any, trace: str | None, concrete_args: dict[str, Any] | None, inplace: bool) -> PassSubject:
        """Take a test's model or graph; raise ChoiceError for options that do not fit it."""
        if trace is not None and trace not in TRACES:
            raise ChoiceError(f"trace must be one of {', '.join(map(repr, TRACES))}, got {trace!r}")
        if trace == "export" and concrete_args:
            raise ChoiceError("concrete_args are for symbolic tracing; with trace='export', give the values as inputs")
        if inplace and isinstance(model, TrainStep):
            raise ChoiceError("inplace=True needs a copy, and a copy of an optimizer has no hooks; leave it out")
        if isinstance(model, Capture):
            model = _only_graph(model)
        is_lone = is_graph(model)
        made = PassSubject(owner_of(model) if is_lone else model, trace, concrete_args, inplace)
        for name, option in (("trace", trace), ("concrete_args", concrete_args)):
            if option and (is_lone or made.is_graph):
                raise ChoiceError(f"{name} is for modules that are traced, and a {name_of(model)} is a graph already")
        return replace(made, form="graph") if is_lone else made

    @property
    def is_graph(self) -> bool:
        """Return whether passes get the subject itself, because it is a graph."""
        model = self.model
        if is_exported_program(model) or is_program_set(model):
            return True
        return self.trace is None and (isinstance(model, fxcore.GraphModule) or is_torch_graph_module(model))

    def arguments_by_program(self, inputs: Any, kwargs: Mapping[str, Any] | None) -> dict[str, Arguments]:
        """Return the inputs by the name of the program that takes them; of one graph, under "".

        Raises SubjectError for a program that there is not, and for the graph module of a program without its inputs.
        """
        if not is_program_set(self.model):
            arguments = arguments_of(inputs, kwargs)
            refuse_lifted(self.model, arguments)
            return {"": arguments}
        names = programs_in(self.model)
        if not isinstance(inputs, Mapping):
            if len(names) > 1:
                raise SubjectError(
                    f"a {name_of(self.model)} with {len(names)} programs takes inputs by name: "
                    f"inputs={{{', '.join(f'{name!r}: ...' for name in names)}}}, or of some of them"
                )
            return {names[0]: arguments_of(inputs, kwargs)}
        unknown = [name for name in inputs if name not in names]
        if unknown or not inputs:
            raise SubjectError(
                f"inputs name {', '.join(map(repr, unknown)) or 'no program'}, and the {name_of(self.model)} has "
                f"{', '.join(map(repr, names))}"
            )
        return {name: arguments_of(values) for name, values in inputs.items()}

    def reference(self) -> Any:
        """Return the reference for the result: the model, or a copy of a model that may be changed."""
        if not self.inplace:
            return self.model
        return copied(self.model) if self.is_graph else copy.deepcopy(self.model)

    def graphs(self, reference: Any, arguments: Arguments) -> tuple[Any, Any]:
        """Return the graph from before, for the result, and the graph for the first pass."""
        if self.is_graph:
            return reference, self.model if self.inplace else copied(self.model)
        traced = self._traced(reference, arguments)
        return with_own_graph(traced), self._traced(self.model, arguments) if self.inplace else traced

    def _traced(self, model: Any, arguments: Arguments) -> Any:
        if self.trace is None and isinstance(model, TrainStep):
            return runnable_by("make_fx", model, arguments.args, arguments.kwargs)
        if self.trace in (None, "fxcore"):
            if self.concrete_args:
                return trace_by_fxcore(model, concrete_args=self.concrete_args)
            return trace_for_inputs(model, arguments.args, arguments.kwargs, verify=False)
        try:
            if self.trace == "torch":
                return torch.fx.symbolic_trace(model, self.concrete_args)
            module = model if isinstance(model, nn.Module) else FunctionModule(model)
            return torch.export.export(module, arguments.args, arguments.kwargs or None, strict=False)
        except Exception as error:
            raise CaptureError(describe_failure(model, error)) from error


def _only_graph(capture: Capture) -> Any:
    if len(capture.graphs) == 1:
        return capture.graphs[0]
    raise SubjectError(
        f"a capture with {len(capture.graphs)} graphs is no subject for a transform; hand over one of its `.graphs` "
        "with the inputs of that graph"
    )


# Copies of graphs.

_Memo = dict[int, Any]
_REGISTRIES = ("_parameters", "_buffers", "_modules")
# These are copied for the new module; other attributes (shape environments, functions, trees) are shared.
_COPIED = (torch.Tensor, nn.Module, dict, list, set, tuple, MethodType)


def copied(subject: Any) -> Any:
    """Return a copy of a graph module, exported program or set of programs that shares nothing that a pass may change.

    Names, order and meta of the nodes are kept; the values in meta (fake tensors, symbolic sizes) are shared, as they
    belong together across graphs. Raises SubjectError if a parameter, buffer or module cannot be copied.
    """
    return _copied(subject, {})


def with_own_graph(subject: Any) -> Any:
    """Return a copy that has nodes of its own and shares parameters, buffers, constants and modules."""
    if isinstance(subject, fxcore.GraphModule):
        return fxcore.GraphModule(subject, copy.deepcopy(subject.graph))
    root = subject.graph_module if is_exported_program(subject) else subject
    held = [tensor for part in root.modules() for tensor in (*part._parameters.values(), *part._buffers.values())]
    held += [value for value in vars(root).values() if isinstance(value, torch.Tensor)]
    held += [part for part in root.modules() if part is not root]
    if is_exported_program(subject):
        held += [*subject.state_dict.values(), *subject.constants.values()]
    return _copied(subject, {id(value): value for value in held})


def _copied(subject: Any, memo: _Memo) -> Any:
    if is_program_set(subject):
        programs = {name: _copied(program_at(subject, name), memo) for name in programs_in(subject)}
        return with_programs(subject, programs)
    if is_exported_program(subject):
        return _copied_program(subject, memo)
    if is_torch_graph_module(subject):
        return _copied_graph_module(subject, memo)
    return _deep(subject, memo, type(subject).__name__)


def _copied_program(program: Any, memo: _Memo) -> Any:
    made = copy.copy(program)
    made._graph_module = _copied_graph_module(program.graph_module, memo)
    made._state_dict = {name: _deep(value, memo, name) for name, value in program.state_dict.items()}
    made._constants = {name: _shared_if_needed(value, memo) for name, value in program.constants.items()}
    made._graph_signature = _shared_if_needed(program.graph_signature, memo)
    made._module_call_graph = _shared_if_needed(program.module_call_graph, memo)
    made._range_constraints = dict(program.range_constraints)
    return made


def _copied_graph_module(module: Any, memo: _Memo) -> Any:
    """Copy a whole graph module of torch.fx; its own __deepcopy__ leaves out attributes without a node."""
    for part in reversed(list(module.modules())):
        if part is not module and is_torch_graph_module(part) and id(part) not in memo:
            memo[id(part)] = _copied_graph_module(part, memo)
    kind: Any = type(module)
    made = memo[id(module)] = kind.__new__(kind)
    for name, value in vars(module).items():
        if name in _REGISTRIES:
            made.__dict__[name] = {key: _deep(each, memo, key) for key, each in value.items()}
        elif name != "_graph":
            made.__dict__[name] = _shared_if_needed(value, memo)
    graph = copy.deepcopy(module.graph)
    for node, original in zip(graph.nodes, module.graph.nodes, strict=True):
        node.name = original.name  # torch gives a copy of `input` another name, and the signature names nodes
        node.meta = {key: copy.copy(value) if type(value) in (dict, list, set) else value
                     for key, value in original.meta.items()}  # fmt: skip
    made.graph = graph
    return made


def _deep(value: Any, memo: _Memo, name: str) -> Any:
    try:
        return copy.deepcopy(value, memo)
    except Exception as error:
        raise SubjectError(
            f"cannot copy {name} for the pass, which may change what it is given: {type(error).__name__}: {error}. "
            "Hand over a graph that copy.deepcopy() can copy"
        ) from error


def _shared_if_needed(value: Any, memo: _Memo) -> Any:
    """Copy a value if it is a container, tensor or module that can be copied; else return it itself."""
    if not isinstance(value, _COPIED) and not type(value).__module__.startswith("torch.export"):
        return value
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # a script object, a lock: nothing that a pass changes
        return copy.copy(value) if isinstance(value, (dict, list, set)) else value

"""The subject of passes: a model that is traced, or a graph that a pass gets as it is."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

import fxcore
from pytest_fxgraph.captures.capture import Capture
from pytest_fxgraph.captures.choice import runnable_by
from pytest_fxgraph.captures.subjects import FunctionModule, is_exported_program, is_graph, is_torch_graph_module
from pytest_fxgraph.captures.tracing import trace as trace_by_fxcore
from pytest_fxgraph.captures.tracing import trace_for_inputs
from pytest_fxgraph.captures.tracing_failure import describe_failure, name_of
from pytest_fxgraph.captures.train_step import TrainStep
from pytest_fxgraph.choices import TRACES
from pytest_fxgraph.equivalence.exported_call import owner_of, refuse_lifted
from pytest_fxgraph.equivalence.inputs import Arguments, arguments_of
from pytest_fxgraph.errors import CaptureError, SubjectError
from pytest_fxgraph.transform.graph_copies import copied, with_own_graph
from pytest_fxgraph.transform.passes import Form
from pytest_fxgraph.transform.program_sets import is_program_set, programs_in


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
        """Take a test's model or graph; raise ValueError for options that do not fit it."""
        if trace is not None and trace not in TRACES:
            raise ValueError(f"trace must be one of {', '.join(map(repr, TRACES))}, got {trace!r}")
        if trace == "export" and concrete_args:
            raise ValueError("concrete_args are for symbolic tracing; with trace='export', give the values as inputs")
        if inplace and isinstance(model, TrainStep):
            raise ValueError("inplace=True needs a copy, and a copy of an optimizer has no hooks; leave it out")
        if isinstance(model, Capture):
            model = _only_graph(model)
        is_lone = is_graph(model)
        made = PassSubject(owner_of(model) if is_lone else model, trace, concrete_args, inplace)
        for name, option in (("trace", trace), ("concrete_args", concrete_args)):
            if option and (is_lone or made.is_graph):
                raise ValueError(f"{name} is for modules that are traced, and a {name_of(model)} is a graph already")
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

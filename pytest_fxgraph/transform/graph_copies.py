"""Copies of graphs, whole or with shared tensors, so that a pass does not change the user's own graph."""

from __future__ import annotations

import copy
from types import MethodType
from typing import Any

import torch
from torch import nn

import fxcore
from pytest_fxgraph.captures.subjects import is_exported_program, is_torch_graph_module
from pytest_fxgraph.errors import SubjectError
from pytest_fxgraph.transform.program_sets import is_program_set, program_at, programs_in, with_programs

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

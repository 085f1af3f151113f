"""Graphs of `.onnx` files, for the extra `onnx`. Nothing in a file is executed, and the graph does not run."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

import fxcore
from pytest_fxgraph.errors import ArchiveError

_NO_NAME = re.compile(r"\W+")
_MOST_LISTED = 64  # elements of a tensor of whole numbers that stands as a list among the arguments


def onnx_graph(path: str | os.PathLike[str]) -> fxcore.GraphModule:
    """Return the graph of an ONNX model: operators as functions (`onnx.Conv`), weights as buffers, shapes as inferred.

    Small tensors of whole numbers, such as the shape of a Reshape, are lists. A value has a shape if all its sizes are
    numbers. Raises ArchiveError if the package onnx is missing, or for a file that it cannot read.
    """
    try:
        import onnx
    except ImportError:
        raise ArchiveError(
            f"cannot read {os.fspath(path)}: a .onnx file is read by the package onnx, which is not installed; "
            "pip install 'pytest-fxgraph[onnx]'"
        ) from None
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
        return _GraphMaker(onnx.shape_inference.infer_shapes(model).graph).made({})
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ArchiveError(
            f"cannot read {os.fspath(path)}: onnx {onnx.__version__} does not read it: {reason}; "
            "try onnx.checker.check_model in Python"
        ) from error


class _GraphMaker:
    """Makes one graph; graphs inside it, the branches of an If, become modules of its root."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._root = nn.Module()
        self._graph = fxcore.Graph()
        self._values: dict[str, Any] = {"": None}  # nodes, and lists of whole numbers, by ONNX name
        self._shown = {each.name: each for each in (*source.value_info, *source.input, *source.output)}

    def made(self, outer: Mapping[str, Any]) -> fxcore.GraphModule:
        """Make the graph. Values of the graph around it, by name, become inputs where they are read."""
        for initializer in self._source.initializer:
            self._add_tensor(initializer)
        for each in self._source.input:
            if each.name not in self._values:
                self._keep(each.name, self._graph.placeholder(_python_name(each.name)))
        for name in _names_read(self._source):
            if name in outer and name not in self._values:
                self._values[name] = self._graph.placeholder(_python_name(name))
        for number, node in enumerate(self._source.node):
            self._add_call(node, number)
        results = tuple(self._values[each.name] for each in self._source.output)
        self._graph.output(results[0] if len(results) == 1 else results)
        return fxcore.GraphModule(self._root, self._graph)

    def _add_tensor(self, initializer: Any) -> None:
        tensor = _tensor_of(initializer)
        if not tensor.is_floating_point() and tensor.numel() <= _MOST_LISTED and tensor.dim() <= 1:
            self._values[initializer.name] = tensor.tolist()
            return
        *owners, name = [_python_name(part) for part in initializer.name.split(".")]
        owner = self._root
        for part in owners:
            if not isinstance(getattr(owner, part, None), nn.Module):
                setattr(owner, part, nn.Module())
            owner = getattr(owner, part)
        while hasattr(owner, name):
            name += "_"
        owner.register_buffer(name, tensor)
        self._keep(initializer.name, self._graph.get_attr(".".join((*owners, name))))

    def _add_call(self, node: Any, number: int) -> None:
        arguments = [self._values[name] for name in node.input]
        keywords = {each.name: self._attribute(each, f"{node.op_type}_{number}", arguments) for each in node.attribute}
        call = self._graph.call_function(_function(node.domain, node.op_type), tuple(arguments), keywords)
        if len(node.output) == 1:
            self._keep(node.output[0], call)
            return
        for place, name in enumerate(node.output):
            if name:
                self._keep(name, self._graph.call_function(operator.getitem, (call, place)))

    def _attribute(self, attribute: Any, place: str, arguments: list[Any]) -> Any:
        """Return the value of an attribute. A graph is a module, and the values that it reads become arguments."""
        import onnx

        if attribute.type == onnx.AttributeProto.GRAPH:
            path = f"{place}_{attribute.name}"
            self._root.add_module(path, _GraphMaker(attribute.g).made(self._values))
            inside = {each.name for each in (*attribute.g.input, *attribute.g.initializer)}
            arguments += [
                self._values[name] for name in _names_read(attribute.g) if name in self._values.keys() - inside
            ]
            return self._graph.get_attr(path)
        value = onnx.helper.get_attribute_value(attribute)
        if attribute.type == onnx.AttributeProto.TENSOR:
            tensor = _tensor_of(value)
            return tensor.tolist() if tensor.numel() <= _MOST_LISTED else repr(tensor.shape)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        return [*value] if attribute.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS) else value

    def _keep(self, name: str, node: fxcore.Node) -> None:
        """Remember a value, with its shape if all sizes are numbers."""
        self._values[name] = node
        found = self._shown[name].type.tensor_type if name in self._shown else None
        sizes = [size.dim_value if size.HasField("dim_value") else -1 for size in found.shape.dim] if found else [-1]
        if found is not None and found.HasField("shape") and min(sizes, default=0) >= 0:
            node.meta["val"] = torch.empty(sizes, dtype=_dtype_of(found.elem_type), device="meta")


def _names_read(graph: Any) -> list[str]:
    """List the names that the nodes of a graph read and no node of it makes, also in graphs inside of it."""
    made = {name for node in graph.node for name in node.output}
    inner = [
        name for node in graph.node for each in node.attribute if each.HasField("g") for name in _names_read(each.g)
    ]
    read = [*(name for node in graph.node for name in node.input), *inner, *(each.name for each in graph.output)]
    return [name for name in dict.fromkeys(read) if name and name not in made]


def _tensor_of(source: Any) -> torch.Tensor:
    from onnx import numpy_helper

    array = numpy_helper.to_array(source)
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("uint16").copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def _dtype_of(kind: int) -> torch.dtype:
    from onnx import helper

    name = helper.tensor_dtype_to_np_dtype(kind).name
    return getattr(torch, name) if name != "object" else torch.uint8  # texts have no dtype in torch


def _python_name(name: str) -> str:
    found = _NO_NAME.sub("_", name)
    return found if found.isidentifier() else f"_{found}"


_FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {}


def _function(domain: str, name: str) -> Callable[..., Any]:
    """Return the function that stands for an operator; it raises ArchiveError when it is called."""
    key = (domain if domain != "ai.onnx" else "", name)
    if key not in _FUNCTIONS:

        def call(*args: Any, **kwargs: Any) -> Any:
            raise ArchiveError(
                f"cannot run {call.__module__}.{name}: the graph of a .onnx file is compared, counted and drawn, and "
                "torch has no operators of ONNX; run the file by onnxruntime"
            )

        call.__name__ = call.__qualname__ = name
        call.__module__ = f"onnx.{key[0]}" if key[0] else "onnx"
        _FUNCTIONS[key] = call
    return _FUNCTIONS[key]

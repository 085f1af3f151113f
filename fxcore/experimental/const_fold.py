"""Constant folding: values that depend only on parameters and buffers are computed once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch
from torch import nn

from fxcore._symbolic_trace import symbolic_trace
from fxcore.errors import GraphArgumentError
from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.passes.split_module import split_module
from fxcore.transforms.inlining import inline_call

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]

_CONSTANT, _REST = "submod_0", "submod_1"


class FoldedGraphModule(GraphModule):
    """A graph module that runs a second, constant graph before its first call and keeps the results as parameters."""

    def __init__(
        self,
        root: nn.Module,
        graph: Graph,
        const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None,
        device_for_folded_attrs: str = "cuda",
    ) -> None:
        """Make a module of `graph` that reads the results of `const_subgraph`, if any, at the attribute named."""
        super().__init__(root, graph)
        self.const_subgraph_module = None if const_subgraph is None else GraphModule(root, const_subgraph)
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph; before the first run, run the constant graph."""
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self) -> None:
        """Run the constant graph, if there is one. Raises GraphArgumentError (an AssertionError) the second time."""
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        if self.has_folding_been_run:
            raise GraphArgumentError("Folding has already been run; its results are parameters of the module now")
        self.has_folding_been_run = True
        folded = self.const_subgraph_module()
        results = (
            nn.ParameterList([self._as_parameter(value) for value in folded])
            if isinstance(folded, tuple)
            else self._as_parameter(folded)
        )
        setattr(self, self.fx_const_folded_attrs_name, results)

    def _as_parameter(self, value: Any) -> nn.Parameter:
        if isinstance(value, torch.Tensor):
            return nn.Parameter(value.detach().clone(), requires_grad=value.requires_grad)
        return nn.Parameter(torch.Tensor([value]).to(device=self.device_for_folded_attrs), requires_grad=False)


def get_unique_attr_name_in_module(mod_traced: nn.Module, name: str) -> str:
    """Return `name` as a legal identifier, with a number if the module has an attribute of that name."""
    name = re.sub("[^0-9a-zA-Z_]+", "_", name)
    if name[0].isdigit():
        name = f"_{name}"
    while hasattr(mod_traced, name):
        numbered = re.match(r"(.*)_(\d+)$", name)
        name = f"{numbered[1]}_{int(numbered[2]) + 1}" if numbered else f"{name}_1"
    return name


def split_const_subgraphs(
    module: nn.Module,
    skip_folding_node_fn: Callable[[Node], bool] | None = None,
    device_for_folded_attrs: str = "cpu",
    is_impure_node: Callable[[Node], bool] | None = None,
) -> FoldedGraphModule:
    """Return `module` with a constant graph for the values that depend only on its parameters and buffers.

    Nodes with effects stay, nodes that `skip_folding_node_fn` accepts stay, and calls of graph modules with one of
    these nodes stay. Nodes that `is_impure_node` accepts stay even without readers. `device_for_folded_attrs` is the
    device of results other than tensors. The results are computed at the first call, or by `run_folding`.
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant = _constant_nodes(traced, skip_folding_node_fn)
    if all(node.op == "get_attr" for node in constant):
        return FoldedGraphModule(traced, traced.graph)
    split = split_module(traced, module, lambda node: 0 if node in constant else 1)
    for part in (getattr(split, _REST, None), getattr(split, _CONSTANT)):
        if part is not None:  # its nodes move to another graph
            for node in part.graph.find_nodes(op="call_module"):
                setattr(split, str(node.target), getattr(part, str(node.target)))
    constant_graph = _without_inputs(split)
    results = constant_graph.graph.output_node().args[0]
    name = get_unique_attr_name_in_module(traced, "_FX_CONST_FOLDED_ATTRS")
    setattr(split, name, nn.ParameterList() if isinstance(results, tuple) else nn.Parameter())
    call = _call_of(split, _CONSTANT)
    with split.graph.inserting_before(call):
        folded = split.graph.get_attr(name)
    call.replace_all_uses_with(folded)
    if isinstance(results, Node):
        folded.meta = results.meta.copy()
    else:
        for item in folded.users:
            item.meta = results[item.args[1]].meta.copy()
    if hasattr(split, _REST):
        _inline_module(split, _REST, is_impure_node=is_impure_node)
    split.graph.eliminate_dead_code(is_impure_node)
    return FoldedGraphModule(split, split.graph, constant_graph.graph, name, device_for_folded_attrs)


def _constant_nodes(gm: GraphModule, is_skipped: Callable[[Node], bool] | None) -> set[Node]:
    """Return the nodes that read attributes, or constant nodes only."""
    constant: set[Node] = set()
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if not (_reads_a_value(node, gm) if node.op == "get_attr" else constant.issuperset(node.all_input_nodes)):
            continue
        if (is_skipped is not None and is_skipped(node)) or node.is_impure() or _is_open(node, gm, is_skipped):
            continue
        constant.add(node)
    return constant


def _reads_a_value(node: Node, gm: GraphModule) -> bool:
    """Return whether a `get_attr` reads an existing value other than a module, so that a parameter could replace it."""
    try:
        value = get_attribute(gm, str(node.target))
    except AttributeError:
        return False
    return not isinstance(value, (nn.Module, ModuleType))


def _is_open(node: Node, gm: GraphModule, is_skipped: Callable[[Node], bool] | None) -> bool:
    """Return whether the value of `node` may differ from call to call: by a symbolic size, or inside a graph module."""
    if getattr(node.kwargs.get("fill_value"), "free_symbols", None) is not None:
        return True
    return node.op == "call_module" and any(
        (inner.op == "call_function" and inner.is_impure()) or (is_skipped is not None and is_skipped(inner))
        for inner in _nodes_inside(gm, str(node.target))
    )


def _nodes_inside(gm: GraphModule, path: str) -> Iterator[Node]:
    """Yield the nodes of the graph module at `path` and of its graph modules, without inputs and outputs."""
    called = gm.get_submodule(path)
    if not isinstance(called, GraphModule):
        return
    for node in called.graph.nodes:
        if node.op not in ("placeholder", "output"):
            yield node
        if node.op == "call_module":
            yield from _nodes_inside(called, str(node.target))


def _call_of(gm: GraphModule, path: str) -> Node:
    return gm.graph.find_nodes(op="call_module", target=path)[0]


def _without_inputs(split: GraphModule) -> GraphModule:
    """Return the constant part with reads of the attributes of `split` in place of its inputs."""
    constant = GraphModule(split, getattr(split, _CONSTANT).graph)
    inputs = constant.graph.find_nodes(op="placeholder")
    for placeholder, source in zip(inputs, _call_of(split, _CONSTANT).args, strict=True):
        assert isinstance(source, Node)
        with constant.graph.inserting_before(placeholder):
            read = constant.graph.get_attr(str(source.target))
        read.meta = placeholder.meta.copy()
        placeholder.replace_all_uses_with(read)
        constant.graph.erase_node(placeholder)
    return constant


def _inline_module(
    gm: GraphModule, inline_mod_name: str, run_dce: bool = True, is_impure_node: Callable[[Node], bool] | None = None
) -> dict[Node, Any]:
    """Put the nodes of the graph module at `inline_mod_name` in place of its call in the graph of `gm`.

    With `run_dce`, nodes without readers then go, unless `is_impure_node` accepts them. Returns the replacement of each
    of its nodes. Raises GraphArgumentError (an AssertionError) if it is no graph module.
    """
    inlined = gm.get_submodule(inline_mod_name)
    if not isinstance(inlined, GraphModule):
        raise GraphArgumentError(f"Expected GraphModule, got {type(inlined)}: only graphs can be inlined")
    call = _call_of(gm, inline_mod_name)
    copies = inline_call(gm, call, inlined)
    if run_dce:
        gm.graph.eliminate_dead_code(is_impure_node)
    return copies

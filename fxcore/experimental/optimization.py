"""Making a model faster for inference: layers fused, dropout removed, parts in oneDNN's own memory layout."""

from __future__ import annotations

import copy
import operator
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - everybody's name for it
import torch.utils.mkldnn as th_mkldnn
from torch import nn

from fxcore._symbolic_trace import symbolic_trace
from fxcore.errors import GraphArgumentError, PassError
from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.interpreter import Transformer
from fxcore.node import Argument, Node, Target
from fxcore.node_data.arguments import map_values
from fxcore.node_data.attribute_paths import get_attribute, set_attribute
from fxcore.passes.shape_prop import ShapeProp
from fxcore.tracer import Tracer
from fxcore.transforms.fusion.batch_norm import FuseBatchNorm
from fxcore.transforms.identities import FUNCTIONAL_DROPOUTS

__all__ = [
    "MklSubgraph",
    "UnionFind",
    "extract_subgraph",
    "fuse",
    "gen_mkl_autotuner",
    "matches_module_pattern",
    "mkldnn_map",
    "mkldnn_supported",
    "mkldnn_supported_unknown",
    "modules_to_mkldnn",
    "optimize_for_inference",
    "remove_dropout",
    "replace_node_module",
    "reset_modules",
    "use_mkl_length",
]


_FUSED = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)  # the layers that torch.fx fuses


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, nn.Module]) -> bool:
    """Return whether `node` calls a module of the second class on the result of a module of the first class."""
    if not node.args:
        return False
    return all(
        isinstance(call, Node) and call.op == "call_module" and type(modules.get(str(call.target))) is expected
        for expected, call in zip(pattern, (node.args[0], node), strict=False)
    )


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> nn.Module:
    """Return a graph module with batch normalisation folded into the convolution and linear layers before it.

    `model` must be in eval mode. It is traced unless it is a graph module and `no_trace` is set; then `inplace` also
    replaces the layers in `model` itself. `fxcore.transforms.fusion` fuses more kinds of layers, and reports them. A
    layer with other readers of its result or its weights stays as it is; one that is called several times is fused if
    the same normalisation follows each call.
    """
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    result = FuseBatchNorm(_FUSED, functions=False).call(traced)
    fused: Any = result.graph_module
    if inplace and traced is model:
        for each in result.report.changed:
            set_attribute(traced, each.layer, get_attribute(fused, each.layer))
    return GraphModule(fused, fused.graph if result.modified else copy.deepcopy(fused.graph))


def remove_dropout(model: nn.Module) -> nn.Module:
    """Return a graph module of `model` without `nn.Dropout`, and without active functional dropout.

    torch.fx leaves functional dropout: `F.dropout(x, training=self.training)` in a model that is traced in training
    mode keeps dropping values, also after a later `eval()` (pytorch#68190).
    """
    return _DropoutRemover(symbolic_trace(model)).transform()


class _DropoutRemover(Transformer):
    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(self.submodules[str(target)], nn.Dropout):
            if len(args) != 1:
                raise GraphArgumentError(f"Expected 1 arg for Dropout, got {len(args)}: {target} is called otherwise")
            return args[0]
        return super().call_module(target, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        if target in FUNCTIONAL_DROPOUTS and (args[2] if len(args) > 2 else kwargs.get("training")) is True:
            return args[0]
        return super().call_function(target, args, kwargs)


def optimize_for_inference(
    model: nn.Module, pass_config: dict[str, Any] | None = None, tracer: type[Tracer] = Tracer
) -> nn.Module:
    """Return a faster graph module of `model`, which is in eval mode, for inference on the CPU.

    The steps, unless `pass_config` changes them: `{"conv_bn_fuse": True, "remove_dropout": True,
    "mkldnn_layout_optimize": {"heuristic": use_mkl_length}}`. The heuristic takes a MklSubgraph and
    returns whether to run it in oneDNN's memory layout; False in its place leaves this step out. Values must not be
    changed in place. Raises PassError (a RuntimeError) for a config of another form.
    """
    config = {
        "conv_bn_fuse": True,
        "remove_dropout": True,
        "mkldnn_layout_optimize": {"heuristic": use_mkl_length},
        **(pass_config or {}),
    }
    original = model
    if config["conv_bn_fuse"]:
        model = fuse(model)
    if config["remove_dropout"]:
        model = remove_dropout(model)
    layout = config["mkldnn_layout_optimize"]
    if layout is False:
        return model
    if not isinstance(layout, dict):
        raise PassError(
            f"mkldnn_layout_optimize config is not a dict: {layout!r}; give {{'heuristic': function}} or False"
        )
    if "heuristic" not in layout:
        raise PassError("Heuristic not found in mkldnn_layout_optimize config; give {'heuristic': function} or False")
    if model is original:
        model = copy.deepcopy(model)  # modules are about to be replaced
    recorder = tracer()
    graph = recorder.trace(copy.deepcopy(model))
    GraphModule(recorder.root, graph)  # the heuristic may run it
    _use_layout(graph, dict(model.named_modules()), layout["heuristic"])
    graph.lint()
    return GraphModule(model, graph)


# The memory layout of oneDNN.


class UnionFind:
    """Sets of the numbers below `n`; each is named by one of its members."""

    def __init__(self, n: int) -> None:
        """Make room for `n` numbers that are in no set yet."""
        self.parent: list[int | None] = [None] * n
        self.size: list[int] = [0] * n

    def make_set(self, v: int) -> None:
        """Make a set of `v` alone."""
        self.parent[v] = v
        self.size[v] = 1

    def find(self, v: int) -> int:
        """Return the name of the set of `v`. Raises GraphArgumentError (an AssertionError) if `v` is in no set."""
        path = []
        while (parent := self.parent[v]) != v:
            if parent is None:
                raise GraphArgumentError(f"Parent is None: {v} is in no set; call make_set({v}) first")
            path.append(v)
            v = parent
        for passed in path:
            self.parent[passed] = v
        return v

    def join(self, a: int, b: int) -> int | None:
        """Join the sets of `a` and `b`; return the name if they were one before."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return a
        if self.size[a] < self.size[b]:
            a, b = b, a
        self.parent[b] = a
        self.size[a] += self.size[b]
        return None


def extract_subgraph(orig_module: nn.Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]) -> GraphModule:
    """Return a module that runs copies of `nodes`: it takes the values of `inputs` and returns a list of `outputs`.

    `nodes` are in order. The module shares the attributes of `orig_module` that they refer to.
    """
    graph = Graph()
    copies: dict[Node, Node] = {value: graph.placeholder(value.name) for value in inputs}
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output([copies[value] for value in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


mkldnn_supported: list[Any] = [
    nn.Conv2d,
    nn.Linear,
    nn.BatchNorm2d,
    nn.ReLU,
    nn.MaxPool2d,
    nn.AvgPool2d,
    nn.AdaptiveAvgPool2d,
    torch.relu,
    torch.transpose,
    torch.sigmoid,
    F.relu,
    F.avg_pool2d,
    F.adaptive_avg_pool2d,
]

# Worth it only if an argument is already in oneDNN's layout.
mkldnn_supported_unknown: list[Any] = [operator.add, operator.mul]

mkldnn_map: dict[type[nn.Module], Callable[[Any, torch.dtype], nn.Module]] = {
    nn.Conv2d: th_mkldnn.MkldnnConv2d,
    nn.Linear: th_mkldnn.MkldnnLinear,
    nn.BatchNorm2d: lambda module, dtype: th_mkldnn.MkldnnBatchNorm(module),
}


class MklSubgraph:
    """Nodes that run together in oneDNN's layout, and the conversions into the layout and out of it."""

    def __init__(self, fx_graph: Graph) -> None:
        """Start empty."""
        self.fx_graph = fx_graph
        self.nodes: list[Node] = []
        self.start_nodes: list[Node] = []
        self.end_nodes: list[Node] = []
        self.old_modules: dict[nn.Module, nn.Module] = {}


def use_mkl_length(graph: MklSubgraph) -> bool:
    """Return whether a subgraph has three nodes or more, and so is worth the conversions."""
    return len(graph.nodes) > 2


def gen_mkl_autotuner(
    example_inputs: Sequence[torch.Tensor], iters: int = 10, warmup: int = 1
) -> Callable[[MklSubgraph], bool]:
    """Return a function that times a subgraph in both layouts and returns whether oneDNN's layout is faster.

    The graph is run once on `example_inputs` to learn shapes; give the function to `optimize_for_inference`.
    """
    inputs = (example_inputs,) if isinstance(example_inputs, torch.Tensor) else tuple(example_inputs)
    known: list[GraphModule] = []

    def seconds(run: Callable[[], object]) -> float:
        for _ in range(warmup):
            run()
        begin = time.perf_counter()
        for _ in range(iters):
            run()
        return time.perf_counter() - begin

    def is_faster(graph: MklSubgraph) -> bool:
        module = graph.fx_graph.owning_module
        if module is None:
            raise GraphArgumentError("fx_graph.owning_module must not be None: put the graph into a GraphModule first")
        if module not in known:
            ShapeProp(module).propagate(*inputs)
            known.append(module)
        samples = [torch.randn(node.meta["tensor_meta"].shape) for node in graph.start_nodes]
        outputs: list[Any] = [node.args[0] for node in graph.end_nodes]
        submodule = extract_subgraph(module, graph.nodes, graph.start_nodes, outputs)
        in_layout = seconds(lambda: [value.to_dense() for value in submodule(*[each.to_mkldnn() for each in samples])])
        reset_modules(submodule.graph.nodes, dict(submodule.named_modules()), graph.old_modules)
        return in_layout < seconds(lambda: submodule(*samples))

    return is_faster


def replace_node_module(node: Node, modules: dict[str, nn.Module], new_module: nn.Module) -> None:
    """Install `new_module` where `node` finds the module that it calls, in `modules` and in the parent module there.

    Raises GraphArgumentError (an AssertionError) if `node` calls no module.
    """
    if not isinstance(node.target, str):
        raise GraphArgumentError(f"Expected str target, got {type(node.target)}: {node.name} calls no module")
    parent, _, name = node.target.rpartition(".")
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def modules_to_mkldnn(nodes: list[Node], modules: dict[str, nn.Module]) -> dict[nn.Module, nn.Module]:
    """Replace the modules that `nodes` call by torch's modules with weights in oneDNN's layout, where these exist.

    Returns a dict from new modules to copies of the old ones, for `reset_modules`.
    """
    old_modules: dict[nn.Module, nn.Module] = {}
    for node in nodes:
        if node.op == "call_module":
            module = modules[str(node.target)]
            convert = mkldnn_map.get(type(module))
            if convert is not None:
                converted = convert(module, torch.float)
                old_modules[converted] = copy.deepcopy(module)
                replace_node_module(node, modules, converted)
    return old_modules


def reset_modules(
    nodes: Iterable[Node], modules: dict[str, nn.Module], old_modules: dict[nn.Module, nn.Module]
) -> None:
    """Undo `modules_to_mkldnn` for the modules that `nodes` call."""
    for node in nodes:
        if node.op == "call_module":
            module = modules[str(node.target)]
            if module in old_modules:
                replace_node_module(node, modules, old_modules[module])


def _use_layout(graph: Graph, modules: dict[str, nn.Module], is_worth_it: Callable[[MklSubgraph], bool]) -> None:
    """Convert to oneDNN's layout and back around the runs of supported nodes that are worth it.

    Raises GraphArgumentError (an AssertionError) for modules that are not float32 on the CPU.
    """
    for node in list(graph.nodes):
        if _is_supported(node, modules):
            _convert_around(node)
    old_modules = modules_to_mkldnn(list(graph.nodes), modules)
    _cancel_conversions(graph)
    for subgraph in _subgraphs(graph):
        subgraph.old_modules = old_modules
        if not is_worth_it(subgraph):
            for node in subgraph.start_nodes + subgraph.end_nodes:
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)
            reset_modules(subgraph.nodes, modules, old_modules)


def _is_supported(node: Node, modules: dict[str, nn.Module]) -> bool:
    if node.op == "call_module":
        module = modules[str(node.target)]
        if type(module) not in mkldnn_supported:
            return False
        _check_parameters(node, module)
        return True
    if node.op != "call_function":
        return False
    if node.target in mkldnn_supported_unknown:
        values = [arg for arg in node.args if isinstance(arg, Node)]
        # oneDNN multiplies by numbers, but does not add them.
        takes_them = node.target is operator.mul or len(values) == len(node.args)
        return takes_them and any(value.target == "to_dense" for value in values)
    return node.target in mkldnn_supported


def _check_parameters(node: Node, module: nn.Module) -> None:
    parameter = next(module.parameters(), None)
    if parameter is None:
        return
    if parameter.dtype != torch.float:
        raise GraphArgumentError(f"this pass is only for torch.float modules; {node.target} is {parameter.dtype}")
    if parameter.device != torch.device("cpu"):
        raise GraphArgumentError(f"this pass is only for CPU modules; {node.target} is on {parameter.device}")


def _convert_around(node: Node) -> None:
    graph = node.graph
    with graph.inserting_before(node):
        node.args = map_values(node.args, lambda value: graph.call_method("to_mkldnn", (value,)))
    with graph.inserting_after(node):
        dense = graph.create_node("call_method", "to_dense", (node,))
        node.replace_all_uses_with(dense)
        dense.args = (node,)


def _is_conversion(node: Node, name: str) -> bool:
    return node.op == "call_method" and node.target == name


def _cancel_conversions(graph: Graph) -> None:
    """Remove conversions out of the layout that only lead back into it."""
    for node in graph.nodes:
        if _is_conversion(node, "to_dense"):
            for user in list(node.users):
                if _is_conversion(user, "to_mkldnn"):
                    user.replace_all_uses_with(node.args[0])
                    graph.erase_node(user)
            if not node.users:
                graph.erase_node(node)


def _subgraphs(graph: Graph) -> list[MklSubgraph]:
    """Return the runs of nodes that share values in oneDNN's layout."""
    nodes = list(graph.nodes)
    sets = UnionFind(len(nodes))
    colour: dict[Node, int] = {}
    for index, node in enumerate(nodes):
        if _is_conversion(node, "to_mkldnn"):
            sets.make_set(index)
            colour[node] = index
            continue
        # The result of a conversion out of the layout is dense, and carries the colour no further.
        colours = sorted(
            sets.find(colour[value])
            for value in node.all_input_nodes
            if value in colour and not _is_conversion(value, "to_dense")
        )
        if colours:
            colour[node] = colours[0]
            for other in colours[1:]:
                sets.join(colours[0], other)
    found: dict[int, MklSubgraph] = {}
    for node, its_colour in colour.items():
        subgraph = found.setdefault(sets.find(its_colour), MklSubgraph(graph))
        if _is_conversion(node, "to_mkldnn"):
            subgraph.start_nodes.append(node)
        elif _is_conversion(node, "to_dense"):
            subgraph.end_nodes.append(node)
        else:
            subgraph.nodes.append(node)
    return list(found.values())

"""A graph as a drawing for Graphviz."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import nn

from fxcore.codegen.comments import innermost_frame
from fxcore.errors import PassError
from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.node_data.printing import format_argument
from fxcore.node_data.targets import qualified_name
from fxcore.operator_schemas import normalize_function
from fxcore.passes.shape_prop import TensorMetadata, is_tensor_metadata

_FILL_OF_OP = {
    "placeholder": '"AliceBlue"',
    "call_module": "LemonChiffon1",
    "get_attr": "LightGrey",
    "output": "PowderBlue",
}

# All other nodes get one of these colours, by the name of the called function or method.
_FILLS = (
    *("CadetBlue1", "Coral", "DarkOliveGreen1", "DarkSeaGreen1", "GhostWhite", "Khaki1", "LavenderBlush1"),
    *("LightSkyBlue", "MistyRose1", "MistyRose2", "PaleTurquoise2", "PeachPuff1", "Salmon", "Thistle1", "Thistle3"),
    "Wheat1",
)


def fill_colour(node: Node) -> str:
    """Return Graphviz's name of the colour for a node. Functions and methods of one name share a colour."""
    fill = _FILL_OF_OP.get(node.op)
    if fill is not None:
        return fill
    name = node._pretty_print_target(node.target)
    # Any stable hash would do. This hash gives torch.fx's colours.
    digest = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
    return _FILLS[int(digest[:8], 16) % len(_FILLS)]


__all__ = ["FxGraphDrawer"]

_LONGEST_LIST = 8
_FRAME = {"style": '"filled,rounded"', "fontcolor": "#000000"}
_NEW_LINE = r"\n"  # Graphviz's own escape


class DrawingError(PassError):
    """A graph cannot be drawn."""


class FxGraphDrawer:
    """Draws a graph module: `FxGraphDrawer(gm, "name").get_dot_graph().write_svg("a.svg")`.

    Graph modules inside are drawn too, each by itself. Needs the package `pydot`.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:
        """Draw `graph_module` as `name`.

        - `ignore_getattr`, `ignore_parameters_and_buffers`: leave these nodes out.
        - `skip_node_names_in_args`: of the arguments, show constants only; the edges show the rest.
        - `parse_stack_trace`: show the line of source that a node comes from.
        - `dot_graph_shape`: Graphviz's shape of nodes, `record` by default.
        - `normalize_args`: show the arguments of functions by keyword, with defaults.

        Raises DrawingError (a RuntimeError) if pydot is not installed.
        """
        self._pydot = _import_pydot()
        self._name = name
        self.dot_graph_shape = dot_graph_shape if dot_graph_shape is not None else "record"
        self.normalize_args = normalize_args
        options = (ignore_getattr, ignore_parameters_and_buffers, skip_node_names_in_args, parse_stack_trace)
        self._dot_graphs = {name: self._to_dot(graph_module, name, *options)}
        for node in graph_module.graph.nodes:
            if node.op == "call_module":
                module = self._get_leaf_node(graph_module, node)
                if isinstance(module, GraphModule):
                    title = f"{name}_{node.target}"
                    self._dot_graphs[title] = self._to_dot(module, title, *options)

    # The drawings: objects of pydot.

    def get_dot_graph(self, submod_name: str | None = None) -> Any:
        """Return the drawing of the graph, or of the graph module inside at the path `submod_name`."""
        return self.get_main_dot_graph() if submod_name is None else self.get_submod_dot_graph(submod_name)

    def get_main_dot_graph(self) -> Any:
        """Return the drawing of the graph."""
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> Any:
        """Return the drawing of a graph module inside."""
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, Any]:
        """Return all drawings by name."""
        return self._dot_graphs

    # Drawing. Subclasses override these under torch.fx's names for them.

    def _to_dot(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool,
        ignore_parameters_and_buffers: bool,
        skip_node_names_in_args: bool,
        parse_stack_trace: bool,
    ) -> Any:
        pydot = self._pydot
        drawing = pydot.Dot(name, rankdir="TB")
        clusters: dict[str, Any] = {}
        nodes = [node for node in graph_module.graph.nodes if not (ignore_getattr and node.op == "get_attr")]
        for node in nodes:
            label = self._get_node_label(graph_module, node, skip_node_names_in_args, parse_stack_trace)
            place = self._cluster_of(node, clusters) or drawing
            place.add_node(pydot.Node(node.name, label=label, **self._get_node_style(node)))
            if node.op == "call_module" and not ignore_parameters_and_buffers:
                self._add_state(drawing, node, self._get_leaf_node(graph_module, node))
        for cluster in clusters.values():
            cluster.set("color", "royalblue")
            cluster.set("penwidth", "2")
            drawing.add_subgraph(cluster)
        for node in nodes:
            for user in node.users:
                drawing.add_edge(pydot.Edge(node.name, user.name))
        return drawing

    def _cluster_of(self, node: Node, clusters: dict[str, Any]) -> Any | None:
        """Return the box of a buffer that several nodes make, according to a compiler's notes on them."""
        buffer = node.meta.get("buf_meta")
        if buffer is None or buffer.n_origin <= 1:
            return None
        if buffer.name not in clusters:
            clusters[buffer.name] = self._pydot.Cluster(buffer.name, label=buffer.name)
        return clusters[buffer.name]

    def _add_state(self, drawing: Any, node: Node, module: nn.Module) -> None:
        if isinstance(module, GraphModule):
            return
        style = {"fillcolor": "Salmon", **_FRAME, "shape": self.dot_graph_shape}
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            title = f"{node.name}.{name}"
            # A buffer's label lacks its name, as torch.fx draws it.
            label = f"{title}|op_code=get_parameter" if isinstance(tensor, nn.Parameter) else r"buffer\l"
            text = "{" + label + self._get_tensor_label(tensor) + "}"
            drawing.add_node(self._pydot.Node(title, label=text, **style))
            drawing.add_edge(self._pydot.Edge(title, node.name))

    def _get_node_style(self, node: Node) -> dict[str, str]:
        return {"shape": self.dot_graph_shape, "fillcolor": fill_colour(node), **_FRAME}

    def _get_leaf_node(self, module: nn.Module, node: Node) -> nn.Module:
        try:
            found = get_attribute(module, str(node.target))
        except AttributeError as error:
            raise DrawingError(
                f"{node.name} cannot be drawn: {type(module).__name__} does not have attribute: {error}"
            ) from error
        return found  # type: ignore[no-any-return]  # a call_module node names a module

    def _typename(self, target: Any) -> str:
        if isinstance(target, nn.Module):
            name = torch.typename(target)
        else:
            name = target if isinstance(target, str) else qualified_name(target)
        return _escaped(name)

    def _get_node_label(
        self, module: GraphModule, node: Node, skip_node_names_in_args: bool, parse_stack_trace: bool
    ) -> str:
        label = "{" + f"name=%{node.name}|op_code={node.op}\n"
        if node.op == "call_module":
            leaf: Any = self._get_leaf_node(module, node)
            constants = [f"{name}: {getattr(leaf, name)}" for name in getattr(leaf, "__constants__", ())]
            label += _NEW_LINE + self._typename(leaf) + _NEW_LINE + "|" + _NEW_LINE.join(constants) + _NEW_LINE
        else:
            label += f"|target={self._typename(node.target)}{_NEW_LINE}"
            args, kwargs = self._shown_arguments(node)
            label += _listed(
                r"|args=(\l", r",\n)\l", [format_argument(arg, _LONGEST_LIST) for arg in args], skip_node_names_in_args
            )
            texts = [f"{name}: {format_argument(arg, _LONGEST_LIST)}" for name, arg in kwargs.items()]
            label += _listed(r"|kwargs={\l", r",\n}\l", texts, skip_node_names_in_args)
            label += f"|num_users={len(node.users)}{_NEW_LINE}"
        label += self._tensor_meta_to_label(node.meta.get("tensor_meta"))
        buffer = node.meta.get("buf_meta")
        if buffer is not None:
            label += f"|buf={buffer.name}{_NEW_LINE}|n_origin={buffer.n_origin}{_NEW_LINE}"
        return label + (self._origin(node) if parse_stack_trace else "") + "}"

    def _shown_arguments(self, node: Node) -> tuple[Any, Any]:
        if self.normalize_args:
            try:
                normalized = normalize_function(node.target, node.args, node.kwargs, None, None, True)
            except Exception:  # several overloads fit, or it is no function
                normalized = None
            if normalized is not None:
                return normalized
        return node.args, node.kwargs

    def _origin(self, node: Node) -> str:
        frame = innermost_frame(node.stack_trace)
        if frame is None:
            return ""
        file, line, _, source = frame
        return f"|file={self._shorten_file_name(file)}:{line} {source}{_NEW_LINE}"

    def _shorten_file_name(self, full_file_name: str, truncate_to_last_n: int = 2) -> str:
        return "/".join(full_file_name.split("/")[-truncate_to_last_n:])

    def _tensor_meta_to_label(self, tm: Any) -> str:
        if tm is None:
            return ""
        if is_tensor_metadata(tm):
            return self._stringify_tensor_meta(tm)
        if isinstance(tm, dict):
            tm = list(tm.values())
        if not isinstance(tm, (list, tuple)):
            raise DrawingError(f"Unsupported tensor meta type {type(tm)}: it must be what ShapeProp notes on nodes")
        return "".join([self._tensor_meta_to_label(item) for item in tm])

    def _stringify_tensor_meta(self, tm: TensorMetadata) -> str:
        shown = {"dtype": tm.dtype, "shape": tuple(tm.shape), "requires_grad": tm.requires_grad, "stride": tm.stride}
        if tm.is_quantized:
            prefix = "q_per_channel" if "axis" in tm.qparams else "q"
            shown |= {f"{prefix}_{name}": value for name, value in tm.qparams.items() if name != "qscheme"}
            shown["qscheme"] = tm.qparams["qscheme"]
        return "".join([f"|{name}={value}{_NEW_LINE}" for name, value in shown.items()])

    def _get_tensor_label(self, t: torch.Tensor) -> str:
        return f"{t.dtype}{list(t.shape)}{_NEW_LINE}"


def _import_pydot() -> Any:
    try:
        import pydot
    except ModuleNotFoundError as error:
        raise DrawingError(
            "FXGraphDrawer requires the pydot package to be installed. Please install pydot through your favorite "
            "Python package manager: pip install pydot"
        ) from error
    return pydot


def _listed(opening: str, closing: str, texts: list[str], skips_names: bool) -> str:
    """Return arguments between brackets, each on a line of its own if there are several."""
    if skips_names:
        texts = [text for text in texts if "%" not in text]
    if not texts:
        return ""
    listed = opening + r",\n".join(texts) + closing
    if len(texts) == 1:
        listed = listed.replace(r"\l", "").replace(_NEW_LINE, "")
    return _escaped(listed)


def _escaped(text: str) -> str:
    # Braces divide a record's fields in Graphviz.
    return text.replace("{", r"\{").replace("}", r"\}")

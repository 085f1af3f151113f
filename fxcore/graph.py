"""A graph: an ordered list of nodes that together form one function."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn

from fxcore.codegen.codegen import BoxedCodeGen, CodeGen, PythonCode, TransformCodeFunc
from fxcore.codegen.comments import innermost_frame
from fxcore.codegen.globals import CUSTOM_BUILTINS, register_custom_builtin
from fxcore.codegen.pytree_codegen import PyTreeCodeGen, PyTreeInfo
from fxcore.errors import GraphArgumentError, GraphError
from fxcore.node import GAP, NO_KWARGS, Argument, Node, Target, check_target, map_arg
from fxcore.node_data import purity
from fxcore.node_data.arguments import freeze, map_values
from fxcore.node_data.attribute_paths import has_attribute
from fxcore.node_data.namespace import Namespace, name_for_text, snake_case
from fxcore.node_data.printing import graph_text, print_table
from fxcore.nodes import lint
from fxcore.nodes.dead_code import is_needed_unread, remove_unread
from fxcore.nodes.moved_values import MovedValues
from fxcore.nodes.node_list import (
    NodeList,
    append_copies,
    copied_meta,
    label_between,
    link_last,
    make_node,
    walk,
)
from fxcore.nodes.operator_index import OperatorIndex
from fxcore.operators.syntax import INPLACE_OPERATORS, OPERATORS, REFLECTABLE_OPERATORS
from fxcore.torch_fx_registry import FINDS_NO_NODES, refuse_pass_of_torch

__all__ = ["CodeGen", "Graph", "PythonCode", "map_arg"]

# Names of torch.fx's file that programs import although torch does not promise them.
magic_methods, reflectable_magic_methods, inplace_methods = OPERATORS, REFLECTABLE_OPERATORS, INPLACE_OPERATORS
_Namespace, _PyTreeCodeGen, _PyTreeInfo, _snake_case = Namespace, PyTreeCodeGen, PyTreeInfo, snake_case
_register_custom_builtin, _custom_builtins = register_custom_builtin, CUSTOM_BUILTINS
_BoxedCodeGen, _node_list, _parse_stack_trace = BoxedCodeGen, NodeList, innermost_frame

_NO_REFERENCE = (
    "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
    "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the necessary "
    "Parameter, or nn.Module.register_buffer to add the necessary buffer"
)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause Python's garbage collector, which would scan a growing graph again and again, for a block.

    Only the outermost block restarts the collector.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class InsertPoint:
    """The place for new nodes of a graph. The end of the `with` block restores the place before."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self._graph = graph
        self._before = graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        self._graph._insert = self._before


_InsertPoint = InsertPoint


class Graph:
    """An ordered list of `Node` s that together form one function: inputs, calls, one output.

    The methods `placeholder`, `call_function`, `call_module`, `call_method`, `get_attr` and `output` make nodes. New
    nodes go to the end, or to the place set by `inserting_before` and `inserting_after`. `GraphModule` makes a graph
    callable.
    """

    def __init__(
        self,
        owning_module: Any | None = None,
        tracer_cls: type[Any] | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        """Make an empty graph. `owning_module` is its GraphModule, and `tracer_cls` the class of its Tracer."""
        self._unsettled: Callable[[], None] | None = None
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = functools.partial(link_last, self._root)
        self._len = 0
        self._graph_namespace = Namespace()
        self._owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen_in_use = CodeGen()
        self._co_fields: dict[str, Any] = {}
        self._index: OperatorIndex | None = None
        self._nodes: NodeList | None = None
        self.guards: Sequence[Any] = ()  # conditions on the inputs of a graph traced with an example
        self._moved_values: MovedValues | None = None

    # Before a change. A GraphModule without written code must write it before the graph changes.

    def before_change(self) -> None:
        """Let the owning module write its code, if it has not; called before every edit."""
        if self._unsettled is not None:
            self.settle()

    def settle(self, until_next: Callable[[], None] | None = None) -> None:
        """Run the pending function, if there is one, and make `until_next` the pending function of the next change."""
        pending, self._unsettled = self._unsettled, None
        if pending is not None:
            pending()
        self._unsettled = until_next

    @property
    def owning_module(self) -> Any | None:
        """The GraphModule whose forward this graph is, or None."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module: Any | None) -> None:
        self._owning_module = module

    @property
    def _codegen(self) -> CodeGen:
        return self._codegen_in_use

    @_codegen.setter
    def _codegen(self, codegen: CodeGen) -> None:
        self.before_change()
        self._codegen_in_use = codegen

    # Queries.

    @property
    def nodes(self) -> NodeList:
        """The nodes in order; `reversed` works, and the graph may be edited during a walk."""
        if sys._getframe(1).f_globals.get("__name__") in FINDS_NO_NODES:
            refuse_pass_of_torch()
        if self._nodes is None:  # kept, because its making takes thrice the time of the rest of this property
            self._nodes = NodeList(self)
        return self._nodes

    @property
    def _find_nodes_lookup_table(self) -> NoReturn:
        """Refuse torch.fx, the one reader of this name: its lint and its fusers take this table of their own graphs."""
        refuse_pass_of_torch()

    def output_node(self) -> Node:
        """Return the output node, the last one. Raises AssertionError if the last node is another."""
        last = self._root._prev
        if last._op != "output":
            found = "no node" if last is self._root else f"op={last._op}"
            raise GraphArgumentError(
                f"Expected output node, got {found}: the graph does not end in one; add it with graph.output()"
            )
        return last

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """Return the nodes with an opcode and, if given, a target (`call_function` needs one), in order if `sort`.

        The time grows with the number of found nodes. The first call visits every node.
        """
        if self._index is None:
            self._index = OperatorIndex(walk(self._root))
        return self._index.find(op, target, sort)

    def __str__(self) -> str:
        return graph_text(walk(self._root))

    def print_tabular(self) -> None:
        """Print the nodes as a table; needs the library `tabulate`."""
        print_table(walk(self._root))

    # Creating nodes.

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Make a node at the insertion point and return it.

        `name` is a wish: illegal characters are replaced, and a number is added if another value has the name. Raises
        GraphArgumentError (an AssertionError) for an unknown opcode or for arguments that are no tuple and dict, and
        NodeTargetError (a ValueError) for a target that does not fit the opcode.
        """
        if args and not isinstance(args, tuple):
            raise GraphArgumentError(f"args must be a tuple, got {type(args)}: write (x,) for one argument")
        if kwargs and not isinstance(kwargs, dict):
            raise GraphArgumentError(f"kwargs must be a dict, got {type(kwargs)}")
        if self._unsettled is not None:
            self.settle()
        candidate = name if name is not None else self._target_to_str(target)
        unique = self._graph_namespace.create_name(candidate, None)
        check_target(unique, op, target)
        inputs: dict[Node, None] = {}
        args = freeze(args, inputs) if args else ()
        kwargs = freeze(kwargs, inputs) if kwargs else NO_KWARGS
        node = make_node(self, op, target, args, kwargs, tuple(inputs), unique)
        node._type = type_expr
        if self._owning_module is not None:
            for hook in getattr(self._owning_module, "_create_node_hooks", None) or ():
                hook(node)
        self._insert(node)
        if self._index is not None:
            self._index.insert(node)
        self._len += 1
        return node

    def placeholder(
        self, name: str, type_expr: Any | None = None, default_value: Any = inspect.Signature.empty
    ) -> Node:
        """Add an input named `name`, with a default value unless that is `inspect.Signature.empty`."""
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """Add a node that reads the attribute at a dotted path. Warn if the owning module has no such attribute."""
        if self._owning_module is not None and not has_attribute(self._owning_module, qualified_name):
            warnings.warn(_NO_REFERENCE, stacklevel=2)
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Add a call of the submodule at a dotted path; `args` are without `self`."""
        if self._owning_module is not None:
            self._owning_module.get_submodule(module_name)  # raises AttributeError for a missing module
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Add a call of a method of `args[0]` with the other arguments."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
        name: str | None = None,
    ) -> Node:
        """Add a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Argument, type_expr: Any | None = None) -> Node:
        """Add the return of `result`. Its values may be nested in tuples, lists and dicts."""
        return self.create_node(op="output", target="output", args=(result,), type_expr=type_expr)

    def _target_to_str(self, target: Target | None) -> str:
        if type(target) is str:
            return name_for_text(target)
        if not callable(target):
            raise GraphArgumentError(f"Expected target to be str, got {type(target)}: {target!r} cannot name a node")
        return snake_case(target.__name__)

    # Copying nodes.

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
        """Copy a node of any graph to the insertion point and return the copy.

        `arg_transform` returns, for each input of the node, the input of the copy.
        """
        args = map_values(node._args, arg_transform)
        kwargs = map_values(node._kwargs, arg_transform) if node._kwargs else None
        copied = self.create_node(node._op, node._target, args, kwargs, node._name, node._type)
        copied._meta = copied_meta(node)
        return copied

    @gc_paused()  # else a copy of 100,000 nodes takes 1.8 times as long
    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Copy the nodes of `g` here, up to its output, and return the copy of the output's value.

        `val_map` receives the copies; nodes that it already holds are not copied. Return None if `g` has no output;
        with `return_output_node`, a pair of the value and the output node of `g`.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node._op == "output":
                value = map_values(node._args[0], val_map.__getitem__)
                return (value, node) if return_output_node else value
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    @gc_paused()  # else a copy of 50,000 nodes takes 1.8 times as long; small ones the same
    def __deepcopy__(self, memo: dict[Any, Any] | None = None) -> Graph:
        copied = Graph(tracer_cls=self._tracer_cls)
        # The memo maps nodes to their copies, because callers look them up there, as in torch.fx.
        copies: dict[Any, Any] = memo if memo else {}
        output = append_copies(self.nodes, copied, copies)
        copied._codegen = copy.deepcopy(self._codegen)
        copied.take_origin(self)
        if output is not None:
            value = map_values(output._args[0], copies.__getitem__)
            node = copied.output(value, type_expr=output._type)
            node.meta = copy.copy(output.meta)
        return copied

    def take_origin(self, source: Graph) -> None:
        """Take over the traced function and the guards of a graph that computes the same."""
        self._co_fields = dict(source._co_fields)
        self.guards = source.guards
        if source._moved_values is not None:
            self._moved_values = MovedValues(source._moved_values.names)

    def __getstate__(self) -> dict[str, Any]:
        # The pending work of the owning module, the view of the nodes and the index are of this graph, not of a copy.
        return {**vars(self), "_unsettled": None, "_nodes": None, "_index": None}

    # The place of new nodes.

    def inserting_before(self, n: Node | None = None) -> InsertPoint:
        """Put new nodes before `n` (before everything if None), permanently or for a `with` block."""
        if n is None:
            return self.inserting_after(self._root)
        self._check_own(n, "before")
        return InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> InsertPoint:
        """Put new nodes right after `n` (after everything if None), permanently or for a `with` block.

        Each new node goes right after `n`, so the second of two new nodes comes first.
        """
        if n is None:
            return self.inserting_before(self._root)
        self._check_own(n, "after")
        return InsertPoint(self, n.append)

    def _check_own(self, node: Node, where: str) -> None:
        if node.graph is not self:
            raise GraphArgumentError(
                f"Node to insert {where} is not in graph.: {node._name!r} belongs to another graph; use its copy here"
            )

    # Removing nodes.

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node without users.

        Raises GraphError (a RuntimeError) if the node has users or belongs to another graph. Erasing a node twice
        warns.
        """
        if to_erase.users:
            readers = ", ".join([user._name for user in to_erase.users])
            raise GraphError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"cannot erase {to_erase._name!r}: {readers} still read it; "
                "replace those uses first with replace_all_uses_with()"
            )
        if to_erase.graph is not self:
            raise GraphError(
                f"Attempting to remove {to_erase} from wrong graph! Call erase_node() of node.graph instead"
            )
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        self.before_change()
        for hook in getattr(self._owning_module, "_erase_node_hooks", None) or ():
            hook(to_erase)
        if self._index is not None:
            self._index.remove(to_erase, to_erase._op, to_erase._target)
        to_erase.unlink()
        to_erase._erased = True
        self._len -= 1
        to_erase.forget_inputs()

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove nodes without users and without another effect; return whether any was removed.

        `is_impure_node` decides about the nodes that must stay. The default is `Node.is_impure`, except for writes into
        values that nothing else reads. The graph is checked first (GraphError). Graph modules that the owning module's
        graph reads by `get_attr` are cleaned too.
        """
        self.lint()
        owner = self._owning_module
        must_stay = is_impure_node if is_impure_node is not None else lambda node: is_needed_unread(node, owner)
        changed = remove_unread(self, must_stay) > 0
        for module in self._graph_modules_read():
            if module.graph.eliminate_dead_code():
                changed = True
            module.recompile()
        return changed

    def _graph_modules_read(self) -> list[Any]:
        if self._owning_module is None:
            return []
        read = {node._target for node in self.find_nodes(op="get_attr", sort=False)}
        children = self._owning_module.named_children()
        return [child for name, child in children if name in read and isinstance(getattr(child, "graph", None), Graph)]

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.meta.clear()
            self.erase_node(node)

    # Checking.

    def lint(self) -> None:
        """Raise GraphError (a RuntimeError) or NodeTargetError (a ValueError) if the graph is not well-formed.

        Checks: ownership, opcodes, unique names, definition of every value before its use and, with an owning module,
        existence of the targets.
        """
        lint.check(self, walk(self._root), self._owning_module)

    # Code.

    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        """Return the graph as Python code that reaches submodules under the name `root_module`, for example `self`.

        `verbose` adds comments with source lines and annotations with recorded shapes. The further options add details
        to these.
        """
        return self._codegen._gen_python_code(
            walk(self._root),
            root_module,
            Namespace(),
            verbose=verbose,
            include_stride=include_stride,
            include_device=include_device,
            colored=colored,
            expanded_def=expanded_def,
            record_func=record_func,
            additional_meta=additional_meta,
        )

    def set_codegen(self, codegen: CodeGen) -> None:
        """Write the graph's code with another CodeGen from now on."""
        self._codegen = codegen

    def process_inputs(self, *args: Any) -> Any:
        """Convert the arguments of the generated function to the values of the placeholders."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """Convert the value of the output node to the result of the generated function."""
        return self._codegen.process_outputs(out)

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> AbstractContextManager[None]:
        """Change the lines of generated code from now on, or for a `with` block.

        `make_transformer` receives the current transformer (or None) and returns the new one: a function from lines to
        lines.
        """
        self.before_change()
        codegen = self._codegen
        previous = codegen._body_transformer
        codegen._body_transformer = make_transformer(previous)

        @contextmanager
        def restore_afterwards() -> Iterator[None]:
            try:
                yield
            finally:
                self.before_change()
                codegen._body_transformer = previous

        return restore_afterwards()

    # The services for nodes (NodeOwner).

    def retarget(self, node: Node, op: str, target: Any) -> None:
        """Update the index for a node whose opcode and target were `op` and `target` until now."""
        if self._index is not None and not node._erased:
            self._index.remove(node, op, target)
            self._index.insert(node)

    def rename(self, node: Node, candidate: str) -> str:
        """Return a free name close to `candidate`, and keep it for `node`."""
        return self._graph_namespace.create_name(candidate, None)

    @property
    def moved_values(self) -> MovedValues:
        """The present names of the values that the guards know by their names in the trace."""
        if self._moved_values is None:
            self._moved_values = MovedValues()
        return self._moved_values

    def move_value(self, name: str, new_name: str) -> None:
        """Let the guards on the value `name` be guards on `new_name`, as its readers read `new_name` now."""
        if self.guards:
            self.moved_values.move(name, new_name)

    def order_between(self, before: Node, after: Node) -> int:
        """Return an order label for a node that was linked in between two others."""
        if after is self._root and before is not after:  # at the end: the frequent case
            return before._sort_key + GAP
        return label_between(self._root, before, after)

    def is_impure(self, node: Node, impure_random: bool) -> bool:
        """Return whether `node` does more than compute its value. Paths are looked up in the owning module."""
        return purity.is_impure(node, self._owning_module, impure_random)


def break_cycles(graph: Graph) -> None:
    """Cut the reference cycles of an unused graph, so that its memory is freed with the last reference.

    The graph and its nodes cannot be used afterwards.
    """
    root = graph._root
    node = root._next
    while node is not root:
        following = node._next
        node.users.clear()
        del node._next, node._prev
        node = following
    root.users.clear()
    root._next = root._prev = root
    graph._len = 0
    graph._index = graph._nodes = None

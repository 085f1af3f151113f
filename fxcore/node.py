"""A node: one operation of a graph, the values that it reads, and the nodes that read its value."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import torch
from torch._ops import OpOverload

from fxcore import torch_fx_registry
from fxcore.errors import GraphArgumentError, NodeTargetError
from fxcore.immutable_collections import immutable_dict
from fxcore.node_data.arguments import Value, freeze, map_aggregate, map_arg, map_values, replace_value
from fxcore.node_data.module_stack import ModuleCall
from fxcore.node_data.printing import format_argument, format_node
from fxcore.node_data.targets import qualified_name, readable_target, type_repr
from fxcore.operator_schemas import ArgsKwargsPair, normalize_function, normalize_module


class NodeOwner(Protocol):
    """The services that a node needs from its graph."""

    @property
    def owning_module(self) -> Any: ...

    def before_change(self) -> None:
        """Prepare for a change of the graph."""

    def retarget(self, node: Any, op: str, target: Any) -> None:
        """Update the index for a node whose opcode and target were `op` and `target` until now."""

    def rename(self, node: Any, candidate: str) -> str:
        """Return a free name close to `candidate`, and keep it for the node."""

    def move_value(self, name: str, new_name: str) -> None:
        """Record that a value has another name, or that its readers read another value."""

    def order_between(self, before: Any, after: Any) -> int:
        """Return an order label for a node between two others."""

    def is_impure(self, node: Any, impure_random: bool) -> bool:
        """Return whether a node does more than compute its value."""


__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

Target = Callable[..., Any] | str
Argument = Any

# Names of torch.fx's file that programs import although torch does not promise them.
base_types = (
    *(str, int, float, bool, complex, torch.dtype, torch.Tensor, torch.device, torch.memory_format, torch.layout),
    *(OpOverload, torch.SymInt, torch.SymBool, torch.SymFloat),
)
BaseArgumentTypes: Any = functools.reduce(operator.or_, base_types)
_get_qualified_name, _type_repr, _format_arg = qualified_name, type_repr, format_argument

OPCODES = frozenset({"placeholder", "call_method", "call_module", "call_function", "get_attr", "output"})

_F = TypeVar("_F", bound=Callable[..., Any])
_side_effectful_functions = torch_fx_registry.side_effectful_functions()
NO_KWARGS: immutable_dict[str, Any] = immutable_dict()

# First difference between the order labels of neighbours, so that many insertions find room between them.
GAP = 1 << 32


def has_side_effect(fn: _F) -> _F:
    """Register a function, so that dead-code elimination keeps its calls; return the function unchanged."""
    torch_fx_registry.side_effectful_functions().add(fn)
    return fn


class Node(Value):
    """One operation in a `Graph`. The graph's methods make nodes, for example `Graph.call_function`.

    `op`, `target`, `args` and `kwargs` have the meaning of torch.fx:

    - ``placeholder``: an input. `target` is the parameter's name, `args` holds its default value if it has one.
    - ``get_attr``: reads the attribute of the module hierarchy at the dotted path `target`.
    - ``call_function``: calls the function `target`.
    - ``call_module``: calls the submodule at the dotted path `target`.
    - ``call_method``: calls the method named `target` of `args[0]`.
    - ``output``: returns `args[0]`.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_args",
        "_erased",
        "_input_nodes",
        "_kwargs",
        "_meta",
        "_name",
        "_next",
        "_op",
        "_prev",
        "_repr_fn",
        "_sort_key",
        "_target",
        "_type",
        "graph",
        "users",
    )

    graph: Any
    users: dict[Node, None]
    _name: str
    _op: str
    _target: Any
    _type: Any
    _next: Node
    _prev: Node
    _sort_key: int
    _erased: bool
    _args: tuple[Any, ...]
    _kwargs: dict[str, Any]
    # Each value in the arguments once, in reading order. Mostly the tuple of the one argument itself.
    _input_nodes: tuple[Node, ...]
    _repr_fn: Callable[[Node], str] | None
    # Becomes a dict at its first reading. The metadata of most nodes is never read.
    _meta: dict[str, Any] | ModuleCall | None

    def __init__(
        self,
        graph: NodeOwner,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any | None = None,
    ) -> None:
        """Make a node outside of any list; `Graph.create_node` makes one and inserts it.

        Raises NodeTargetError (a ValueError) if `target` does not fit `op`, and GraphArgumentError (an AssertionError)
        for an unknown opcode.
        """
        check_target(name, op, target)
        inputs: dict[Node, None] = {}
        args = freeze(args, inputs) if args else ()
        kwargs = freeze(kwargs, inputs) if kwargs else NO_KWARGS
        set_fields(self, graph, name, op, target, args, kwargs, tuple(inputs))
        self._type = return_type

    # The place of the node in its graph's list.

    @property
    def next(self) -> Node:
        """The node after this one. The list's root comes after the last node."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one. The list's root comes before the first node."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move `x` to the place before this node.

        Raises GraphArgumentError (an AssertionError) if `x` belongs to another graph.
        """
        graph = self.graph
        if x.graph is not graph:
            raise GraphArgumentError(
                f"Attempting to move a Node into a different Graph: {x!r} belongs to another graph than "
                f"{self!r}; copy it with graph.node_copy()"
            )
        if x is self:
            return
        graph.before_change()
        if x._next is not x:  # `x` is in the list
            x.unlink()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x
        x._sort_key = graph.order_between(before, self)

    def append(self, x: Node) -> None:
        """Move `x`, a node of the same graph, to the place after this node."""
        if x is not self:
            self._next.prepend(x)

    def unlink(self) -> None:
        """Take the node out of its list. It keeps its own links, so that a loop standing on it can continue."""
        before, after = self._prev, self._next
        before._next, after._prev = after, before

    def __lt__(self, other: Node) -> bool:
        return self._sort_key < other._sort_key if isinstance(other, Node) else NotImplemented

    def __gt__(self, other: Node) -> bool:
        return self._sort_key > other._sort_key if isinstance(other, Node) else NotImplemented

    def __le__(self, other: Node) -> bool:
        return self._sort_key <= other._sort_key if isinstance(other, Node) else NotImplemented

    def __ge__(self, other: Node) -> bool:
        return self._sort_key >= other._sort_key if isinstance(other, Node) else NotImplemented

    # The operation. The graph hears of every change, because its index of operators and its code depend on them.

    @property
    def name(self) -> str:
        """The unique name of the value. An assignment calls the owning module's replacement hooks."""
        return self._name

    @name.setter
    def name(self, value: str) -> None:
        self.graph.before_change()
        for hook in _replace_hooks(self.graph):
            for user in self.users:
                hook(old=self, new=value, user=user)
        self.graph.move_value(self._name, value)
        self._name = value

    @property
    def op(self) -> str:
        """The opcode, one of six."""
        return self._op

    @op.setter
    def op(self, value: str) -> None:
        self.graph.before_change()
        previous, self._op = self._op, value
        self.graph.retarget(self, previous, self._target)

    @property
    def target(self) -> Any:
        """The called function, method name or module path, or the path of the attribute."""
        return self._target

    @target.setter
    def target(self, value: Target) -> None:
        self.graph.before_change()
        previous, self._target = self._target, value
        self.graph.retarget(self, self._op, previous)

    @property
    def type(self) -> Any | None:
        """The annotation of the value in generated code, or None."""
        return self._type

    @type.setter
    def type(self, value: Any | None) -> None:
        self.graph.before_change()
        self._type = value

    # The inputs.

    @property
    def args(self) -> tuple[Argument, ...]:
        """Positional arguments. Assign a new tuple to change them; the `users` of the values follow."""
        return self._args

    @args.setter
    def args(self, value: tuple[Argument, ...]) -> None:
        self._set_arguments(value, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """Keyword arguments. Assign a new dict to change them; the `users` of the values follow."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value: dict[str, Argument]) -> None:
        self._set_arguments(self._args, value)

    def _set_arguments(self, args: Any, kwargs: Any) -> None:
        self.graph.before_change()
        inputs: dict[Any, None] = {}
        args, kwargs = freeze(args, inputs), freeze(kwargs, inputs)
        # The node first leaves the users of all its inputs and then joins them again, because torch.fx moves a
        # reader to the end.
        for value in self._input_nodes:
            value.users.pop(self, None)
        self._args, self._kwargs, self._input_nodes = args, kwargs, tuple(inputs)
        for value in inputs:
            value.users[self] = None

    _update_args_kwargs = _set_arguments

    def forget_inputs(self) -> None:
        """Replace all inputs of the node by None."""
        for value in self._input_nodes:
            value.users.pop(self, None)
        self._args = map_values(self._args, _nothing)
        if self._kwargs:
            self._kwargs = map_values(self._kwargs, _nothing)
        self._input_nodes = ()

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes in `args` and `kwargs`, each once, in reading order."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace the positional argument at `idx`. The argument must exist."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert a positional argument before position `idx`. New inputs come last in `all_input_nodes`.

        Raises GraphArgumentError (an AssertionError) if `idx` is not in 0 to `len(args)`.
        """
        if not 0 <= idx <= len(self._args):
            raise GraphArgumentError(
                f"insert_args index must be between 0 and len(self.args), got {idx}: {self._name} has "
                f"{len(self._args)} arguments"
            )
        self.graph.before_change()
        inputs: dict[Any, None] = {}
        self._args = (*self._args[:idx], *freeze((arg,), inputs), *self._args[idx:])
        self._input_nodes = tuple({**dict.fromkeys(self._input_nodes), **inputs})
        for value in inputs:
            value.users[self] = None

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set the keyword argument `key`."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Read `new_input` in every place where this node reads `old_input`."""
        for hook in _replace_hooks(self.graph):
            hook(old=old_input, new=new_input._name, user=self)
        self.graph.before_change()
        self._replace_input(old_input, new_input)

    def _replace_input(self, old_input: Node, new_input: Node) -> None:
        if not isinstance(new_input, Node):  # a constant, or a container of values
            args = replace_value(self._args, old_input, new_input)
            self._set_arguments(args, replace_value(self._kwargs, old_input, new_input))
            return
        # The containers are immutable and the reading order is known, so freezing again is unnecessary.
        args, before = self._args, self._input_nodes
        if len(args) == 1 and args[0] is old_input:
            self._args = (new_input,)
        else:
            self._args = replace_value(args, old_input, new_input)
        if self._kwargs:
            self._kwargs = replace_value(self._kwargs, old_input, new_input)
        if len(before) == 1 and old_input in before:  # the frequent case
            self._input_nodes = (new_input,)
            old_input.users.pop(self, None)
            new_input.users[self] = None
            return
        inputs = {new_input if value is old_input else value: None for value in before}
        self._input_nodes = tuple(inputs)
        # The reader moves to the end of the users of all its inputs, as in _set_arguments.
        old_input.users.pop(self, None)
        for value in inputs:
            value.users.pop(self, None)
            value.users[self] = None

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Make every reader of this node read `replace_with`; return the changed readers.

        `delete_user_cb` is called with each reader and may answer False to keep it. With `propagate_meta`, the
        replacement gets this node's metadata; its `meta` must be empty. Raises GraphArgumentError (an AssertionError)
        if it is not empty.
        """
        if propagate_meta:
            if replace_with.meta:
                raise GraphArgumentError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already "
                    f"has .meta keys: {', '.join(map(str, replace_with.meta))} on {replace_with._name!r}; "
                    "clear them or merge the two yourself"
                )
            replace_with.meta.update(self.meta)
        if isinstance(replace_with, Node):  # inlining gives several values
            self.graph.move_value(self._name, replace_with._name)
        if not self.users:
            return []
        hooks = _replace_hooks(self.graph) if isinstance(replace_with, Node) else ()
        self.graph.before_change()
        changed = []
        for user in list(self.users):
            if delete_user_cb is not None and not delete_user_cb(user):
                continue
            changed.append(user)
            for hook in hooks:
                hook(old=self, new=replace_with._name, user=user)
            if hooks or delete_user_cb is not None:  # a hook may have compiled the graph
                self.graph.before_change()
            user._replace_input(self, replace_with)
        return changed

    # Metadata and text.

    @property
    def meta(self) -> dict[str, Any]:
        """Notes of passes and users on the node: shapes, sources, anything else."""
        meta = self._meta
        if meta is None or isinstance(meta, ModuleCall):
            meta = self._meta = {} if meta is None else meta.meta()
        return meta

    @meta.setter
    def meta(self, value: dict[str, Any]) -> None:
        self._meta = value

    @property
    def stack_trace(self) -> str | None:
        """The user's stack at the time of tracing, innermost frame last; None if it was not recorded."""
        return self.meta.get("stack_trace", None)

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def __repr__(self) -> str:
        torch_fx_registry.refuse_code_of_torch(self._name)
        return self._repr_fn(self) if self._repr_fn else self._name

    _pretty_print_target = staticmethod(readable_target)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """Return the line of this node in `print(graph)`.

        The two lists serve the printing of a whole graph. A placeholder whose text went into a list returns None.
        """
        return format_node(self, placeholder_names, maybe_return_typename, include_tensor_metadata)

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether the node does more than compute its value, so that it must stay without readers.

        `impure_random` says whether random numbers count.
        """
        return bool(self.graph.is_impure(self, impure_random))

    def normalized_arguments(
        self,
        root: torch.nn.Module,
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> ArgsKwargsPair | None:
        """Return the arguments matched to the signature of the called function or submodule of `root`.

        Return None for other opcodes and without a fitting signature; see `operator_schemas.normalize_function`.
        """
        target: Any = self._target
        if self._op == "call_function":
            return normalize_function(
                target, self._args, self._kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs
            )
        if self._op == "call_module":
            return normalize_module(root, target, self._args, self._kwargs, normalize_to_only_use_kwargs)
        return None

    def _rename(self, candidate: str) -> None:
        if candidate != self._name:
            self.name = self.graph.rename(self, candidate)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **{name: getattr(self, name) for name in _STATE}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)


# Every slot, except for the two that Python fills itself.
_STATE = tuple(["meta" if name == "_meta" else name for name in Node.__slots__ if not name.startswith("__")])


def check_target(name: str, op: str, target: Any) -> None:
    """Raise the errors of `Node` for an unknown opcode or a target that does not fit it."""
    if op == "call_function":
        if not callable(target):
            raise NodeTargetError(_wrong_target(name, target, "Callable"))
    elif op not in OPCODES and op != "root":
        raise GraphArgumentError(
            f"op '{op}' is not in _legal_ops: node {name!r} must be one of {', '.join(sorted(OPCODES))}"
        )
    elif not isinstance(target, str):
        raise NodeTargetError(_wrong_target(name, target, "str"))


def set_fields(
    node: Node,
    graph: NodeOwner,
    name: str,
    op: str,
    target: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    inputs: tuple[Node, ...],
    last: Node | None = None,
) -> Node:
    """Fill a new node and return it. `args` and `kwargs` are immutable, and `inputs` are the values in them, each once.

    The node follows `last`, the last node of a list. Without `last`, it is outside of any list.
    """
    node.graph = graph
    node._name = name
    node._op = op
    node._target = target
    node._args = args
    node._kwargs = kwargs
    node._input_nodes = inputs
    node._type = node._meta = node._repr_fn = None
    node._erased = False
    node.users = {}
    if last is None:
        node._prev = node._next = node
        node._sort_key = 0
    else:  # here, because a call for it takes a tenth of the time of a new node
        node._prev, node._next = last, last._next
        last._next._prev = last._next = node
        node._sort_key = last._sort_key + GAP
    for value in inputs:
        value.users[node] = None
    return node


def _nothing(value: Any) -> None:
    return None


def _replace_hooks(graph: NodeOwner) -> Any:
    return getattr(graph.owning_module, "_replace_hooks", None) or ()


def _wrong_target(name: str, target: Any, wanted: str) -> str:
    return (
        f"Node [name = '{name}'] target {target!r} has type {torch.typename(target)} but a {wanted} is expected: "
        "call_function takes the function itself, every other op the name or path as text"
    )

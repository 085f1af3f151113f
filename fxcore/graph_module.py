"""A module whose forward is generated from a graph."""

from __future__ import annotations

import copy
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from typing_extensions import Self

from fxcore.codegen.codegen import PythonCode, call_with_known
from fxcore.codegen.pytree_codegen import PyTreeCodeGen
from fxcore.errors import CodeGenerationError, GraphArgumentError, GraphError, GuardError
from fxcore.graph import Graph, gc_paused
from fxcore.guard_checks.guarded_forward import GuardedForward
from fxcore.guard_checks.guards_file import written_guards
from fxcore.guards import Guards
from fxcore.lazy_forward import (
    ForwardDescriptor,
    LazyForward,
    LazyPythonCode,
    any_outdated,
    check_outer_values,
    dynamo_callback,
    install_forward,
    skipped_by_dynamo,
)
from fxcore.node import Node
from fxcore.node_data.attribute_paths import (
    child_module,
    copy_attributes,
    delete_attribute,
    get_attribute,
    has_attribute,
    set_attribute,
)
from fxcore.node_data.distributed_types import process_groups_of
from fxcore.serialization.pickling import (
    CodeOnlyModule,
    graph_data,
    graph_from_data,
    is_importable,
    reduce_graph_module,
    reduce_package_graph_module,
)
from fxcore.serialization.to_folder import write_module_folder
from fxcore.torch_fx_registry import is_graph_module_of_torch
from fxcore.uninitialized import note_uninitialized_copies

__all__ = ["GraphModule", "reduce_graph_module", "reduce_package_graph_module"]

_IMPL_NAME = "GraphModuleImpl"
# Copies and unpickled modules print under this name, as in torch.fx.
_COPY_NAME = "GraphModule"


def _hook_methods(name: str) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return the methods that add a hook to a list of a GraphModule, and remove the hook."""

    def register(self: Any, f: Callable[..., object]) -> None:
        if not callable(f):
            raise GraphArgumentError(f"a hook must be a callable, got {f!r}")
        getattr(self, name).append(f)

    def unregister(self: Any, f: Callable[..., object]) -> None:
        getattr(self, name).remove(f)

    return register, unregister


class GraphModule(nn.Module):
    """A module whose `forward` is generated from a `Graph`.

    An assignment to `graph` regenerates `code` and `forward`. After an edit of the graph in place, call `recompile()`.
    """

    if TYPE_CHECKING:  # TorchScript reads the annotations of a class at run time, and does not know Callable
        meta: dict[str, Any]
        _replace_hooks: list[Callable[..., object]]
        _create_node_hooks: list[Callable[..., object]]
        _erase_node_hooks: list[Callable[..., object]]
        _deepcopy_hooks: list[Callable[..., object]]

    # TorchScript would try to compile these.
    __jit_unused_properties__ = ["graph", "code", "_code", "_lineno_map", "_prologue_start"]  # noqa: RUF012

    _somebody_overrides_recompile = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "recompile" in vars(cls):
            GraphModule._somebody_overrides_recompile = True

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # torch looks forward up in the class, and each instance has its own forward. Each instance therefore gets
        # its own class. A copy of a copy derives from the common base class, not from the copy's class.
        base = next(kind for kind in cls.__mro__ if kind.__qualname__.split(".")[-1] != _IMPL_NAME)
        own = type(_IMPL_NAME, (base,), {"__module__": __name__, "__qualname__": f"GraphModule.{_IMPL_NAME}"})
        return super().__new__(own)

    @gc_paused()  # else a module with 400 submodules takes 1.1 times as long
    def __init__(self, root: nn.Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        """Make a module of `graph`. It shares the objects in `root` that the graph refers to.

        `root` is a module below which the graph's paths are looked up, or a dict from paths to objects. Raises
        GraphError (a RuntimeError) if `root` is neither, or the dict lacks a path.
        """
        super().__init__()
        type(self).__name__ = class_name
        conditions = getattr(graph.guards, "graph", None)  # its nodes may read attributes that the graph does not read
        nodes = [*graph.nodes, *getattr(conditions, "nodes", ())]
        paths = [str(node._target) for node in nodes if node._op in ("get_attr", "call_module")]
        if isinstance(root, nn.Module):
            self.training = getattr(root, "training", True)
            copy_attributes(root, self, dict.fromkeys(paths))
        elif isinstance(root, dict):
            self._take_from_dict(root, graph)
        else:
            raise GraphError(
                f"Unsupported type {type(root).__name__} passed for root! It must be an nn.Module or a dict from the "
                "paths that the graph uses to objects"
            )
        self.graph = graph
        # Directly into the dict, because nn.Module checks each value for parameters and modules.
        vars(self).update(
            _tracer_cls=graph._tracer_cls if is_importable(graph._tracer_cls) else None,
            _tracer_extras=graph._tracer_extras or {},
            meta={},
            _replace_hooks=[],
            _create_node_hooks=[],
            _erase_node_hooks=[],
            _deepcopy_hooks=[],
        )

    def _take_from_dict(self, root: dict[str, Any], graph: Graph) -> None:
        paths: list[str] = []
        for node in graph.nodes:
            if node._op in ("get_attr", "call_module"):
                if node._target not in root:
                    raise GraphError(
                        f"Node {node._name} referenced target {node._target} but that target was not provided in "
                        f"``root``! The dict has: {', '.join(map(str, root)) or 'nothing'}"
                    )
                paths.append(node._target)
        # Short paths first: installing `a` after `a.b` would remove `a.b`.
        for path in sorted(dict.fromkeys(paths), key=lambda path: path.count(".")):
            set_attribute(self, path, root[path])

    # Graph and code.

    @property
    def graph(self) -> Graph:
        """The graph from which `forward` is generated."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            is_of_torch = type(graph).__module__ == "torch.fx.graph"
            cure = "; take it over with fxcore.interop.from_torch, or give torch's pass fxcore.interop.to_torch(module)"
            raise GraphArgumentError(f"Expected a Graph instance, but got {type(graph)}{cure * is_of_torch}")
        self._graph = graph
        graph.owning_module = self
        self.recompile()

    def recompile(self) -> PythonCode:
        """Renew `code` and `forward` from the current graph, here and in child graph modules."""
        lazy = self._renew_forward()
        # In most calls no graph has changed since its module was compiled. Visiting all children at each level of a
        # growing nest would take time that grows with the square of its depth.
        if any_outdated() or GraphModule._somebody_overrides_recompile:
            for child in self.children():
                if isinstance(child, GraphModule):
                    child.recompile()
        return LazyPythonCode(lazy)

    def _renew_forward(self) -> LazyForward:
        codegen = self._graph._codegen
        if isinstance(codegen, PyTreeCodeGen):
            self._in_spec, self._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec
        own: Any = type(self)
        current = vars(own).get("_generated")
        if current is not None and current.is_current(self._graph):
            return current  # type: ignore[no-any-return]  # unchanged since the last time
        lazy = LazyForward(self._graph)
        if current is not None:
            current.retire()
        own._generated = lazy
        own.forward = ForwardDescriptor(lazy)
        return lazy

    @property
    def code(self) -> str:
        """The source of `forward`, as of the last `recompile()`.

        Raises the error of the code generation. An AttributeError becomes CodeGenerationError (a RuntimeError), because
        nn.Module would report that the module has no code.
        """
        try:
            return self._code
        except AttributeError as error:
            raise CodeGenerationError(f"cannot write the code of this {type(self).__name__}: {error}") from error

    @property
    def _code(self) -> str:
        generated: LazyForward = type(self)._generated  # type: ignore[attr-defined]  # set by recompile()
        return generated.python_code.src

    @property
    def _lineno_map(self) -> dict[int, int | None] | None:
        return type(self)._generated.python_code._lineno_map  # type: ignore[attr-defined,no-any-return]

    @property
    def _prologue_start(self) -> int:
        return type(self)._generated.python_code._prologue_start  # type: ignore[attr-defined,no-any-return]

    # Dynamo must compile the frame of the generated forward, not this frame. Every recompile() makes a new forward.
    @skipped_by_dynamo
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward`. If generated code fails, print its lines to stderr and raise the error."""
        if torch.compiler.is_compiling():
            install_forward(type(self))
        elif dynamo_callback() is not None:  # compiled code does not ask for outer values
            check_outer_values(type(self)._generated)  # type: ignore[attr-defined]  # set by recompile()
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            if type(error).__module__ == "torch._dynamo.exc":
                _refuse_uncompiled(self, args, kwargs, error)
            _print_generated_code_error(error)
            raise

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> str:
        """Return the code of this module and its child graph modules with comments; print it unless told not to."""
        return _print_readable(
            self,
            type(self).__name__,
            print_output,
            include_stride=include_stride,
            include_device=include_device,
            colored=colored,
            expanded_def=expanded_def,
            additional_meta=additional_meta,
        )

    def check_guards(self, *args: Any, **kwargs: Any) -> None:
        """Raise GuardError (a ValueError) with the first guard that does not hold for these inputs.

        A graph traced with an example has guards: `graph.guards`. Guards of inner values take a run of a part of the
        graph. The state of the model, the inputs and the generators stays as it was.
        """
        guarded = _guarded_forward(self)
        if guarded is not None:
            guarded.check(self, args, kwargs)

    def supports(self, *args: Any, **kwargs: Any) -> bool | None:
        """Return whether the graph holds for these inputs: True, False, or None where only a run of it can tell.

        The inputs alone are looked at, so the answer is quick. `check_guards` gives the answer of a run.
        """
        guarded = _guarded_forward(self)
        return True if guarded is None else guarded.supports(self, args, kwargs)

    def __str__(self) -> str:
        reminder = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, reminder])

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write a package to `folder`, from which `from <folder> import <module_name>` loads this module again.

        If calls of this module check guards, the written forward checks them first, and imports fxcore for it.
        """
        code, path = self.code, Path(folder)
        definitions: list[str] = []
        names = type(self)._generated.python_code.globals  # type: ignore[attr-defined]  # set by recompile()
        path.mkdir(exist_ok=True)
        if _guarded_forward(self) is not None and getattr(self.graph.guards, "are_enforced", False):
            code, definitions = written_guards(self.graph, path, code, names)
        write_module_folder(self, code, path, module_name, names, definitions)

    # Submodules.

    def add_submodule(self, target: str, m: nn.Module) -> bool:
        """Install `m` at a dotted path, with empty modules on the way.

        Return False if another object blocks the way.
        """
        *parents, name = target.split(".")
        module: nn.Module = self
        for parent in parents:
            module = child_module(module, parent)
            if not isinstance(module, nn.Module):
                return False
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the submodule at a dotted path; return False if there is none."""
        if not has_attribute(self, target):
            return False
        parent_path, _, name = target.rpartition(".")
        try:
            parent = self.get_submodule(parent_path)
        except AttributeError:
            return False
        if not isinstance(getattr(parent, name), nn.Module):
            return False
        delattr(parent, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove every submodule that the graph does not use. Parts of a used module stay."""
        for path in _unused_module_paths(self, self._graph.nodes):
            self.delete_submodule(path)

    # Copies.

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        type(copied).__name__ = _COPY_NAME
        note_uninitialized_copies(self, memo)
        memo.update({id(group): group for group in process_groups_of(self)})  # copies use the same processes
        state = copy.deepcopy(self.__dict__, memo)
        copied._restore(state, state.pop("_graph"))
        for hook in copied._deepcopy_hooks:
            hook(copied)
        return copied

    def __copy__(self) -> GraphModule:
        copied = GraphModule(self, self._graph)
        copied.meta = self.meta
        return copied

    def _restore(self, state: dict[str, Any], graph: Graph) -> None:
        self.__dict__.update(state)
        self.__dict__["_graph"] = graph
        graph.owning_module = self
        self._renew_forward()

    def __reduce__(self) -> tuple[Any, ...]:
        state = self.__dict__.copy()
        data = graph_data(state.pop("_graph"))
        base = type(self).__mro__[1]
        # None for the plain class, so that `torch.load(weights_only=True)` needs no permission for it.
        return _rebuild, (base if base is not GraphModule and is_importable(base) else None, state, data)

    def _replicate_for_data_parallel(self) -> GraphModule:
        copied = self.__copy__()
        object.__setattr__(copied, "_is_replica", True)
        return copied

    # Hooks on edits of the graph.

    @contextmanager
    def _set_replace_hook(self, f: Callable[..., object]) -> Iterator[None]:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    _register_replace_node_hook, _unregister_replace_node_hook = _hook_methods("_replace_hooks")
    _register_create_node_hook, _unregister_create_node_hook = _hook_methods("_create_node_hooks")
    _register_erase_node_hook, _unregister_erase_node_hook = _hook_methods("_erase_node_hooks")
    _register_deepcopy_hook, _unregister_deepcopy_hook = _hook_methods("_deepcopy_hooks")


def _guarded_forward(module: GraphModule) -> GuardedForward | None:
    generated: LazyForward = type(module)._generated  # type: ignore[attr-defined]  # set by recompile()
    return generated.guarded


def _rebuild(base: type[GraphModule] | None, state: dict[str, Any], data: tuple[Any, ...]) -> GraphModule:
    """Make a GraphModule again from the data of `GraphModule.__reduce__`."""
    module = (base or GraphModule).__new__(base or GraphModule)
    type(module).__name__ = _COPY_NAME
    module._restore(state, graph_from_data(data))
    return module


def _refuse_uncompiled(module: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> None:
    """Raise GuardError if a broken guard is the reason why Dynamo cannot compile a whole graph."""
    watcher = torch._C._dynamo.eval_frame.set_eval_frame(None)
    try:
        module.check_guards(*args, **kwargs)
    except GuardError as refusal:
        raise refusal from error
    finally:
        torch._C._dynamo.eval_frame.set_eval_frame(watcher)


def _print_generated_code_error(error: Exception) -> None:
    """Print to stderr the place in the generated code where `error` arose, if it arose in that code itself."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or "eval_with_key" not in frames[-1].filename:
        return
    place = frames[-1]
    line_number = place.lineno or 1
    lines = linecache.getlines(place.filename)
    print(
        "\n".join(
            [
                traceback.format_exc(),
                f"Call using an FX-traced Module, line {line_number} of the traced Module's "
                "generated forward function:",
                "".join(lines[max(line_number - 2, 0) : line_number]),
                "~" * len(place.line or "") + "~~~ <--- HERE",
                "\n".join(lines[line_number : line_number + 2]),
            ]
        ),
        file=sys.stderr,
    )


def _unused_module_paths(module: nn.Module, nodes: Iterable[Node]) -> list[str]:
    """Return the paths of submodules that no node uses, without parts of called modules."""
    used: set[str] = set()
    called: set[str] = set()
    for node in nodes:
        if node.op in ("call_module", "get_attr") and isinstance(node.target, str):
            used.update(accumulate(node.target.split("."), lambda path, name: f"{path}.{name}"))
            if node.op == "call_module":
                called.add(node.target)
    unused = []
    for path, _ in module.named_modules():
        if path in used:
            continue
        parents = accumulate(path.split("."), lambda above, name: f"{above}.{name}")
        if path and not any(parent in called for parent in parents):
            unused.append(path)
    return unused


def _readable_source(module: Any, name: str, **options: Any) -> str:
    """Return the source of a class with the behaviour of `module`; `options` are those of `Graph.python_code`."""
    # Older releases of torch.fx know fewer options.
    forward = call_with_known(module.graph.python_code, root_module="self", verbose=True, **options).src.lstrip("\n")
    guards = getattr(module.graph, "guards", ())
    if isinstance(guards, Guards) and guards.graph is not None:  # a trace without an example prints as in torch.fx
        forward = "".join([f"# {line}\n" for line in guards.lines()]) + forward
    source = _indented(f"class {name}(torch.nn.Module):\n{forward}")
    options = {key: value for key, value in options.items() if key != "expanded_def"}
    children = [
        _readable_source(child, child_name, **options)
        for child_name, child in module.named_children()
        if isinstance(getattr(child, "graph", None), Graph) or is_graph_module_of_torch(child)
    ]
    return source + _indented("\n".join(["", *children]))


def _print_readable(module: Any, module_name: str, print_output: bool = True, **options: Any) -> str:
    """Return the source of a class with the behaviour of `module`, a graph module; print it unless told not to."""
    text = _readable_source(module, module_name, **options)
    if print_output:
        print(text)
    return text


def _indented(text: str) -> str:
    """Indent every line except the first by four blanks. Blank lines stay empty."""
    first, *others = text.split("\n")
    return "\n".join([first, *[f"    {line}" if line.strip() else "" for line in others]])


# Private names of torch.fx's file that libraries import. They exist here without a promise.
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_CodeOnlyModule = CodeOnlyModule
_get_attr, _has_attr, _del_attr = get_attribute, has_attribute, delete_attribute


def _copy_attr(from_module: nn.Module, to_module: nn.Module, target: str) -> None:
    copy_attributes(from_module, to_module, (target,))


def _assign_attr(from_obj: object, to_module: nn.Module, target: str) -> None:
    set_attribute(to_module, target, from_obj)


def _get_attr_via_attr_list(model: nn.Module, attr_list: list[str]) -> Any:
    return get_attribute(model, ".".join(attr_list)) if attr_list else model

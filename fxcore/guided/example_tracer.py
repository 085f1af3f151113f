"""A tracer with an example: it runs each call on the example's values, and goes on where Python asks for a value."""

from __future__ import annotations

import functools
import inspect
import operator
import types
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from types import FrameType
from typing import Any

import torch
from torch import get_default_dtype, nn  # the function of torch, which a trace replaces
from torch.nn.modules.lazy import LazyModuleMixin

from fxcore import torch_fx_registry
from fxcore.errors import ExampleError, ModuleLookupError, TraceError
from fxcore.graph import Graph, gc_paused
from fxcore.graph_module import GraphModule
from fxcore.guard_checks.check_code import is_check
from fxcore.guards import Guard
from fxcore.guided import numpy_calls, replacements
from fxcore.guided.answers import Answers, Messages, has_marks
from fxcore.guided.arguments import drawn, holds_proxies, is_made_of_fields, restored_object, takes_content, value_of
from fxcore.guided.assigned_attributes import AssignedAttributes
from fxcore.guided.caught_calls import CaughtCalls
from fxcore.guided.data_reads import Origin, origin_of
from fxcore.guided.failures import CaughtErrors, explained
from fxcore.guided.indexing import IndexedByProxyError, IndexingMode, is_indexing, is_raised_by_indexing
from fxcore.guided.inner_graphs import InnerGraphs
from fxcore.guided.input_questions import InputQuestions, is_part_of_input, patch_functions
from fxcore.guided.inputs import ExampleInputs
from fxcore.guided.module_calls import has_forward_hooks, is_one_call, run_root, watched_hooks
from fxcore.guided.other_sizes import OtherSizes, can_be_repeated, contents_decide_about_size
from fxcore.guided.outer_reads import OuterReads
from fxcore.guided.proxies import PLAIN_TYPES, TEXT_TYPES, VALUE_PROXIES, ExampleProxy, ExampleTensor, proxy_of
from fxcore.guided.recorded_calls import compiled_functions_inlined
from fxcore.guided.unrecorded_operators import WRITING, TraceAgain, UnrecordedOperators, Ways
from fxcore.guided.written_tensors import WrittenTensors
from fxcore.immutable_collections import immutable_dict
from fxcore.node import Argument, Node
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.operators.effects import effects_of
from fxcore.state.readings import is_array
from fxcore.state.snapshot import Snapshot, state_kept
from fxcore.state.storage import ORDINARY
from fxcore.tracer import TRACE_WITH_EXAMPLE, Tracer
from fxcore.tracing import module_hooks
from fxcore.tracing.call_site import user_frame, user_line
from fxcore.tracing.code_facts import Reached, facts_of_code, functions_in, reachable_functions
from fxcore.tracing.imports import imports_unpatched
from fxcore.tracing.placeholders import callable_behind, name_of
from fxcore.tracing.recorder import SymbolicValue
from fxcore.uninitialized import refuse_uninitialized

# Attributes of a tracer that hold the example's values, and go when the trace ends.
_OF_ONE_TRACE = (
    *("answers", "questions", "messages", "unread_attributes", "written_tensors", "_reached", "_asked_globals"),
    *("caught_errors", "inner_graphs", "_example", "other_sizes", "_assigned", "with_gradient"),
    *("operators", "_made_modules", "_caught_calls", "outer_reads"),
)


class ExampleTracer(Tracer):
    """A tracer with proxies that carry the values of an example.

    A trace with an example puts this class between the user's class of tracer and Tracer; see `trace_with_example`.
    """

    records_without_proxy = True
    proxy_buffer_attributes = True

    _has_arrays = False  # whether the trace met an array of numpy
    _sees_indexing = False  # whether a mode records indices of tensors that are no proxies

    # Methods that users override.

    def note_data_read(self, guard: Guard, reason: str) -> bool:
        """Return whether to take the example's answer where the contents of tensors decide. By default, refuse it."""
        return False

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Record a call of a module as Tracer does. Refuse a leaf without shapes, because the trace would run it."""
        if isinstance(m, LazyModuleMixin):
            path = self.path_of_module(m)
            if self.is_leaf_module(m, path):
                refuse_uninitialized(m, path, f"cannot run with an example, at {user_line()},", TraceError)
        module_class: Any = type(m)  # mypy takes the class for unhashable
        function = _forward_of(module_class)
        if isinstance(function, types.FunctionType):
            self.questions.passed_to(function, (m, *args), kwargs)
        result = super().call_module(m, forward, args, kwargs)
        self.caught_errors.refuse_caught()
        return result

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Return whether a module becomes one node. A scripted module does, because it has no Python to run."""
        return isinstance(m, torch.jit.ScriptModule) or super().is_leaf_module(m, module_qualified_name)

    def _is_one_call(self, m: nn.Module, path: str) -> bool:
        if m in self._made_modules and m.state_dict():
            return False  # its state is as new in each run as the module itself
        return is_one_call(self, m, path, is_leaf=self.is_leaf_module(m, path))

    def path_of_module(self, mod: nn.Module) -> str:
        """Return the path of a module. A module that the traced code made is kept on the root."""
        try:
            return super().path_of_module(mod)
        except ModuleLookupError:
            if self.submodule_paths is None:
                raise
            path = self._install("_module", mod)
            for below, each in mod.named_modules():
                if each not in self.submodule_paths:  # a made container may hold layers of the model
                    self._made_modules.add(each)
                    self.submodule_paths[each] = f"{path}.{below}" if below else path
            return path

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], Any] | None = None,
    ) -> Any:
        """Run a call on the example's values, record it, and return a proxy for its result."""
        if proxy_factory_fn is not None:
            return super().create_proxy(kind, target, args, kwargs, name, type_expr, proxy_factory_fn)
        args, kwargs = self.written_tensors.arguments(kind, target, args, kwargs)
        if self._has_arrays:
            args = numpy_calls.typed(self, args)
        if self.inner_graphs.are_recorded:
            self.inner_graphs.take_in((args, kwargs))
        if kind != "call_module" and "changes_attributes" in effects_of(kind, target).facts:
            self._record_unread_attributes(args[0])
        value, origin = self._run_on_example(kind, target, args, kwargs)
        node = self.record_without_running(kind, target, args, kwargs, name, type_expr)
        if kind.startswith("call") and (errors := self._caught_calls.errors_here()) and node.graph is self.graph:
            self.answers.note_caught(node, errors)
        is_part = is_part_of_input(kind, target, args)
        if isinstance(value, PLAIN_TYPES) or (is_part and self.questions.is_told(value)):
            if is_part or origin.is_data:
                self.answers.note(node, value)
                self.answers.scalars.add(node)
            if is_part and value is None:
                self.questions.told_none()
            return value
        proxy = proxy_of(self, node, value, *origin)
        if isinstance(value, torch.Tensor):
            if value.requires_grad:
                self.with_gradient.add(node)
            if value.is_floating_point() or value.is_complex():
                self.answers.differentiable.add(node)
        else:
            self._has_arrays = self._has_arrays or is_array(value)
        if not isinstance(value, torch.Tensor) or value.dim() == 0:
            self.answers.scalars.add(node)
        if kind == "placeholder" and target in self._example.left_at_default:
            self.answers.note(node, value)
            return value
        if isinstance(value, TEXT_TYPES) or (type(value) is bool and not origin.is_data and _is_compared_with_truth()):
            return self.answers.answer(proxy, lambda value: value, "was read")
        if isinstance(value, (float, torch.Size)) and target is not drawn:
            vars(proxy)["recipe"] = (kind, target, args, kwargs)  # an inner graph computes it again
        if kind == "placeholder" and target in self._example.given_instead_of_none:
            self.questions.given(proxy)
        if not is_part:
            return proxy
        owner = args[0] if target is operator.getitem else None
        return self.questions.taken(proxy, _name_of_part(kind, target, args), owner)

    def _record_unread_attributes(self, proxy: Any) -> None:
        """Record the attributes of a tensor that Python has and no node has read, before the tensor changes them."""
        for each in self.unread_attributes.pop(id(getattr(proxy, "example", None)), ()):
            self.answers.scalars.add(each.node)
            self.answers.dispensable.add(each.node)

    def create_arg(self, a: Any) -> Argument:
        """Return the argument of a node for `a` as Tracer does. A node stands for a tensor that the graph wrote."""
        kind = type(a)
        if kind in ORDINARY:
            a = self.written_tensors.redirected(a)
            kind = type(a)
            if kind in ORDINARY:
                self.refuse_computed(a)
                if self.operators.is_typed_by_default(a):
                    self.answers.note_mode(get_default_dtype, (), {}, get_default_dtype())
        elif kind is str and has_marks(a):
            return self.messages.argument(a)
        inner = self.inner_graphs
        if kind is ExampleTensor or kind in VALUE_PROXIES or (inner.are_recorded and isinstance(a, torch.Tensor)):
            return inner.argument(a)
        if isinstance(a, GraphModule) and (path := inner.paths.get(a)) is not None:
            return self.create_node("get_attr", path, (), {})
        return super().create_arg(a)

    def refuse_computed(self, tensor: torch.Tensor) -> None:
        """Raise TraceError for a constant that was computed from the example or drawn. Trace again if that helps."""
        self.operators.refuse_computed(self, tensor)

    # Recording.

    def record_without_running(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Record a call, and return its node."""
        inner = self.inner_graphs
        if inner.are_recorded and (home := inner.graph_of(kind, target, args)) is not self.graph:
            with inner.recording_in(home):
                return self.record_without_running(kind, target, args, kwargs, name, type_expr)
        node: Node = super().create_proxy(kind, target, args, kwargs, name, type_expr, lambda made: made)
        if target is getattr:
            self.answers.scalars.add(node)
        return node

    def record_numpy(self, function: Any, method: str, args: Any, kwargs: Any, frame: FrameType | None) -> Any:
        """Record a call of a function of numpy; of a universal function if there is the frame that calls it."""
        if frame is None:
            return numpy_calls.record(self, function, args, kwargs)
        return numpy_calls.record_ufunc(self, function, method, args, kwargs, frame)

    def node_of_array(self, array: Any) -> Argument:
        """Return a node that gives an array of numpy. The model keeps the array's numbers as a tensor."""
        held = torch.tensor(array.copy())  # a copy has strides that torch knows
        return self.create_node("call_method", "numpy", (self.create_arg(held),), {})

    def proxy_of_state(self, node: Node, value: torch.Tensor) -> ExampleProxy:
        """Return a proxy for a tensor that a node reads from the model."""
        return proxy_of(self, node, value, False, False)

    def has_gradient(self, node: Node) -> bool:
        """Return whether gradients flow through a node's value, or to parameters of the module that the node calls."""
        if node.op != "call_module":
            return node in self.with_gradient
        return any(each.requires_grad for each in self.root.get_submodule(str(node.target)).parameters())

    def _run_on_example(
        self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, Origin]:
        """Return the value of a call for the example, and how far the contents of inputs decide about the value."""
        if kind == "placeholder":
            return self._example.by_target[target], Origin(False, True)
        with module_hooks.suspended():
            if kind == "get_attr":
                return get_attribute(self.root, target), Origin(False, False)
            call = target if kind == "call_function" else self._callable_of(kind, target)
            values, keywords = value_of(args), {key: value_of(item) for key, item in kwargs.items()}
            caller = _caller_of(kind, target, call, values, keywords)
            try:
                if caller:
                    if caller != WRITING:
                        self.operators.note_example((args, kwargs), caller)
                    value = self.operators.call_as(caller, call, values, keywords)
                else:
                    value = self.operators.call_unseen(call, values, keywords)
            except Exception as error:
                if target is not operator.getitem or not self.questions.missed(*args):
                    self.caught_errors.note(error)
                raise

            def other_result(name: str, proxies: list[ExampleProxy]) -> Any:
                if not contents_decide_about_size(name, args, kwargs, proxies):
                    return None
                again = call if can_be_repeated(kind, target, self.root, args) else None
                return self.other_sizes.result_of(again, name, args, kwargs, value)

            return value, origin_of(kind, target, args, kwargs, value, other_result)

    def _callable_of(self, kind: str, target: Any) -> Callable[..., Any]:
        if kind == "call_method":
            return lambda owner, *rest, **kwargs: getattr(owner, target)(*rest, **kwargs)
        return self.root.get_submodule(target)

    def _path_of(self, value: torch.Tensor | nn.Module) -> str | None:
        if isinstance(value, nn.Parameter) and self._attribute_paths.parameter(value) is None:
            return self._path_of_constant(value)  # the traced code made the parameter
        return super()._path_of(value)

    def _create_unusual_arg(self, a: Any) -> Argument:
        """Return an argument for an object of any class: where Tracer refuses it, a node makes an object like it."""
        if type(a) is type(torch.FloatTensor):  # the old name of a dtype on a device; functions take it as text, too
            return f"{a.__module__}.{a.__name__}"
        if isinstance(a, (SymbolicValue, nn.Module, type)) or hasattr(a, "__fx_create_arg__"):
            return super()._create_unusual_arg(a)
        if is_array(a) and a.dtype.kind in "biufc":
            return self.node_of_array(a)
        if is_dataclass(a) and is_made_of_fields(a):  # before dicts: the outputs of transformers and diffusers are both
            return self._node_of_dataclass(a)
        kind: Any = type(a)
        is_plain = kind is immutable_dict or (isinstance(a, tuple) and hasattr(a, "_fields"))
        if is_plain or not (isinstance(a, dict) or holds_proxies(a)):
            return super()._create_unusual_arg(a)
        held = [self.create_arg(base(a)) for base in (dict, list, tuple) if isinstance(a, base)]
        state = {name: self.create_arg(item) for name, item in getattr(a, "__dict__", {}).items()}
        if held and not state and takes_content(kind):
            factory = [a.default_factory] if isinstance(a, defaultdict) else []
            factory = [each if isinstance(each, type) else self.create_arg(each) for each in factory]
            return self.create_node("call_function", kind, (*factory, *held), {})
        name = kind if "<locals>" in kind.__qualname__ else f"{kind.__module__}:{kind.__qualname__}"
        return self.create_node("call_function", restored_object, (name, state, *held), {})

    # The trace.

    def trace(
        self,
        root: nn.Module | Callable[..., Any],
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
        *,
        example_inputs: Any = None,
        example_kwargs: Mapping[str, Any] | None = None,
        assume: Mapping[str, Any] | None = None,
    ) -> Graph:
        """Record `root` as `Tracer.trace` does with an example. Without inputs, the example is a call without them."""
        if concrete_args is not None:
            raise ExampleError(
                f"cannot trace {name_of(root)} with concrete_args and an example: give these values in example_inputs "
                "or example_kwargs; the graph refuses others"
            )
        positional = () if example_inputs is None else example_inputs
        if isinstance(root, torch.jit.ScriptModule):
            raise TraceError(
                f"{name_of(root)} is a scripted module: it has no Python code to trace\n"
                "Trace the module that was scripted, or call the scripted module in another one, where it is one node"
            )

        self.ways = Ways(set(), set())
        traced = functools.partial(self._traced, root, positional, example_kwargs, assume)
        try:
            with gc_paused(), torch_fx_registry.tracing(), compiled_functions_inlined():
                try:
                    return traced()
                except BaseException as error:
                    if not (isinstance(error, IndexedByProxyError) or is_raised_by_indexing(error)):
                        raise
                with IndexingMode():
                    self._sees_indexing = True
                    return traced()
        except Exception as error:
            reason = explained(error, root, self.traced_func_name, positional, example_kwargs)
            if reason is error:
                raise
            raise reason from error
        finally:
            self._sees_indexing = self._has_arrays = False

    def _traced(self, *what: Any) -> Graph:
        """Record as `_traced_once` does, in all ways that are found to be needed."""
        while True:
            try:
                return self._traced_once(*what)
            except TraceAgain:
                self.num_calls, self.node_name_to_scope = {}, {}

    def _traced_once(self, root: Any, inputs: Any, kwargs: Any, assume: Mapping[str, Any] | None) -> Graph:
        function, is_method = self._begin(root)
        example = ExampleInputs(function, root if is_method else None, inputs, kwargs)
        functions = () if is_method else (function,)
        with (
            state_kept(self.root, self._lifted_paths, functions=functions) as snapshot,
            imports_unpatched(),
            self._following(example, function, assume, snapshot),
        ):
            graph = self._record(root, function, function, *example.arguments_for_root(self))
            self.answers.become_guards(graph, self.outer_reads.found())
            self.inner_graphs.remove_twins()
            return graph

    def follow_indexing(self, frame: FrameType) -> None:
        """Start the trace again, with the mode that sees indexing, if a proxy is an index in `frame`."""
        if not self._sees_indexing and is_indexing(frame.f_code, frame.f_lasti):
            raise IndexedByProxyError

    @contextmanager
    def _following(
        self, example: ExampleInputs, function: types.FunctionType, assume: Mapping[str, Any] | None, snapshot: Snapshot
    ) -> Iterator[None]:
        """Hold the example's values while the trace runs `function`.

        Constants of a failed trace do not stay on the model.
        """
        self._example = example
        self._reached = self._traced_functions(function)
        functions: list[Any] = [each.function for each in self._reached]
        self._asked_globals = {id(each.__globals__): each.__globals__ for each in functions}
        self.questions = InputQuestions(self, inspect.unwrap(function), self._reached)
        self.messages = Messages(self)
        # By the example's tensor: attributes that have no node yet.
        self.unread_attributes: dict[int, list[ExampleProxy]] = {}
        self.other_sizes = OtherSizes()
        self._assigned = AssignedAttributes(self.root, snapshot)
        self.with_gradient: set[Node] = set()  # nodes with a value that gradients flow through
        self.inner_graphs = InnerGraphs(self)
        self.answers = Answers(self, assume)
        self.caught_errors = CaughtErrors(assume)
        self.outer_reads = OuterReads(self, functions, callable_behind(function))
        # The checks of a graph that is traced again catch errors to refuse the call.
        traced = [each.__code__ for each in functions if not is_check(each)]
        self._caught_calls = CaughtCalls(traced)
        self.operators = UnrecordedOperators(snapshot, self.ways)
        self._made_modules: set[nn.Module] = set()
        self.written_tensors = WrittenTensors(self, self.proxy_of_state)
        constants = set(self._lifted_paths)
        try:
            self.written_tensors.begin()
            with watched_hooks(self), self.operators.active():
                yield
        except BaseException:
            self._lifted_paths &= constants
            raise
        finally:
            self.written_tensors.close()
            for name in _OF_ONE_TRACE:
                delattr(self, name)

    def _traced_functions(self, function: types.FunctionType) -> list[Reached]:
        """Return the functions of the user that the trace may run."""
        kinds: set[Any] = {type(module) for module in self.root.modules()}
        starts: list[tuple[Any, type]] = [(function, type(self.root)), *((_forward_of(kind), kind) for kind in kinds)]
        if (behind := callable_behind(function)) is not None:
            is_method = isinstance(behind, types.MethodType)
            starts.append((behind, type(behind.__self__)) if is_method else (type(behind).__call__, type(behind)))
        held = [(type(module), value) for module in self.root.modules() for value in vars(module).values()]
        starts += [(each, kind) for kind, value in held for each in functions_in(value)]
        return reachable_functions(starts, {type(value) for _, value in held})

    def _run(self, call: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            return run_root(self.root, call, list(args), kwargs)

        self.questions.code_runs = True
        with self.outer_reads.watched():
            outputs = super()._run(run, arguments, keywords)
        self.caught_errors.refuse_caught()
        self.questions.code_runs = False
        self.answers.notes = self._assigned.record(self)
        return outputs

    def _on_attribute_read(self, name: str, value: Any) -> Any:
        return value if isinstance(value, ExampleProxy) else super()._on_attribute_read(name, value)

    def _patch_functions(self) -> None:
        # Before others that replace the same names: the first replacement stays.
        replacements.install(self._patcher)
        super()._patch_functions()
        patch_functions(self._patcher, self.questions, self._reached)
        for names in self._asked_globals.values():
            replacements.install_in(self._patcher, names)

    def _patch_globals(self, names: dict[str, Any]) -> None:
        super()._patch_globals(names)
        if id(names) not in self._asked_globals:
            self._asked_globals[id(names)] = names
            replacements.install_in(self._patcher, names)

    def _progress(self) -> tuple[Node | None, int, int]:
        return super()._progress(), len(self.answers), len(self.caught_errors)

    def _return_to(self, progress: tuple[Node | None, int, int]) -> None:
        super()._return_to(progress[0])
        self.answers.forget_since(progress[1])
        self.caught_errors.forget_since(progress[2])


@functools.lru_cache(maxsize=1024)
def _forward_of(kind: Any) -> Any:
    """Return the forward of a class of modules. That of a scripted class can only be read without binding it."""
    return inspect.getattr_static(kind, "forward", None)


def _caller_of(kind: str, target: Any, call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return the path of a called leaf, or the name of a function, that may keep tensors; else WRITING or ""."""
    if kind == "call_module":
        if not type(call).__module__.startswith("torch.nn.modules.") or has_forward_hooks(call):
            return str(target)
        return "" if getattr(call, "max_norm", None) is None else WRITING
    effects = effects_of(kind, target)
    if "call" in effects.kinds or (kind == "call_method" and not isinstance(args[0], torch.Tensor)):
        return str(getattr(target, "__name__", target))
    return WRITING if effects.written(args, kwargs) else ""


def _name_of_part(kind: str, target: Any, args: tuple[Any, ...]) -> Any:
    return str(target).lstrip("*") if kind == "placeholder" else args[1] if len(args) > 1 else None


def _is_compared_with_truth() -> bool:
    """Return whether the running code asks whether a value `is True` or `is False`."""
    frame = user_frame()
    return frame is not None and not facts_of_code(frame.f_code).compared_constants.isdisjoint((True, False))


@TRACE_WITH_EXAMPLE.provide
def trace_with_example(
    tracer: Tracer,
    root: nn.Module | Callable[..., Any],
    concrete_args: dict[str, Any] | tuple[Any, ...] | None,
    **example: Any,
) -> Graph:
    """Trace with an example and a tracer of any class.

    While the trace runs, ExampleTracer stands between the tracer's own class and Tracer. Therefore the methods that
    users override come first, and their calls of `super()` reach ExampleTracer.
    """
    kind: Any = type(tracer)  # mypy takes the class for unhashable
    tracer.__class__ = _with_examples(kind)
    try:
        graph = ExampleTracer.trace(tracer, root, concrete_args, **example)  # type: ignore[arg-type]  # it is one now
    finally:
        tracer.__class__ = kind
    graph._tracer_cls = kind
    return graph


@functools.lru_cache(maxsize=32)
def _with_examples(kind: type[Tracer]) -> type[Tracer]:
    """Return a class of tracers that has ExampleTracer between `kind` and Tracer."""
    if kind is Tracer:
        return ExampleTracer
    made = types.new_class(kind.__name__, (kind, ExampleTracer))
    made.__module__, made.__qualname__ = kind.__module__, kind.__qualname__
    return made

"""The private parts of torch that the frontends read. If a version of torch lacks one, `InternalsError` names it.

A capture imports a part when it needs the part, because an import of Dynamo takes seconds.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from types import CodeType
from typing import Any

import torch

from pytest_fxgraph.errors import CaptureError

# The forms of torch's guards on Python values, by the kind of the fact; NAME stands for the name of the value.
_FORMS_OF_GUARDS = (
    ("value", r"NAME == (.+)"),
    ("item", r"NAME is (None)"),
    ("length", r"len\(NAME\) == (\d+)"),
    ("empty", r"not NAME"),
    ("key", r"(?:set|dict)\.__contains__\(NAME, (.+)\)"),
    ("key", r"___dict_contains\((.+), NAME\)"),
    ("no key", r"not (?:set|dict)\.__contains__\(NAME, (.+)\)"),
    ("no key", r"not ___dict_contains\((.+), NAME\)"),
    ("attribute", r"hasattr\(NAME, '(.+)'\)"),
    ("no attribute", r"not hasattr\(NAME, '(.+)'\)"),
    ("alias", r"NAME is (.+)"),
    ("alias", r"(.+) is NAME"),
    ("key", r"list\((?:dict\.keys\(NAME\)|NAME\.keys\(\))\)\[\d+\] == (.+)"),
    ("keys", r"list\((?:dict\.keys\(NAME\)|NAME\.keys\(\))\) == (.+)"),
    ("type", r"___check_type_id\(NAME, \d+\), type=<class '(.+)'>"),
    ("identity", r"___check_obj_id\(NAME, (?:type=)?(\d+)\)(?:, type=.*)?"),
)
_NAME = "\0"  # in place of a name, because a pattern for each name would be compiled anew
_FACTS_OF_GUARDS = tuple((kind, re.compile(form.replace("NAME", _NAME))) for kind, form in _FORMS_OF_GUARDS)
_FIXED = {"empty": "0"}
# State of the process that every compiled function checks; the C code of torch's GLOBAL_STATE has the same list.
_AUTOCAST = ("cpu", "cuda")
_MODES: Mapping[str, Callable[[], object]] = {
    "torch.is_grad_enabled()": torch.is_grad_enabled,
    "torch.get_default_dtype()": torch.get_default_dtype,
    "torch.get_default_device()": torch.get_default_device,
    "torch.get_num_threads()": torch.get_num_threads,
    "torch.is_autocast_cache_enabled()": torch.is_autocast_cache_enabled,
    "torch.are_deterministic_algorithms_enabled()": torch.are_deterministic_algorithms_enabled,
    "torch.is_deterministic_algorithms_warn_only_enabled()": torch.is_deterministic_algorithms_warn_only_enabled,
    "number of torch function modes": torch._C._len_torch_function_stack,
    "torch.backends.cuda.matmul.allow_tf32": lambda: torch.backends.cuda.matmul.allow_tf32,
    **{f"torch.is_autocast_enabled({device!r})": partial(torch.is_autocast_enabled, device) for device in _AUTOCAST},
}
_CONSTANTS = {id(value): repr(value) for value in (True, False, None)}
_SHAPES = "dynamic_shapes= of frontend 'dynamo'"
_LOGGERS = (
    *("torch._dynamo", "torch._guards", "torch.fx", "torch.__trace", "torch.export", "torch._functorch"),
    *("torch._subclasses", "torch._inductor"),
)
Decompositions = Mapping[Any, Any] | None  # torch's functions for operators
_Backend = Callable[[Any, Sequence[Any]], Callable[..., Any]]


class InternalsError(CaptureError):
    """A missing part of torch that a field of a capture is read from."""


def part_of_torch(module: str, name: str, needed_for: str) -> Any:
    """Return an attribute of one of torch's modules. Raises InternalsError, with its name, if it is missing."""
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        raise InternalsError(
            f"torch {torch.__version__} has no {module}.{name}, from which {needed_for} is read; "
            "use a release of torch from 2.6 to 2.14, or a pytest-fxgraph that knows this one"
        ) from None


@dataclass(frozen=True)
class Unavailable:
    """The reason why a fact cannot be known; a question for the fact raises an error with this reason."""

    reason: str


@dataclass(frozen=True)
class GuardFailure:
    """torch's words for a failed guard; the function was compiled again."""

    code: CodeType
    text: str


@dataclass(frozen=True)
class GuardedValue:
    """A fact that a compiled function relies on: "value", `L['k']`, "2"."""

    kind: str  # "value", "length", "type", "key", "identity", "tensor", "alias", "hooks", "attribute", "mode"
    name: str
    text: str


@dataclass(frozen=True)
class FailedFrame:
    """A function that Dynamo left to Python; the file is None if torch does not name it."""

    file: str | None
    function: str | None
    first_line: int | None
    line: int | None
    kind: str  # "" for a function without an operator
    reason: str


class DynamoLog:
    """Dynamo's log of its compilations, from the creation of this object on."""

    def __init__(self) -> None:
        self.on_failure: Callable[[GuardFailure], None] = lambda failure: None  # called when a guard fails
        self.on_guards: Callable[[list[GuardedValue]], None] = lambda facts: None  # called after each compilation
        self._tensors: dict[str, torch.Tensor] = {}  # inputs of the graphs by torch's names, with symbolic sizes
        self._reasons: list[Any] | Unavailable = _or_unavailable(
            "torch._dynamo.output_graph", "graph_break_reasons", "Capture.breaks"
        )
        self._first = 0 if isinstance(self._reasons, Unavailable) else len(self._reasons)
        self._metrics: Any = _or_unavailable("torch._dynamo.utils", "get_compilation_metrics", "Capture.skipped")
        self._refused = dict(_refusals())
        _part_or("torch._dynamo.utils", "clear_compilation_metrics", lambda: None)()

    def break_reasons(self) -> list[Any] | Unavailable:
        """Return the reasons of graph breaks, each with `reason` and `user_stack`."""
        return self._reasons if isinstance(self._reasons, Unavailable) else self._reasons[self._first :]

    def failed_frames(self) -> list[FailedFrame] | Unavailable:
        """Return the functions that Dynamo gave up."""
        if isinstance(self._metrics, Unavailable):
            return self._metrics
        # An entry without failure and graph is a function without an operator; Dynamo never looks at it again. An entry
        # without failure and function is a lowered backward graph.
        return [
            self._failed_frame(each)
            for each in self._metrics()
            if each.fail_type is not None or (each.graph_op_count is None and each.co_filename is not None)
        ]

    def _failed_frame(self, metrics: Any) -> FailedFrame:
        reason = metrics.fail_reason or ""
        if not reason and not metrics.has_guarded_code:
            reason = min(metrics.restart_reasons or [self._last_refusal()])
        kind = metrics.fail_type or ("skipped" if reason else "")
        lines = metrics.co_firstlineno, metrics.fail_user_frame_lineno
        return FailedFrame(metrics.co_filename, metrics.co_name, *lines, kind, reason)

    def _last_refusal(self) -> str:
        """Return torch's words for its last refusal, because older releases do not name the refused function."""
        since = [text for text, count in _refusals().items() if count > self._refused.get(text, 0)]
        return since[-1] if since else ""

    def compiled(self, model: Any, backend: _Backend, *, is_dynamic: bool | None) -> Callable[..., Any]:
        """Return the model compiled by Dynamo; `backend` gets each graph and the values of its inputs."""
        optimize = part_of_torch("torch._dynamo", "optimize", "the capture of frontends 'dynamo' and 'aot'")

        def noted(graph_module: Any, examples: Sequence[Any]) -> Callable[..., Any]:
            self._note_tensors(graph_module.graph)
            return backend(graph_module, examples)

        compiled: Callable[..., Any] = optimize(
            noted, dynamic=is_dynamic, guard_fail_fn=self._take_failure, guard_export_fn=self._take_guards
        )(model)
        return compiled

    def _note_tensors(self, graph: Any) -> None:
        for node in graph.nodes:
            source = getattr(node, "_dynamo_source", None) or getattr(node.meta.get("grapharg"), "source", None)
            example = node.meta.get("example_value")
            if node.op == "placeholder" and source is not None and isinstance(example, torch.Tensor):
                self._tensors[_name_of(source)] = example

    def _take_failure(self, failure: Any) -> None:
        self.on_failure(GuardFailure(failure.orig_code, failure.reason))

    def _take_guards(self, guards: Any) -> None:
        # torch empties the set after the compilation, so the guards are read at once.
        self.on_guards([fact for guard in guards for fact in facts_of(guard, self._tensors)])


def facts_of(guard: Any, examples: Mapping[str, torch.Tensor]) -> Iterator[GuardedValue]:
    """Yield the facts that one of torch's guards holds; `examples` are inputs by torch's names, with symbolic sizes."""
    name, kind, codes = _name_of(guard), guard.inner_create_fn().__name__, guard.code_list or ()
    value = guard.obj_weakref() if guard.obj_weakref is not None else None
    if kind == "TENSOR_MATCH" and isinstance(value, torch.Tensor):
        yield GuardedValue("tensor", name, _text_of_tensor(value, examples.get(name, value)))
    elif kind == "NOT_PRESENT_IN_GENERIC_DICT":
        yield GuardedValue("not set", name, guard.create_fn.keywords["attr"])
    elif kind in ("GLOBAL_STATE", "GRAD_MODE"):  # torch 2.6 has the second guard alone, and checks all modes, too
        yield from _modes()
    elif kind == "EMPTY_NN_MODULE_HOOKS_DICT":
        if not _part_or("torch._dynamo.config", "skip_nnmodule_hook_guards", False):
            yield GuardedValue("hooks", name, "none")
    elif not codes and kind in ("CLOSURE_MATCH", "FUNCTION_MATCH"):
        yield GuardedValue("identity", name, "the same function")
    for code in codes:
        yield from _facts_of_guard(name, code)


def _text_of_tensor(value: torch.Tensor, example: torch.Tensor) -> str:
    """Describe the facts of a tensor that torch compares. A symbolic size is written as in the graph."""
    sizes = ", ".join(map(str, example.shape))
    facts = [f"{str(value.dtype).removeprefix('torch.')}[{sizes}] on {value.device}"]
    is_plain = type(value) in (torch.Tensor, torch.nn.Parameter)
    facts += [] if is_plain else [f"a {type(value).__qualname__}"]
    facts += ["requires grad"] if value.requires_grad else []
    if is_plain and value.layout is torch.strided and not value.is_contiguous():
        facts.append(f"strides {tuple(value.stride())}")
    return ", ".join(facts)


def _name_of(named: Any) -> str:
    """Return torch's name of a guard or a source: a text, and a method in older releases."""
    return named.name if isinstance(named.name, str) else str(named.name())


def _facts_of_guard(name: str, code: str) -> Iterator[GuardedValue]:
    """Read torch's code of a guard on a value of that name; nothing for code of another form, such as a tensor's."""
    nameless = code.replace(name, _NAME)
    for kind, pattern in _FACTS_OF_GUARDS:
        found = pattern.fullmatch(nameless)
        if found is None:
            continue
        text = found[1].replace(_NAME, name) if pattern.groups else _FIXED[kind]
        if kind == "identity":
            constant = _CONSTANTS.get(int(text))
            yield GuardedValue("identity" if constant is None else "value", name, constant or "the same object")
        else:
            yield GuardedValue(kind, name, text)
        return


def _modes() -> Iterator[GuardedValue]:
    for name, read in _MODES.items():
        # torch warns of old settings, and refuses to read a setting that was made by two interfaces. Torch 2.6 fails at
        # a default device that was taken back.
        with contextlib.suppress(RuntimeError, AttributeError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield GuardedValue("mode", name, str(read()))
    for device in filter(torch.is_autocast_enabled, _AUTOCAST):
        yield GuardedValue("mode", f"torch.get_autocast_dtype({device!r})", str(torch.get_autocast_dtype(device)))


def _refusals() -> Mapping[str, int]:
    refusals: Mapping[str, int] = _part_or("torch._dynamo.utils", "counters", {}).get("unimplemented", {})
    return refusals


def _or_unavailable(module: str, name: str, needed_for: str) -> Any:
    try:
        return part_of_torch(module, name, needed_for)
    except InternalsError as error:
        return Unavailable(str(error))


@contextlib.contextmanager
def dynamo_reset() -> Iterator[None]:
    """Reset Dynamo before and after a with block, and restore its counters and records at the end."""
    reset = part_of_torch("torch._dynamo", "reset", "the capture of frontends 'dynamo' and 'aot'")
    counters = _part_or("torch._dynamo.utils", "counters", {})
    metrics = _part_or("torch._dynamo.utils", "_compilation_metrics", [])
    reasons = _part_or("torch._dynamo.output_graph", "graph_break_reasons", [])
    counted, measured, broken = {kind: copy(count) for kind, count in counters.items()}, [*metrics], [*reasons]
    reset()
    try:
        yield
    finally:
        reset()
        counters.clear()
        counters.update(counted)
        metrics.clear()
        metrics.extend(measured)
        reasons[:] = broken


def _part_or(module: str, name: str, default: Any) -> Any:
    found = _or_unavailable(module, name, "nothing")
    return default if isinstance(found, Unavailable) else found


@contextlib.contextmanager
def torch_logs_quiet() -> Iterator[None]:
    """Silence torch's logs in a with block, because a capture reports the same facts in its own words."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def mark_size(tensor: torch.Tensor, dimension: int, size: Any) -> None:
    """Mark a size of an input for Dynamo by torch.export's values: a number, a named dimension with bounds, or a word.

    Raises InternalsError if this torch has no function for it.
    """
    hint = getattr(getattr(size, "type", size), "name", None)  # torch.export.Dim.AUTO, a word since torch 2.6
    lower, upper = _bound(getattr(size, "min", None)), _bound(getattr(size, "max", None))
    if isinstance(size, int) or hint == "STATIC":
        part_of_torch("torch._dynamo", "mark_static", _SHAPES)(tensor, dimension)
    elif hint == "AUTO":
        part_of_torch("torch._dynamo", "maybe_mark_dynamic", _SHAPES)(tensor, dimension)
    else:
        part_of_torch("torch._dynamo", "mark_dynamic", _SHAPES)(tensor, dimension, min=lower, max=upper)


def _bound(value: Any) -> int | None:
    # torch.export writes a missing bound as the bound of a machine integer; Dynamo takes None.
    return value if isinstance(value, int) and 0 < value < 2**60 else None


def compile_with_aot(
    graph_module: Any, examples: Sequence[Any], take: Callable[[str, Any], None], decompositions: Decompositions
) -> Callable[..., Any]:
    """Lower one of Dynamo's graphs by AOT autograd; `take` gets "joint", "forward" and "backward" graphs."""
    aot_autograd = part_of_torch("torch._dynamo.backends.common", "aot_autograd", "frontend 'aot'")
    default_partition = part_of_torch("torch._functorch.partitioners", "default_partition", "frontend 'aot'")
    boxed = part_of_torch("torch._functorch.aot_autograd", "make_boxed_func", "frontend 'aot'")

    def compile_graph(kind: str, graph: Any, _: Sequence[Any]) -> Any:
        take(kind, graph)
        return boxed(graph.forward)

    def partition(joint: Any, inputs: Any, **options: Any) -> Any:
        take("joint", joint)
        return default_partition(joint, inputs, **options)

    backend = aot_autograd(
        fw_compiler=partial(compile_graph, "forward"),
        bw_compiler=partial(compile_graph, "backward"),
        inference_compiler=partial(compile_graph, "forward"),
        partition_fn=partition,
        decompositions=dict(decompositions) if decompositions else None,
    )
    lowered: Callable[..., Any] = backend(graph_module, examples)
    return lowered


@dataclass(frozen=True)
class CompiledFunction:
    """A function, or a part of it, while Dynamo hands its graph to a backend."""

    code: CodeType
    arguments: Mapping[str, Any]
    module: str
    break_reason: Any  # the reason of the break that ended the graph, with `reason` and `user_stack`; None without one


def compiled_function(output_graph: Any) -> CompiledFunction:
    """Describe the function of one of Dynamo's graphs. Raises InternalsError if this torch keeps it elsewhere."""
    try:
        function, reason = output_graph.root_tx, output_graph.compile_subgraph_reason
        is_break = reason is not None and reason.graph_break
        name = str(function.f_globals.get("__name__", ""))
        return CompiledFunction(function.f_code, function.f_locals, name, reason if is_break else None)
    except AttributeError as error:
        raise InternalsError(
            f"torch {torch.__version__} has no {error.name!r} at Dynamo's graphs, from which the compiled function is "
            "read; use a release of torch from 2.6 to 2.14, or a pytest-fxgraph that knows this one"
        ) from None


def is_compiling() -> bool:
    """Return whether Dynamo compiles a function on this thread."""
    context = _part_or("torch._guards", "CompileContext", None)
    return context is not None and context.try_get() is not None


@contextlib.contextmanager
def modes_off() -> Iterator[None]:
    """Switch off all modes of functions and dispatch in a with block, because a mode may count or change operators."""
    without_modes = _part_or("torch.utils._python_dispatch", "_disable_current_modes", contextlib.nullcontext)
    # Switching the functions off concerns subclasses of tensors, too, so it is left out where no mode is active.
    has_mode = torch._C._len_torch_function_stack() > 0
    with torch._C.DisableTorchFunction() if has_mode else contextlib.nullcontext(), without_modes():
        yield


def leave_to_python(code: CodeType) -> None:
    """Make Dynamo run a function of ours as it is. The functions that the function calls are compiled as ever."""
    _part_or("torch._dynamo.eval_frame", "skip_code", lambda code: None)(code)


def core_decompositions() -> Mapping[Any, Any]:
    """Return torch's decompositions to its core operators."""
    made: Mapping[Any, Any] = part_of_torch("torch._decomp", "core_aten_decompositions", "decompositions='core'")()
    return made


def traced_by_make_fx(
    function: Callable[..., Any], args: Sequence[Any], *, is_symbolic: bool, decompositions: Decompositions
) -> Any:
    """Return the graph module that make_fx records of a function."""
    make_fx = part_of_torch("torch.fx.experimental.proxy_tensor", "make_fx", "frontend 'make_fx'")
    mode = "symbolic" if is_symbolic else "real"
    with contextlib.nullcontext() if is_symbolic else one_mode_for_values(args):
        return make_fx(function, dict(decompositions) if decompositions else None, tracing_mode=mode)(*args)


def one_mode_for_values(tensors: Sequence[Any]) -> contextlib.AbstractContextManager[Any]:
    """Let make_fx describe the values of all nodes in one mode of fake tensors.

    make_fx makes a mode for each node otherwise, and each mode keeps a stack of Python's frames. A capture of a decoder
    of 16 layers takes 4.5 s of CPU in place of 6.7 s (torch 2.13). Nothing happens where there is a mode already.
    """
    detected = part_of_torch("torch._guards", "detect_fake_mode", "frontend 'make_fx'")(tensors)
    if detected is not None:
        return contextlib.nullcontext()
    made = part_of_torch("torch._subclasses.fake_tensor", "FakeTensorMode", "frontend 'make_fx'")()
    context = part_of_torch("torch._guards", "TracingContext", "frontend 'make_fx'")(made)
    entered: contextlib.AbstractContextManager[Any] = part_of_torch("torch._guards", "tracing", "frontend 'make_fx'")(
        context
    )
    return entered


def shape_facts(graph: Any) -> tuple[dict[Any, Any], list[str]]:
    """Return the ranges of the symbols in a graph's values, and the trace's assumptions about the symbols as texts.

    Raises InternalsError if this torch has no ranges where earlier versions keep them.
    """
    symbols: dict[Any, Any] = {}
    environments: dict[int, Any] = {}
    for node in graph.nodes:
        for size in _symbolic_sizes(node.meta):
            environments[id(size.node.shape_env)] = size.node.shape_env
            symbols.update(dict.fromkeys(size.node.expr.free_symbols, size.node.shape_env))
    ranges, assumed = {}, []
    for symbol in sorted(symbols, key=str):
        known = getattr(symbols[symbol], "var_to_range", None)
        if known is None:
            raise InternalsError(
                f"torch {torch.__version__} has no ShapeEnv.var_to_range, from which Capture.range_constraints is read"
            )
        if symbol in known:
            ranges[symbol] = known[symbol]
    for environment in environments.values():
        assumed += [str(guard.expr) for guard in getattr(environment, "guards", ()) if _relates(guard.expr, symbols)]
    return ranges, sorted(set(assumed))


def _relates(expression: Any, symbols: Mapping[Any, Any]) -> bool:
    """Return whether a guard relates a graph's symbols beyond a bound; the ranges hold the bounds."""
    own = set(expression.free_symbols)
    return bool(own) and own <= symbols.keys() and (len(own) > 1 or "Mod(" in str(expression))


def _symbolic_sizes(meta: Mapping[str, Any]) -> Iterator[Any]:
    value = meta.get("val", meta.get("example_value"))
    sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
    for size in sizes:
        if isinstance(size, torch.SymInt) and hasattr(size.node, "expr"):
            yield size

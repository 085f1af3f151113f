"""The private parts of Inductor that frontend "inductor" reads. If a version of torch lacks one, an error names it."""

from __future__ import annotations

import contextlib
import importlib
import math
import operator
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial, partialmethod
from typing import Any
from unittest import mock

import torch

from fxcore import interop
from fxcore.operators.effects import effects_of
from pytest_fxgraph.captures import kernels
from pytest_fxgraph.captures.kernels import FusedNode, Kernel, KernelPlan, RefusedFusion
from pytest_fxgraph.captures.torch_internals import Decompositions, Unavailable, part_of_torch
from pytest_fxgraph.document.origins import Origins

_NEEDED_FOR = "frontend 'inductor'"
# The passes of each phase run in one function of torch._inductor.compile_fx.
_PHASES = {
    "pre-grad": "_recursive_pre_grad_passes",
    "joint": "_recursive_joint_graph_passes",
    "post-grad": "_recursive_post_grad_passes",
}
# A warm cache would skip the passes under test, and a pool of compilers would outlive the capture.
_SETTINGS = {"force_disable_caches": True, "fx_graph_cache": False, "compile_threads": 1}

# The questions for the compiler's kind in torch._inductor.cpp_builder.
_COMPILERS = ("is_gcc", "is_clang", "is_intel_compiler", "is_apple_clang", "is_msvc_cl")

# Called with the phase, the name of the pass and torch's graph module: "" begins a phase, and "end" ends it.
OnPass = Callable[[str, str, Any], None]
# Called with the kind of a graph, the graph after the phase post-grad, and its kernels.
OnKernels = Callable[[str, Any, "KernelPlan | Unavailable"], None]


class _KernelsKnownError(BaseException):
    """Ends a compilation of Inductor when the kernels are known, before a compiler runs."""


def _part(module: str, name: str) -> Any:
    return part_of_torch(f"torch._inductor.{module}", name, _NEEDED_FOR)


@contextlib.contextmanager
def inductor_watched(on_pass: OnPass) -> Iterator[None]:
    """Tell of every pass of Inductor in a with block; its caches are fresh, its settings restored at the end."""
    config = importlib.import_module("torch._inductor.config")
    compile_fx = importlib.import_module("torch._inductor.compile_fx")
    observer = part_of_torch("torch.fx.passes.graph_transform_observer", "GraphTransformObserver", _NEEDED_FOR)
    utils = importlib.import_module("torch._inductor.utils")
    fresh_cache = getattr(utils, "fresh_cache", None) or _part("utils", "fresh_inductor_cache")
    with _warnings_off():
        settings = config.get_config_copy()
    current: _Running = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(_warnings_off())
        stack.callback(_restore_settings, config, settings)
        folder = stack.enter_context(tempfile.TemporaryDirectory())  # torch keeps the cache of a failed compilation
        stack.enter_context(fresh_cache(dir=folder))
        stack.enter_context(config.patch({key: value for key, value in _SETTINGS.items() if key in settings}))
        if not (settings.get("max_autotune") or settings.get("max_autotune_gemm")):
            stack.enter_context(_without_compiler())
        for phase, name in _PHASES.items():
            watched: Any = partial(_run_phase, phase, _part("compile_fx", name), current, on_pass)
            stack.enter_context(mock.patch.object(compile_fx, name, watched))
        for name in ("apply_graph_pass", "apply_gm_pass"):
            watched = partialmethod(_run_pass, getattr(observer, name), current, on_pass)
            stack.enter_context(mock.patch.object(observer, name, watched))
        yield


@contextlib.contextmanager
def _warnings_off() -> Iterator[None]:
    """Silence torch's warnings about settings that a capture chose or copied."""
    with warnings.catch_warnings():
        for message in ("dynamo_pgo force disabled", "Skipping serialization"):
            warnings.filterwarnings("ignore", message=message)
        yield


def _restore_settings(config: Any, settings: Mapping[str, Any]) -> None:
    now = config.get_config_copy()
    changed = {key: value for key, value in settings.items() if now.get(key) != value}
    if changed:
        config.load_config(changed)


@contextlib.contextmanager
def _without_compiler() -> Iterator[None]:
    """Generate code for GCC without vector instructions, without looking for either.

    To find them costs runs of a compiler, and fails without one. No fusion depends on them.
    """
    instructions = importlib.import_module("torch._inductor.cpu_vec_isa")
    builder = importlib.import_module("torch._inductor.cpp_builder")
    nothing = _part("cpu_vec_isa", "invalid_vec_isa")
    # Each of these functions keeps its answer, so that a patched name of the compiler would outlive the capture.
    kinds = [name for name in _COMPILERS if hasattr(builder, name)]
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(instructions, "pick_vec_isa", return_value=nothing))
        for name in kinds:
            stack.enter_context(mock.patch.object(builder, name, return_value=name == "is_gcc"))
        yield


_Running = list[tuple[str, Any]]  # the phase that runs, with its graph module


def _run_phase(
    phase: str, function: Any, running: _Running, on_pass: OnPass, graph_module: Any, *args: Any, **kwargs: Any
) -> Any:
    if running:  # a graph inside the graph
        return function(graph_module, *args, **kwargs)
    on_pass(phase, "", graph_module)
    running.append((phase, graph_module))
    try:
        returned = function(graph_module, *args, **kwargs)
    finally:
        running.pop()
    on_pass(phase, "end", graph_module if returned is None else returned)
    return returned


def _run_pass(observer: Any, function: Any, running: _Running, on_pass: OnPass, run: Any) -> Any:
    returned = function(observer, run)
    if running and observer.gm is running[-1][1]:
        on_pass(running[-1][0], observer.passname, observer.gm)
    return returned


def in_order(graph_module: Any) -> Any:
    """Return a graph module in which each node stands behind its inputs; a copy if some do not.

    Replacements of patterns break the order, and torch mends it several passes later.
    """
    placed: dict[Any, None] = {}
    for node in graph_module.graph.nodes:
        waiting = [node]
        while waiting:
            inputs = [each for each in waiting[-1].all_input_nodes if each not in placed]
            waiting += inputs
            if not inputs:
                placed[waiting.pop()] = None
    if [*placed] == [*graph_module.graph.nodes]:
        return graph_module
    made = torch.fx.Graph()
    copies: dict[Any, Any] = {}
    for node in placed:
        copies[node] = made.node_copy(node, copies.__getitem__)
    return torch.fx.GraphModule(graph_module, made)


def compile_with_inductor(
    source: Any, examples: Sequence[Any], on_graph: Callable[[], None], on_kernels: OnKernels, table: Decompositions
) -> Callable[..., Any]:
    """Compile one of Dynamo's graphs by Inductor up to the kernels, and return a function that runs it eagerly."""
    compile_fx, inner = _part("compile_fx", "compile_fx"), _part("compile_fx", "compile_fx_inner")
    boxed = part_of_torch("torch._functorch.aot_autograd", "make_boxed_func", _NEEDED_FOR)

    def compile_graph(graph: Any, inputs: Sequence[Any], **options: Any) -> Any:
        on_graph()
        runnable = interop.from_torch(graph)
        kind = "backward" if options.get("is_backward") else "forward"
        made = compiled_plan(partial(inner, graph, inputs, **options))
        on_kernels(kind, graph, made)
        return boxed(runnable.forward)

    options = {} if table is None else {"decompositions": dict(table)}
    compiled: Callable[..., Any] = compile_fx(source, examples, inner_compile=compile_graph, **options)
    return compiled


def compiled_plan(compile_graph: Callable[[], Any]) -> KernelPlan | Unavailable:
    """Let Inductor compile a graph, and return its kernels; the reason if code generation failed."""
    lowering = _part("graph", "GraphLowering")
    why = _part("scheduler", "WhyNoFuse")
    made: list[KernelPlan | Unavailable] = []
    refused: dict[tuple[str, str], str] = {}

    def plan(graph: Any) -> Any:
        try:
            generated = graph.codegen_with_cpp_wrapper() if graph.cpp_wrapper else graph.codegen()
            made.append(plan_of(graph, refused, generated[0]))
        except Exception as error:
            made.append(_no_kernels(error))
        raise _KernelsKnownError

    def note(self: Any, reason: str, *args: Any) -> Any:
        told = tell(self, reason, *args)
        first, second = (getattr(self, f"name{n}", None) or getattr(self, f"node{n}").get_name() for n in (1, 2))
        refused[first, second] = reason % args
        return told

    tell = why.__call__
    with mock.patch.object(lowering, "compile_to_module", plan), mock.patch.object(why, "__call__", note):
        try:
            compile_graph()
        except _KernelsKnownError:
            pass
        except Exception as error:
            made.append(_no_kernels(error))
    return made[-1] if made else Unavailable("Inductor made no program of this graph")


def _no_kernels(error: Exception) -> Unavailable:
    reason = f"Inductor generated no kernels: {type(error).__name__}: {error}".partition("\n")[0]
    cure = "; max_autotune compiles kernels to measure them: install a C++ compiler, or turn max_autotune off"
    return Unavailable(reason + cure * ("Compiler" in reason))


# The scheduler's nodes.


def plan_of(graph: Any, refused: Mapping[tuple[str, str], str], generated: Any) -> KernelPlan:
    """Read the kernels of a lowered graph, and of the graphs inside it, from its scheduler."""
    order = _Order.of(graph)
    found, parts = _kernels(graph, order)

    @cache  # a pair is refused several times, and a kernel in several pairs
    def nodes_of(text: str) -> tuple[str, ...]:
        named = [parts[name] for name in text.split("_") if name in parts]
        return tuple(node.name for node in _computed_nodes(named, graph, order))

    refusals = [RefusedFusion(nodes_of(first), nodes_of(second), why) for (first, second), why in refused.items()]
    reused = tuple(_reused(graph.wrapper_code.lines))
    partitions = len(getattr(graph, "partition_maps", None) or ())
    return KernelPlan(tuple(found), tuple(refusals), reused, partitions, str(getattr(generated, "value", generated)))


@dataclass(frozen=True)
class _Order:
    """Facts about a graph that all of its kernels need."""

    places: Mapping[Any, int]  # of the nodes of the graph
    in_libraries: frozenset[Any]  # the nodes that calls of libraries compute

    @classmethod
    def of(cls, graph: Any) -> _Order:
        calls = [node for node in _kernel_nodes(graph.scheduler.nodes) if node.is_extern()]
        places = {node: place for place, node in enumerate(graph.graph.nodes)}
        return cls(places, frozenset(end for call in calls for end in _end_nodes(call.node)))


def _kernels(graph: Any, order: _Order) -> tuple[list[Kernel], dict[str, Any]]:
    """Return the kernels of a graph and of the graphs inside it, and the scheduler's nodes of the graph by name."""
    nodes = [*_kernel_nodes(graph.scheduler.nodes)]
    found = []
    with _part("virtualized", "V").set_graph_handler(graph):
        for node in nodes:
            found.append(_kernel(node, graph, order))
            for inner in _inner_graphs(node):
                found += _kernels(inner, _Order.of(inner))[0]
    return found, {part.get_name(): part for node in nodes for part in node.get_nodes()}


def _inner_graphs(node: Any) -> list[Any]:
    """Return the graphs that a kernel calls, as `torch.cond` does, in the order of their attributes."""
    held = vars(node.node) if node.is_extern() and node.node is not None else {}
    graphs: list[Any] = [getattr(value, "graph", None) for value in held.values()]
    return [graph for graph in graphs if hasattr(getattr(graph, "scheduler", None), "nodes")]


def _kernel_nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    """Yield the scheduler's nodes that run a kernel, those inside groups one by one."""
    for node in nodes:
        kind = type(node).__name__
        if kind == "GroupedSchedulerNode":
            yield from _kernel_nodes(node.snodes)
        elif kind != "NopKernelSchedulerNode" and type(getattr(node, "node", None)).__name__ != "MultiOutput":
            yield node


def _kernel(node: Any, graph: Any, order: _Order) -> Kernel:
    parts = [*node.get_nodes()]
    read, written = _traffic(parts, graph)
    updates = [name for part in parts for output in part.get_outputs() for name in output.get_mutations()]
    origins = Origins(sources=False)
    computed = _computed_nodes(parts, graph, order)
    nodes = tuple([FusedNode(each.name, _operator(each), origins.scope(each) or "") for each in computed])
    return Kernel(_kind(node, parts), nodes, _target(node), read, written, tuple(dict.fromkeys(updates)))


def _kind(node: Any, parts: Sequence[Any]) -> str:
    if type(node).__name__ == "ForeachKernelSchedulerNode":
        return kernels.FOREACH
    if node.is_template():
        return kernels.TEMPLATE
    if node.is_extern():
        return kernels.FALLBACK if isinstance(node.node, _part("ir", "FallbackKernel")) else kernels.EXTERN
    if node.is_reduction():
        return kernels.REDUCTION
    return kernels.COPY if all(map(_copies, parts)) else kernels.POINTWISE


def _copies(part: Any) -> bool:
    """Return whether a loop only loads and stores."""
    loops: Any = getattr(part.node, "data", None)
    return type(loops).__name__ == "Pointwise" and {*loops.inner_fn_opcount().used_ops} == {"load"}


def _target(node: Any) -> str:
    if not node.is_extern():
        return ""
    return str(getattr(node.node, "python_kernel_name", None) or getattr(node.node, "op_overload", "") or "")


def _computed_nodes(parts: Sequence[Any], graph: Any, order: _Order) -> list[Any]:
    """Return the nodes of the graph that a kernel computes, in the order of the graph.

    Inductor's origins of a buffer also have nodes behind tensors that were stored later. The walk from the nodes at the
    end of each part stops at the nodes that made the tensors it reads. Nodes that only make a view are left out, and so
    are nodes that a library computes, unless there is no other node.
    """
    own = {output.get_name() for part in parts for output in part.get_outputs()}
    read = {dep.name for part in parts for dep in part.read_writes.reads} - own
    buffers = [graph.name_to_buffer[name] for name in read if name in graph.name_to_buffer]
    outside = {end for buffer in buffers for end in _end_nodes(buffer)}
    found = set()
    for part in parts:
        ends = _end_nodes(part.node)
        found.update(ends)
        # A kernel may end what another began, as the second half of a mean does.
        left = [end for end in ends if end not in outside]
        inside = set() if part.is_extern() else _origins(part.node) - outside
        while left:
            reads = inside.intersection(map(_source, left.pop().all_input_nodes))
            found |= reads
            inside -= reads
            left += reads
    if not found:  # a small constant, whose values stand in the program
        found = {node for part in parts for node in getattr(part.node, "origins", ()) if node.op == "get_attr"}
    ordered = sorted(found.intersection(order.places), key=order.places.__getitem__)
    elsewhere = frozenset() if any(part.is_extern() for part in parts) else order.in_libraries
    return [node for node in ordered if node not in elsewhere and not _makes_view(node)] or ordered


def _origins(buffer: Any) -> set[Any]:
    origins = buffer.get_origins() if hasattr(buffer, "get_origins") else ()
    return {_source(node) for node in origins if node.op == "call_function"}


def _end_nodes(buffer: Any) -> list[Any]:
    """Return the node that made a buffer; if torch does not tell, the origins that no other origin reads."""
    last = getattr(buffer, "origin_node", None)
    if last is not None and last.op == "call_function":
        return [_source(last)]
    origins = _origins(buffer)
    called = [node for node in origins if node.target is getattr(buffer, "op_overload", operator)]
    return called or [node for node in origins if origins.isdisjoint(node.users)]


def _source(node: Any) -> Any:
    """Return the call of which a node takes one of several results; any other node itself."""
    return node.args[0] if node.target is operator.getitem else node


def _makes_view(node: Any) -> bool:
    effects = effects_of("call_function", node.target)
    return effects.aliases not in ("none", "all") and not effects.writes


def _operator(node: Any) -> str:
    target = node.target
    if node.op == "get_attr":
        return "constant"
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return str(target)
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order.{target.__name__}"
    # A pass of Inductor may put its own lowering into the graph.
    is_lowering = isinstance(target, partial)
    return f"lowering.{target.func.__qualname__.split('.')[0]}" if is_lowering else f"operator.{target.__name__}"


def _traffic(parts: Sequence[Any], graph: Any) -> tuple[int, int]:
    """Return the bytes that a kernel reads from and writes to tensors that live outside of it."""
    inside = {part.get_name() for part in parts}
    written = {buffer.get_name(): buffer for part in parts for buffer in part.get_outputs()}
    kept = {name for name, buffer in written.items() if not _is_internal(buffer, inside)}
    loops = [(part, _elements(part, graph)) for part in parts]
    reads = [(dep, most) for part, most in loops for dep in part.read_writes.reads if dep.name not in written]
    writes = [(dep, most) for part, most in loops for dep in part.read_writes.writes if dep.name in kept]
    items = [user.node for buffer in written.values() for user in buffer.users if _is_item(user.node)]
    several = sum(_size_of(output.get_name(), graph) for item in items for output in item.get_outputs())
    return _bytes(reads, graph), _bytes(writes, graph) + several


def _is_item(node: Any) -> bool:
    """Return whether a node of the scheduler is one of several results of a kernel."""
    return type(getattr(node, "node", None)).__name__ == "MultiOutput"


def _is_internal(buffer: Any, inside: set[str]) -> bool:
    return all(user.get_name() in inside for user in buffer.users) and bool(buffer.users)


def _elements(part: Any, graph: Any) -> float:
    """Return the number of rounds of a loop nest; infinity for other nodes of the scheduler."""
    if type(part).__name__ != "SchedulerNode":
        return math.inf
    return _hint(math.prod(size for sizes in part.get_ranges() for size in sizes), graph)


def _bytes(deps: Iterable[tuple[Any, float]], graph: Any) -> int:
    """Add the bytes behind dependencies: of each tensor at most its size, of each dependency one element per round.

    Without the rounds, a loop that reads some rows of a table would count as a reader of the whole table.
    """
    found: dict[str, float] = {}
    for dep, rounds in dict.fromkeys(deps):
        if type(dep).__name__ != "WeakDep":
            most = rounds * graph.get_dtype(dep.name).itemsize if rounds < math.inf else rounds
            found[dep.name] = found.get(dep.name, 0) + min(int(dep.numbytes_hint()), most)
    return sum(int(min(size, _size_of(name, graph) or size)) for name, size in found.items())


def _hint(size: Any, graph: Any) -> int:
    hint = getattr(graph.sizevars, "optimization_hint", None) or graph.sizevars.size_hint
    return int(hint(size, fallback=0))


def _size_of(name: str, graph: Any) -> int:
    """Return the bytes of a tensor; 0 for other values."""
    try:
        return _hint(graph.get_numel(name), graph) * int(graph.get_dtype(name).itemsize)
    except (NotImplementedError, KeyError, AttributeError):  # no tensor, or a layout without a size
        return 0


def _reused(lines: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if type(line).__name__ == "ReuseLine":
            yield line.node.get_name(), line.reused_as.get_name()

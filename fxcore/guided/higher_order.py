"""Calls of higher-order operators: `torch.cond`, loops, scans, flex attention and checkpoint as nodes.

The functions that a user gives to an operator become inner graphs. The node calls torch's own operator, which runs
these graphs without Dynamo. torch's functions for users (`torch.cond`, `while_loop`) arrange the arguments, and
would compile the operator with Dynamo. While a trace runs, they call the operator itself, as they do inside Dynamo.
In an eager run for a trace, the operator then calls the functions themselves.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import DispatchKey
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from fxcore.errors import FxError, TraceError
from fxcore.guided import transforms
from fxcore.guided.inner_graphs import InnerGraph, Sample, holds_tensors, items_of
from fxcore.guided.other_sizes import leaves_of
from fxcore.guided.proxies import VALUE_PROXIES, ExampleProxy, ExampleTensor, proxy_of
from fxcore.state.storage import ORDINARY
from fxcore.tracing import module_hooks
from fxcore.tracing.imports import imports_unpatched
from fxcore.tracing.patching import Patcher, Replacement
from fxcore.tracing.wrap import handled_by

_FOLDER = "_higher_order_ops"
_SCANS = f"torch.{_FOLDER}.associative_scan"


def replacements() -> Iterator[Replacement]:
    """Yield the replacements of the calls of these operators, and of the functions around them."""
    yield from _of_operators()
    yield Replacement(_SCANS, "generic_associative_scan", handled_by(_record_generic_scan))
    yield Replacement("torch.utils.checkpoint", "checkpoint", handled_by(_record_checkpoint))


@functools.cache
def _of_operators() -> list[Replacement]:
    """Return the replacements of the operators that this torch has."""
    importlib.import_module(_SCANS)  # with all operators
    operators = [(getattr(torch.ops.higher_order, name, None), record) for name, record in _RECORDS.items()]
    calls = [(type(operator), record) for operator, record in operators if operator is not None]
    questions = ("is_dynamo_compiling", "is_compiling")
    return [
        *(Replacement(kind, "__call__", functools.partial(_recorded_operator, record)) for kind, record in calls),
        *(Replacement("torch.compiler", name, _as_in_dynamo) for name in questions),
    ]


class _Running(threading.local):
    """Whether operators of this thread call their functions themselves. None: while a trace is suspended, they do."""

    is_in_python: bool | None = None


_running = _Running()


def _is_in_python() -> bool:
    is_in_python = _running.is_in_python
    return module_hooks.is_suspended() if is_in_python is None else is_in_python


@contextmanager
def _operators(is_in_python: bool) -> Iterator[None]:
    before, _running.is_in_python = _running.is_in_python, is_in_python
    try:
        yield
    finally:
        _running.is_in_python = before


@contextmanager
def operators_called_in_python() -> Iterator[None]:
    """Call the functions of higher-order operators directly in this thread.

    Otherwise Dynamo compiles each operator, and a function that it refuses stays refused in the whole process.
    """
    # Flex attention imports Dynamo, which keeps the functions that it finds.
    with _operators(is_in_python=True), imports_unpatched(), Patcher() as patcher:
        patcher.install(_of_operators())
        yield


def _as_in_dynamo(original: Callable[[], bool]) -> Callable[[], bool]:
    """Return a replacement for questions whether Dynamo compiles. To an operator of a trace, the answer is yes."""

    def is_compiling() -> bool:
        if module_hooks.tracer_of_all_calls() is None and not _is_in_python():
            return original()
        frame = sys._getframe(1)
        if frame.f_code.co_filename.endswith("external_utils.py") and frame.f_back is not None:
            frame = frame.f_back  # torch 2.6 asks torch._dynamo
        file, function = frame.f_code.co_filename, frame.f_code.co_name
        return _FOLDER in file or (function == "flex_attention" and file.endswith("flex_attention.py")) or original()

    return is_compiling


def _recorded_operator(record: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement for the call of an operator. `record` gets the arguments by position."""
    signature = inspect.signature(original)

    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        tracer = module_hooks.tracer_of_all_calls()
        if tracer is None and not _is_in_python():
            return original(self, *args, **kwargs)
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        if tracer is None:
            return _called_in_python(self, original, *bound.args[1:], **bound.kwargs)
        return record(tracer, *bound.args, **bound.kwargs)

    return call


def _called_in_python(operator: Any, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run an operator on ordinary tensors without the dispatcher, whose autograd traces the functions."""
    if any(isinstance(each, torch.Tensor) and type(each) not in ORDINARY for each in leaves_of((args, kwargs))):
        return original(operator, *args, **kwargs)
    if operator.__name__ == "cond":  # torch's function refuses nested operands
        pred, true_fn, false_fn, operands = args
        return (true_fn if pred else false_fn)(*operands)
    with _disable_current_modes():
        return operator.py_kernels[DispatchKey.CompositeExplicitAutograd](*args, **kwargs)


# Parts of a record.


def samples_of(values: Sequence[Any], prefix: str, names: Sequence[str] = (), **flags: Any) -> list[Any]:
    """Return the inputs of an inner graph for values. A value that is neither tensor nor proxy stays as it is.

    Without `names`, they are numbered behind a prefix.
    """
    made = []
    names = names or [f"{prefix}_{number}" for number in range(len(values))]
    for name, value in zip(names, values, strict=True):
        if isinstance(value, ExampleProxy):
            known = {"is_data": value.is_data, "has_contents": value.has_contents, "other": value.other}
            made.append(Sample(name, value.example, value, **(known | flags)))
        elif isinstance(value, torch.Tensor):
            made.append(Sample(name, value, **flags))
        else:
            made.append(value)
    return made


def selected(samples: Sequence[Sample], function: Callable[..., Any], *more: Any) -> list[Sample]:
    """Return samples for a part of each value, such as the first row: `function(value, *more)`."""
    with module_hooks.suspended():
        parts = [each._replace(value=function(each.value, *more), other=None) for each in samples]
    return [each._replace(select=(function, more)) for each in parts]


def opened(value: Any) -> Any:
    """Return nested arguments with the items of containers that the graph computes."""

    def of(leaf: Any) -> Any:
        return items_of(leaf, opened) if type(leaf) in VALUE_PROXIES and holds_tensors(leaf) else leaf

    return pytree.tree_map(of, value)


def operand_samples(function: Callable[..., Any], values: Sequence[Any]) -> list[Any]:
    """Return the inputs of an inner graph for the values of a call, named as parameters if each takes one value."""
    try:
        parameters = list(inspect.signature(getattr(function, "forward", function)).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plain = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    return samples_of(values, "operand", plain if len(plain) == len(parameters) == len(values) else ())


def inputs_of(samples: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Return the values that are inputs of the inner graph."""
    return [value for sample, value in zip(samples, values, strict=True) if isinstance(sample, Sample)]


def recorded_call(tracer: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], fallback: Any = None) -> Any:
    """Record a call with inner graphs, and return a proxy. On the meta device, `fallback` is the call's value.

    Raises TraceError if torch refuses the call for the example.
    """
    values = [leaf.example if isinstance(leaf, ExampleProxy) else leaf for leaf in leaves_of(args)]
    if fallback is not None and any(isinstance(each, torch.Tensor) and each.is_meta for each in values):
        node = tracer.record_without_running("call_function", target, args, kwargs)
        return proxy_of(tracer, node, fallback, False, True)
    try:
        # The graph calls torch's operator, which refuses modes that it does not know.
        with _disable_current_modes(), _operators(is_in_python=False):
            return tracer.create_proxy("call_function", target, args, kwargs)
    except FxError:
        raise
    except Exception as error:
        name = getattr(target, "__name__", str(target))
        raise TraceError(
            f"torch cannot run {name} with the example{tracer._place()}\n{type(error).__name__}: {error}"
        ) from error


def results_of(proxy: Any, inner: InnerGraph) -> Any:
    """Return proxies for the results of an operator, nested as the function returned them."""
    given = [each for each in inner.outputs if isinstance(each, ExampleProxy)]
    proxy.__dict__["has_contents"] |= any(each.has_contents for each in given)
    if not inner.returns_tuple:
        return pytree.tree_unflatten([proxy], inner.spec)
    items = [None if value is None else proxy[index] for index, value in enumerate(inner.outputs)]
    for each in items:
        if type(each) in VALUE_PROXIES:
            vars(each)["is_data"] = True  # another branch, or another step, gives another number
    return pytree.tree_unflatten(items, inner.spec)


def example_of(inner: InnerGraph) -> tuple[Any, ...]:
    """Return the example's results of a recorded function."""
    return tuple([each.example if isinstance(each, ExampleProxy) else each for each in inner.outputs])


def _refuse_other_kinds(
    tracer: Any, name: str, expected: Sequence[Any], obtained: Sequence[Any], is_same_size: bool
) -> None:
    """Raise TraceError if results differ in number, type or dimensions."""
    told = [[_kind_of(value, is_same_size) for value in values] for values in (expected, obtained)]
    if told[0] != told[1]:
        raise TraceError(
            f"{name} needs results of one kind{tracer._place()}: ({', '.join(told[0])}) and ({', '.join(told[1])}) "
            "differ\nLet both return as many tensors, with equal dtypes and shapes"
        )


def _kind_of(value: Any, is_same_size: bool) -> str:
    example = value.example if isinstance(value, ExampleProxy) else value
    if isinstance(example, torch.Tensor):
        return f"{example.dtype} {list(example.shape) if is_same_size else f'of {example.dim()} dimensions'}"
    # A loop passes a number on. A branch has no way to return one of two known numbers.
    return repr(value) if value is example and not is_same_size else type(example).__name__


# Operators.


def _cond(tracer: Any, operator: Any, pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    if isinstance(pred, (torch.Tensor, ExampleProxy)):
        try:
            functions = {"true_graph": true_fn, "false_graph": false_fn}
            return _recorded_branches(tracer, operator, pred, functions, int(not _number_of(pred, True)), operands)
        except TraceError:
            if type(pred) not in VALUE_PROXIES:
                raise
    # Eager Python takes one branch for a number. A guard on sizes allows it where the branches do not fit together.
    return (true_fn if pred else false_fn)(*operands)


def _switch(tracer: Any, operator: Any, index: Any, branches: Any, operands: Any = ()) -> Any:
    if not isinstance(index, (torch.Tensor, ExampleProxy)):
        return branches[index](*operands)
    functions = {f"branch{number}_graph": function for number, function in enumerate(branches)}
    return _recorded_branches(tracer, operator, index, functions, int(_number_of(index, 0)), operands)


def _number_of(value: Any, fallback: Any) -> Any:
    """Return the example's number of a value, and `fallback` on the meta device."""
    example = value.example if isinstance(value, ExampleProxy) else value
    return fallback if isinstance(example, torch.Tensor) and example.is_meta else example


def _recorded_branches(
    tracer: Any, operator: Any, selector: Any, functions: dict[str, Callable[..., Any]], taken: int, operands: Any
) -> Any:
    """Record a call that runs one of several functions, which have the names of their graphs.

    The example takes the function at a position. `selector` is the value that chooses a function in a run.
    """
    name = f"torch.{operator.__name__}"
    values, spec = pytree.tree_flatten(opened(tuple(operands)))
    branches = []
    for number, (graph_name, function) in enumerate(functions.items()):
        samples = operand_samples(function, values)
        branches.append(_branch(tracer, _with_arguments(function, spec), samples, name, graph_name, number == taken))
    taken_branch = branches[taken]
    for other in branches:
        if taken_branch.spec != other.spec:
            told = f"{taken_branch.spec} and {other.spec}"
            raise TraceError(f"the branches of {name} return different structures{tracer._place()}: {told}")
        _refuse_other_kinds(tracer, name, branches[0].outputs, other.outputs, is_same_size=False)
    modules, lifted = tracer.inner_graphs.modules(branches)
    given = (*inputs_of(samples, values), *lifted)
    args = (selector, modules, given) if operator.__name__ == "switch" else (selector, *modules, given)
    result = recorded_call(tracer, operator, args, {}, example_of(taken_branch))
    sizes = list(map(_size_of, example_of(taken_branch)))
    for other in branches:
        if sizes != list(map(_size_of, example_of(other))):
            result.__dict__["other"] = example_of(other)
    return results_of(result, taken_branch)


def _size_of(value: Any) -> Any:
    return value.shape if isinstance(value, torch.Tensor) else None


def _with_arguments(function: Callable[..., Any], spec: Any) -> Callable[..., Any]:
    """Return a function of leaves that calls another with the nested arguments."""
    return lambda *leaves: function(*pytree.tree_unflatten(list(leaves), spec))


def _branch(
    tracer: Any, function: Callable[..., Any], samples: list[Any], operator: str, name: str, is_taken: bool
) -> InnerGraph:
    """Record a branch. A branch that the example does not take may fail on its values; then it runs without values."""
    progress = tracer._progress()[1]
    try:
        return tracer.inner_graphs.record(function, samples, name)  # type: ignore[no-any-return]
    except FxError:
        raise
    except Exception as error:
        if is_taken:
            raise
        found = error
    tracer.answers.forget_since(progress)
    try:
        with tracer.other_sizes.fake_tensors():
            return tracer.inner_graphs.record(function, samples, name)  # type: ignore[no-any-return]
    except Exception:
        raise TraceError(
            f"the branch of {operator} that the example does not take fails{tracer._place()}\n"
            f"{type(found).__name__}: {found}\nA trace runs both branches. Let both work for the example, or give an "
            "example that takes this branch"
        ) from found


def _while_loop(
    tracer: Any, operator: Any, cond_fn: Any, body_fn: Any, carried: Any, additional: Any = (), **options: Any
) -> Any:
    values = [*carried, *additional]
    samples = samples_of(values, "carried", has_contents=True)
    samples = [
        each if isinstance(each, Sample) else Sample(f"carried_{number}", each) for number, each in enumerate(samples)
    ]
    samples = [each._replace(is_data=not isinstance(each.value, torch.Tensor)) for each in samples]
    condition = tracer.inner_graphs.record(cond_fn, samples, "while_loop_cond_graph")
    body = tracer.inner_graphs.record(body_fn, samples, "while_loop_body_graph")
    before = [each.value for each in samples[: len(carried)]]
    _refuse_other_kinds(tracer, "while_loop", before, example_of(body), is_same_size=True)
    condition.arrange(1, is_single=True)
    modules, lifted = tracer.inner_graphs.modules([condition, body])
    args = (*modules, tuple(carried), (*additional, *lifted))
    return results_of(recorded_call(tracer, operator, args, _set(options), tuple(before)), body)


def _scan(tracer: Any, operator: Any, combine_fn: Any, init: Any, xs: Any, *rest: Any, **options: Any) -> Any:
    *more, additional = rest
    rows = samples_of(xs, "x", has_contents=True)
    firsts = selected(rows, torch.select, more[0] if more else 0, 0)
    samples = [*samples_of(init, "carry", has_contents=True), *firsts]
    combine = tracer.inner_graphs.record(combine_fn, samples, "scan_combine_graph")
    before = [each.value for each in samples[: len(init)]]
    _refuse_other_kinds(tracer, "scan", before, example_of(combine)[: len(init)], is_same_size=True)
    modules, lifted = tracer.inner_graphs.modules([combine])
    args = (*modules, list(init), list(xs), *more, type(additional)([*additional, *lifted]))
    count = rows[0].value.shape[more[0] if more else 0]
    fallback = _stacked_after(len(init), example_of(combine), count)
    return results_of(recorded_call(tracer, operator, args, _set(options), fallback), combine)


def _set(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that say more than their empty default."""
    return {name: value for name, value in options.items() if value}


def _stacked_after(start: int, values: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """Return results of one step with as many rows as there are steps, from a position on."""
    with module_hooks.suspended():
        return (*values[:start], *[each.expand(count, *each.shape) for each in values[start:]])


def _map(tracer: Any, operator: Any, function: Any, xs: Any, more: Any = (), **options: Any) -> Any:
    rows = samples_of(xs, "x")
    others = samples_of(more, "operand")
    body = tracer.inner_graphs.record(function, [*selected(rows, torch.select, 0, 0), *others], "map_body_graph")
    modules, lifted = tracer.inner_graphs.modules([body])
    args = (*modules, list(xs), [*inputs_of(others, more), *lifted])
    fallback = _stacked_after(0, example_of(body), rows[0].value.shape[0])
    return results_of(recorded_call(tracer, operator, args, _set(options), fallback), body)


def _associative_scan(tracer: Any, operator: Any, combine_fn: Any, xs: Any, *rest: Any, dim: int = 0) -> Any:
    rows = samples_of(xs, "x", has_contents=True)
    firsts = selected(rows, torch.narrow, dim, 0, 1)  # torch combines many rows at once
    samples = [*firsts, *[each._replace(name=f"y_{number}") for number, each in enumerate(firsts)]]
    combine = tracer.inner_graphs.record(combine_fn, samples, "associative_scan_combine_graph")
    modules, lifted = tracer.inner_graphs.modules([combine])
    more: tuple[Any, ...] = (tuple(lifted),)
    if inspect.isfunction(operator):
        # torch's operator has no gradients for operands, and before torch 2.13 none at all.
        is_served = _takes_operands() and not lifted
        operator = torch.ops.higher_order.associative_scan if is_served else transforms.associative_scan
        more = (*more, dim) if dim else more
    elif not _takes_operands():
        more = rest
        if lifted:
            raise TraceError(
                f"the function of associative_scan uses values from outside{tracer._place()}, and torch "
                f"{torch.__version__} cannot pass them to the operator; torch 2.13 can. Give combine_mode='generic'"
            )
    args = (*modules, list(xs), *more)
    return results_of(recorded_call(tracer, operator, args, {}, tuple(each.value for each in rows)), combine)


def _takes_operands() -> bool:
    """Return whether associative_scan of this torch passes operands on, and has gradients."""
    return "additional_inputs" in inspect.signature(type(torch.ops.higher_order.associative_scan).__call__).parameters


def _record_generic_scan(
    tracer: Any, original: Callable[..., Any], operator: Any, leaves: Any, dim: int = 0, additional_inputs: Any = ()
) -> Any:
    """Record the associative scan that torch unrolls, which would fix its length."""
    if additional_inputs:
        return original(operator, leaves, dim, additional_inputs)
    return pytree.tree_leaves(_associative_scan(tracer, original, operator, leaves, dim=dim))


def _flex_attention(tracer: Any, operator: Any, *given: Any) -> Any:
    query, key, value, score_mod, block_mask, scale, kernel_options, *_ = given
    with module_hooks.suspended():
        example = query.example if isinstance(query, ExampleTensor) else query
        score = example.new_zeros(())
        index = example.new_zeros((), dtype=torch.int)
    places = [Sample(name, index) for name in ("b", "h", "q_idx", "kv_idx")]
    scores = tracer.inner_graphs.record(score_mod, [Sample("score", score), *places], "sdpa_score")
    masks = tracer.inner_graphs.record(block_mask[-1], places, "sdpa_mask")
    made = []
    for inner in (scores, masks):
        inner.arrange(1, is_single=True)
        made.append(tracer.inner_graphs.modules([inner]))
    (score_graph, for_score), (mask_graph, for_mask) = made
    mask = (*block_mask[:-1], *mask_graph)
    lifted = tuple(for_score), tuple(for_mask)
    args = (query, key, value, *score_graph, mask, scale, kernel_options, *lifted)
    result = recorded_call(tracer, operator, args, {})
    return tuple([result[index] for index in range(len(result.example))])


_RECORDS: dict[str, Callable[..., Any]] = {
    "associative_scan": _associative_scan,
    "cond": _cond,
    "flex_attention": _flex_attention,
    "map_impl": _map,
    "scan": _scan,
    "switch": _switch,
    "while_loop": _while_loop,
}


def _record_checkpoint(
    tracer: Any, original: Callable[..., Any], function: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """Record a call of checkpoint() as one node, with the function as an inner graph."""
    if not {"context_fn", "determinism_check", "debug"}.isdisjoint(kwargs):
        return original(function, *args, **kwargs)
    known: dict[str, Any] = {name: kwargs[name] for name in ("use_reentrant", "preserve_rng_state") if name in kwargs}
    more = {name: value for name, value in kwargs.items() if name not in (*known, "early_stop")}
    values, spec = pytree.tree_flatten((opened(args), opened(more)))
    samples = operand_samples(function, values)

    def flat(*leaves: Any) -> Any:
        given, named = pytree.tree_unflatten(list(leaves), spec)
        return function(*given, **named)

    body = tracer.inner_graphs.record(flat, samples, "wrap_body")
    modules, lifted = tracer.inner_graphs.modules([body])
    given, target = inputs_of(samples, values), original
    call_args: tuple[Any, ...] = (*modules, *given, *lifted)
    if known.get("use_reentrant") is not False and lifted:
        # The reentrant kind gives gradients to values from outside only if an argument has a gradient.
        call_args, target = (*modules, tuple(given), tuple(lifted)), transforms.checkpoint
    return results_of(recorded_call(tracer, target, call_args, known, example_of(body)), body)

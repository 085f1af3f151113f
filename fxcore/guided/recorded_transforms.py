"""Calls of functions from `torch.vmap` and `torch.func`: one node each, with the function as an inner graph.

The graph of the function takes its tensors one by one, then the values from outside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fxcore.errors import TraceError
from fxcore.guided import transforms
from fxcore.guided.higher_order import inputs_of, opened, operand_samples, recorded_call, results_of, selected
from fxcore.guided.inner_graphs import Sample
from fxcore.tracing import module_hooks
from fxcore.tracing.patching import Replacement
from fxcore.tracing.wrap import handled_by

_INTERNALS = "torch._functorch.eager_transforms"
# Transforms that make a matrix of many calls. The trace records the whole, so they are replaced where users call them;
# torch's other transforms call a function of torch's when the transformed function runs.
_MATRICES = ("jacrev", "jacfwd", "hessian")


def replacements() -> Iterator[Replacement]:
    """Yield the replacements of these functions."""
    yield Replacement("torch._functorch.apis", "vmap_impl", handled_by(_record_vmap))
    for name, record in (
        ("grad_impl", functools.partial(_record_gradient, "grad")),
        ("grad_and_value_impl", functools.partial(_record_gradient, "grad_and_value")),
        ("_vjp_with_argnums", _record_vjp),
        ("_jvp_with_argnums", _record_jvp),
    ):
        yield Replacement(_INTERNALS, name, handled_by(record))
    yield from [
        Replacement(owner, name, _recorded_matrix) for owner in (_INTERNALS, "torch.func") for name in _MATRICES
    ]


class _Transformed:
    """A function that a transform takes, recorded with its arguments."""

    def __init__(
        self,
        tracer: Any,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        dims: Callable[[Any], list[Any]] | None = None,
    ) -> None:
        """Record the function. `dims` gives, for the structure of `args`, the dimension of each leaf that is mapped."""
        self._tracer = tracer
        given, of_args = pytree.tree_flatten(opened(args))
        named, of_kwargs = pytree.tree_flatten(opened(kwargs or {}))
        values = [*given, *named]
        samples = operand_samples(function, values)
        mapped = [] if dims is None else dims(of_args)
        for place, dim in enumerate(mapped):
            if dim is not None and isinstance(samples[place], Sample):
                samples[place] = selected([samples[place]], torch.select, dim, 0)[0]

        def flat(*leaves: Any) -> Any:
            positional = pytree.tree_unflatten(list(leaves[: len(given)]), of_args)
            return function(*positional, **pytree.tree_unflatten(list(leaves[len(given) :]), of_kwargs))

        self.inner = tracer.inner_graphs.record(flat, samples, f"{name}_graph")
        self.inputs = inputs_of(samples, values)
        self.dims = inputs_of(samples, [*mapped, *[None] * (len(values) - len(mapped))])
        numbers = iter(range(len(values)))
        places = [next(numbers) if isinstance(each, Sample) else None for each in samples[: len(given)]]
        self._places = pytree.tree_unflatten(places, of_args)

    def chosen(self, argnums: Any) -> tuple[tuple[int, ...], Any]:
        """Return the positions of the tensors of some arguments among the operands, and their nesting."""
        if argnums is None:
            argnums = tuple(range(len(self._places)))
        of_many = isinstance(argnums, (tuple, list))
        places, spec = pytree.tree_flatten(
            tuple([self._places[each] for each in argnums]) if of_many else self._places[argnums]
        )
        if None in places:
            raise TraceError(
                f"a gradient is asked for a value that is no tensor{self._tracer._place()}\n"
                "Choose arguments that are tensors with argnums="
            )
        return tuple(places), spec

    def split(self, has_aux: bool) -> tuple[Any, Any]:
        """Let the graph return the result, and the second result apart. Return the structures of both."""
        spec, aux = self.inner.spec, None
        if has_aux:
            parts = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
            spec, aux = map(pytree.tree_structure, parts)
        self.inner.arrange(spec.num_leaves, is_single=spec.is_leaf(), has_more=has_aux)
        return spec, aux

    def call(self, target: Callable[..., Any], *more: Any, **options: Any) -> Any:
        """Record the call of the transform, and return a proxy."""
        modules, lifted = self._tracer.inner_graphs.modules([self.inner])
        if "in_dims" in options:
            options["in_dims"] = (*self.dims, *[None] * len(lifted))
        return recorded_call(self._tracer, target, (*modules, (*self.inputs, *lifted), *more), options)


def _nested(value: Any, spec: Any, of_item: Callable[[Any], Any] = lambda item: item) -> Any:
    """Return the items of a proxy in a structure. A structure of one leaf is the proxy itself."""
    return of_item(value) if spec.is_leaf() else _items(value, spec, of_item)


def _items(value: Any, spec: Any, of_item: Callable[[Any], Any] = lambda item: item) -> Any:
    """Return the items of a proxy for a tuple in a structure."""
    return pytree.tree_unflatten([of_item(value[index]) for index in range(spec.num_leaves)], spec)


def _record_vmap(tracer: Any, original: Callable[..., Any], *given: Any, **kwargs: Any) -> Any:
    function, in_dims, out_dims, randomness, chunk_size, *args = given

    def dims(spec: Any) -> list[Any]:
        return _flat_dims(tracer, "in_dims", tuple(in_dims) if type(in_dims) is list else in_dims, spec)

    made = _Transformed(tracer, "vmap", function, tuple(args), kwargs, dims)
    made.inner.arrange(made.inner.spec.num_leaves, is_single=made.inner.spec.is_leaf())
    outer = _flat_dims(tracer, "out_dims", out_dims, made.inner.spec)
    options = {"in_dims": (), "out_dims": outer[0] if len(set(outer)) == 1 else tuple(outer)}
    options |= {"randomness": randomness, "chunk_size": chunk_size}
    defaults = {"out_dims": 0, "randomness": "error", "chunk_size": None}
    chosen = {name: value for name, value in options.items() if name not in defaults or value != defaults[name]}
    return results_of(made.call(transforms.vmap, **chosen), made.inner)


def _flat_dims(tracer: Any, name: str, dims: Any, spec: Any) -> list[Any]:
    """Return the dimension of each leaf. Raises TraceError if `dims` do not fit the structure."""
    found: list[Any] | None = pytree._broadcast_to_and_flatten(dims, spec)
    if found is None:
        raise TraceError(
            f"{name}={dims!r} of vmap do not fit {spec}{tracer._place()}\n"
            "Give one number or None for each value, nested as the values are"
        )
    return found


def _record_gradient(name: str, tracer: Any, original: Callable[..., Any], *given: Any) -> Any:
    function, argnums, has_aux, args, kwargs = given
    made = _Transformed(tracer, name, function, args, kwargs)
    _, aux = made.split(has_aux)
    places, spec = made.chosen(argnums)
    result = made.call(getattr(transforms, name), argnums=places, **({"has_aux": True} if has_aux else {}))
    if name == "grad":
        return (_items(result[0], spec), _items(result[1], aux)) if has_aux else _items(result, spec)
    gradient, value = _items(result[0], spec), result[1]
    return gradient, (value[0], _items(value[1], aux)) if has_aux else value


def _recorded_matrix(original: Callable[..., Any]) -> Callable[..., Any]:
    name = original.__name__

    @functools.wraps(original)
    def transform(function: Any, argnums: Any = 0, *rest: Any, **options: Any) -> Any:
        plain = original(function, argnums, *rest, **options)
        has_aux = bool(options.get("has_aux"))

        def call(*args: Any, **kwargs: Any) -> Any:
            tracer = module_hooks.tracer_of_all_calls()
            if tracer is None:
                return plain(*args, **kwargs)
            made = _Transformed(tracer, name, function, args, kwargs)
            result_spec, aux = made.split(has_aux)
            places, spec = made.chosen(argnums)
            result = made.call(getattr(transforms, name), argnums=places, **options)

            def of_column(item: Any) -> Any:
                return _items(item, spec) if name == "hessian" else item

            def of_places(row: Any) -> Any:
                return _items(row, spec, of_column)

            if has_aux:
                return _nested(result[0], result_spec, of_places), _items(result[1], aux)
            return _nested(result, result_spec, of_places)

        return call

    return transform


def _record_vjp(
    tracer: Any, original: Callable[..., Any], function: Any, *primals: Any, argnums: Any = None, has_aux: bool = False
) -> Any:
    """Record the inside of vjp: the function's operations, and a node for each call of the result."""
    before = torch.get_rng_state()
    outputs = function(*primals)
    if not torch.equal(torch.get_rng_state(), before):
        raise TraceError(
            f"the function of vjp draws random numbers{tracer._place()}\nThe graph runs it for its result and "
            "again for its gradient, with other numbers. Draw them before, and pass them to the function"
        )

    def pulled_back(cotangents: Any, retain_graph: bool = True, create_graph: Any = None) -> Any:
        made = _Transformed(tracer, "vjp", _first(function) if has_aux else function, primals)
        result_spec, _ = made.split(has_aux=False)
        places, spec = made.chosen(argnums)
        leaves = pytree.tree_leaves(cotangents)
        given = leaves[0] if result_spec.is_leaf() else tuple(leaves)
        return _items(made.call(transforms.vjp, given, places), spec)

    return (outputs[0], pulled_back, outputs[1]) if has_aux else (outputs, pulled_back)


def _first(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: function(*args)[0]


def _record_jvp(
    tracer: Any,
    original: Callable[..., Any],
    function: Any,
    primals: Any,
    tangents: Any,
    argnums: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    made = _Transformed(tracer, "jvp", function, primals)
    result_spec, aux = made.split(has_aux)
    places, _ = made.chosen(argnums)
    options = {name: True for name, is_set in (("strict", strict), ("has_aux", has_aux)) if is_set}
    result = made.call(transforms.jvp, tuple(pytree.tree_leaves(tangents)), places, **options)
    found = _nested(result[0], result_spec), _nested(result[1], result_spec)
    return (*found, _items(result[2], aux)) if has_aux else found

"""Functions of torch that cannot be given a proxy, replaced while a trace with an example runs.

The parser of torch wants real numbers where sizes are given one by one (`torch.zeros(n, 3)`), and functions that look
at values want real values. einops looks up its recipes by shape, and a function of autograd is more than its forward.
With a proxy among their arguments, these calls are recorded. Because each run must draw new random numbers, draws of
torch, Python and numpy are recorded without a proxy, too.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.random import get_rng_state, set_rng_state  # themselves, because a trace replaces their names
from torch.utils import checkpoint

from fxcore.errors import TraceArgumentError, TraceError
from fxcore.guided.arguments import drawn, value_of
from fxcore.guided.proxies import ExampleProxy
from fxcore.operators.table import names_mutation, operator_table
from fxcore.state.readings import is_array
from fxcore.torch_fx_registry import RANDOM
from fxcore.tracing import module_hooks
from fxcore.tracing.call_site import is_library_file
from fxcore.tracing.patching import Replacement
from fxcore.tracing.recorded_functions import TAKE_SIZES_AT_ONCE
from fxcore.tracing.wrap import called_on_proxies, find_symbolic, handled_by, recorded

_LOOK_AT_VALUES = (
    *("tensor", "as_tensor", "asarray", "scalar_tensor", "range", "broadcast_shapes"),
    *("from_numpy", "frombuffer", "from_dlpack", "to_dlpack"),
    *("sparse_coo_tensor", "sparse_compressed_tensor"),
    *("sparse_csr_tensor", "sparse_csc_tensor", "sparse_bsr_tensor", "sparse_bsc_tensor"),
)
_TAKE_NUMBERS = ("tensor", "as_tensor", "asarray")
_METHODS = ("new_tensor", "type", "tile", "unflatten", "view", "reshape", "repeat", "permute", "split", "narrow")
_OF_THE_GENERATOR = ("get_rng_state", "set_rng_state", "seed")
_DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
_GENERATORS = {
    "random": (
        "seed random uniform randint randrange choice choices sample gauss normalvariate betavariate expovariate "
        "triangular getrandbits randbytes binomialvariate gammavariate lognormvariate paretovariate vonmisesvariate "
        "weibullvariate"
    ),
    "numpy.random": (
        "seed rand randn randint random random_sample ranf sample random_integers uniform normal binomial beta poisson "
        "exponential choice permutation bytes standard_normal standard_exponential standard_gamma standard_t "
        "standard_cauchy chisquare dirichlet f gamma geometric gumbel hypergeometric laplace logistic lognormal "
        "logseries multinomial multivariate_normal negative_binomial noncentral_chisquare noncentral_f pareto power "
        "rayleigh triangular vonmises wald weibull zipf"
    ),
}
_NOT_RECORDED = {"random": "shuffle setstate", "numpy.random": "shuffle set_state"}
_OF_LIBRARIES = {
    "torch.nested": ("nested_tensor", "as_nested_tensor", "narrow", "nested_tensor_from_jagged"),
    "torch.utils.dlpack": ("from_dlpack", "to_dlpack"),
    "einops.einops": ("reduce", "einsum", "pack", "unpack", "parse_shape"),
    "dataclasses": ("replace", "asdict", "astuple"),
}


def replacements() -> Iterator[Replacement]:
    """Yield the replacements of these functions."""
    drawing = [name for name, facts in operator_table().items() if "random" in facts and names_mutation(name)]
    at_once = sorted(TAKE_SIZES_AT_ONCE)
    for owner, names, make in (
        ("torch", [*_LOOK_AT_VALUES, *at_once], recorded),
        ("torch", _TAKE_NUMBERS, _recorded_maker),
        ("torch", ["finfo", "iinfo"], _recorded_class),
        ("torch", ["manual_seed", *(each.__name__ for each in RANDOM)], handled_by(_record_draw_of_torch)),
        ("torch.random", ["manual_seed"], handled_by(_record_draw_of_torch)),
        ("torch", _OF_THE_GENERATOR, handled_by(_record_state_of_generator)),
        ("torch.random", _OF_THE_GENERATOR, handled_by(_record_state_of_generator)),
        (torch.Tensor, [*_METHODS, *at_once], _recorded_method),
        (torch.Tensor, drawing, handled_by(_record_draw_of_method)),
        ("torch.nn.functional", _DROPOUTS, handled_by(_record_draw_of_torch)),
    ):
        yield from [Replacement(owner, name, make) for name in names]
    yield from [Replacement(owner, name, recorded) for owner, names in _OF_LIBRARIES.items() for name in names]
    for module, functions in _GENERATORS.items():
        for name in functions.split():
            record = functools.partial(_record_draw, f"{module}.{name}")
            yield Replacement(module, name, handled_by(record))
    for module, functions in _NOT_RECORDED.items():
        for name in functions.split():
            yield Replacement(module, name, handled_by(functools.partial(_refuse_draw, f"{module}.{name}")))
    yield Replacement("numpy.random", "default_rng", handled_by(_make_generator))
    yield Replacement(torch.nn.Module, "_apply", _with_values)
    yield Replacement("torch", "_check_with", _recorded_check)
    yield Replacement(torch.autograd.Function, "apply", _recorded_apply)
    yield Replacement(torch.jit.ScriptFunction, "__call__", _recorded_script)
    yield Replacement("torch", "Generator", _recorded_generator)
    yield Replacement("torch.random", "fork_rng", handled_by(_record_fork))


@contextmanager
def compiled_functions_inlined() -> Iterator[None]:
    """Let a call of a function under torch.compile run the function itself while a trace runs in this process."""
    config: Any = sys.modules.get("torch._dynamo.config")
    with config.patch(error_on_nested_fx_trace=False) if config is not None else nullcontext():
        yield


@contextmanager
def _record_fork(
    tracer: Any, original: Callable[..., Any], devices: Any = None, enabled: bool = True, **kwargs: Any
) -> Iterator[None]:
    """Let nodes save and restore the state of torch's CPU generator."""
    with original(devices, enabled, **kwargs):
        if not enabled:
            yield
            return
        state = tracer.create_proxy("call_function", get_rng_state, (), {})
        try:
            yield
        finally:
            tracer.create_proxy("call_function", set_rng_state, (state,), {})


def _recorded_maker(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, which makes tensors of numbers, as one that records a call, or tells whether a dtype is given.

    torch gives the default dtype to the tensor before its dispatcher sees the tensor.
    """
    record = recorded(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tracer = module_hooks.tracer_of_all_calls()
        if tracer is None:
            return record(*args, **kwargs)
        has_dtype = any(isinstance(each, torch.dtype) for each in (*args, *kwargs.values()))
        tracer.operators.is_dtype_given = has_dtype or any(map(is_array, args))
        try:
            return record(*args, **kwargs)
        finally:
            tracer.operators.is_dtype_given = False

    return call


def _recorded_class(original: Any) -> Any:
    """Return a class that answers isinstance() as another does, and records a call with a proxy."""
    return _recording_class(original, (), lambda arguments: getattr(find_symbolic(arguments), "tracer", None))


def _recorded_generator(original: Any) -> Any:
    """Return torch.Generator as a class whose call is recorded, because each run makes and seeds a generator anew."""
    return _recording_class(original, (original,), lambda arguments: module_hooks.tracer_of_all_calls())


def _recording_class(original: Any, bases: tuple[type, ...], tracer_of: Callable[[Any], Any]) -> Any:
    class AsOriginal(type(original)):  # type: ignore[misc]  # a class known at run time
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, original)

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            tracer = tracer_of((args, kwargs))
            if tracer is None:
                return original(*args, **kwargs)
            return tracer.create_proxy("call_function", original, args, kwargs)

    return AsOriginal(original.__name__, bases, {})


def _record_draw_of_torch(tracer: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if _draws_the_same(tracer, args, kwargs):
        return function(*args, **kwargs)
    return tracer.create_proxy("call_function", function, args, kwargs)


def _record_state_of_generator(tracer: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Record a call that reads or sets the state of torch's generator, unless torch itself makes the call."""
    if is_library_file(sys._getframe(2).f_code.co_filename):
        return function(*args, **kwargs)
    return tracer.create_proxy("call_function", function, args, kwargs)


def _record_draw_of_method(tracer: Any, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    # The method of a proxy records the call itself.
    if type(args[0]) is not torch.Tensor or _draws_the_same(tracer, args, kwargs):
        return method(*args, **kwargs)
    return tracer.create_proxy("call_method", method.__name__, args, kwargs)


def _draws_the_same(tracer: Any, args: Any, kwargs: Any) -> bool:
    """Return whether a call draws the same in each run, from a generator that the traced code made and seeded."""
    generator = kwargs.get("generator")
    if not isinstance(generator, torch.Generator) or find_symbolic((args, kwargs)) is not None:
        return False
    return not any(generator is value for module in tracer.root.modules() for value in vars(module).values())


def _recorded_check(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement for torch's checks. The graph repeats a check of contents in each run."""

    def check(error_type: Any, condition: Any, message: Any) -> None:
        if isinstance(condition, ExampleProxy) and condition.is_of_input:
            condition.tracer.create_proxy("call_function", torch._assert, (condition, "Check failed"), {})
        else:
            original(error_type, bool(condition) if isinstance(condition, ExampleProxy) else condition, message)

    return check


def _record_draw(name: str, tracer: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Record a draw from a generator of Python or numpy."""
    found = tracer.create_proxy("call_function", drawn, (name, *args), kwargs)
    example = found.example if isinstance(found, ExampleProxy) else 0
    parts = example if type(example) is list else [example]
    if all(isinstance(each, (int, float)) or type(each).__module__ == "numpy" for each in parts):
        return found
    # A graph cannot call methods of other values, such as layers.
    return tracer.answers.answer(found, lambda value: value, "was chosen")


def _refuse_draw(name: str, tracer: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Raise TraceError for a call that changes its argument or a generator in a way that no node repeats."""
    raise TraceError(
        f"{name}() cannot be recorded: each call of the model draws anew, and the graph would keep the example's "
        f"draw{tracer._place()}\n"
        "Draw numbers instead (random.sample, numpy.random.permutation, torch.randperm), give a new generator a seed, "
        "or keep the code that draws in a leaf (fxcore.wrap, leaf_modules=)"
    )


def _make_generator(tracer: Any, function: Callable[..., Any], seed: Any = None) -> Any:
    """Make a generator of numpy in the traced code. Its draws are constants, so they need a seed."""
    if seed is None:
        _refuse_draw("numpy.random.default_rng", tracer, function)
    return function(seed)


def _recorded_method(original: Callable[..., Any]) -> Callable[..., Any]:
    return recorded(original, "call_method", original.__name__)


def _with_values(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement for `Module._apply`: real parameters move, and no proxy takes their place."""

    def _apply(self: Any, function: Callable[[Any], Any], *args: Any, **kwargs: Any) -> Any:
        def on_values(tensor: Any) -> Any:
            return value_of(function(tensor))

        with module_hooks.suspended():
            return original(self, on_values, *args, **kwargs)

    return _apply


def _recorded_apply(original: Any) -> Any:
    """Return a class method that records a call of `Function.apply`, so that the graph keeps its backward.

    If an argument cannot be an argument of a node, such as a function, the operations of its forward are recorded
    instead.
    """

    # The class method itself, in Python or, from torch 2.14 on, in C. It is bound to the user's class below.
    method = inspect.getattr_static(original.__self__, "apply")

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        found: Any = find_symbolic((args, kwargs))
        target = method.__get__(None, cls)
        if found is None:
            return target(*args, **kwargs)
        try:
            found.tracer.create_arg((args, kwargs))
        except TraceArgumentError:
            return _recorded_forward(cls, args, kwargs)
        return found.tracer.create_proxy("call_function", target, args, kwargs)

    return classmethod(apply)


def _recorded_forward(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if function is checkpoint.CheckpointFunction:
        run, _, *inputs = args
        return run(*inputs)
    if function.setup_context is not torch.autograd.Function.setup_context:
        return function.forward(*args, **kwargs)
    return function.forward(_ForwardContext(), *args, **kwargs)


class _ForwardContext:
    """The `ctx` of an autograd function's forward where nothing is kept for a backward."""

    needs_input_grad: tuple[bool, ...] = (False,) * 64

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep nothing."""

    save_for_forward = mark_dirty = mark_non_differentiable = set_materialize_grads = save_for_backward


def _recorded_script(original: Callable[..., Any]) -> Callable[..., Any]:
    def record(tracer: Any, args: Any, kwargs: Any) -> Any:
        function, *given = args
        return tracer.create_proxy("call_function", function, tuple(given), kwargs, name=str(function.name))

    return called_on_proxies(original, record)

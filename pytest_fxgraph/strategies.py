"""Hypothesis strategies for random modules, graphs and inputs, to test passes with, and for calls, to test guards with.

Example:
    @given(strategies.modules_with_inputs())
    def test_my_pass_keeps_the_results(drawn):
        model, inputs = drawn
        assert_equivalent(model, my_pass(fxcore.symbolic_trace(model)), inputs)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it

import fxcore
from pytest_fxgraph.equivalence.changed_calls import ChangedCall, changes_of
from pytest_fxgraph.equivalence.inputs import arguments_of
from pytest_fxgraph.errors import GateError, MismatchError

try:
    from hypothesis import strategies as st

    from pytest_fxgraph.equivalence.search.drawing import minimal
except ImportError as missing:
    raise GateError(
        "pytest_fxgraph.strategies needs hypothesis, which is not installed: pip install 'pytest-fxgraph[hypothesis]'"
    ) from missing

__all__ = [
    *("changed_calls", "fuzz_guards", "graphs", "graphs_with_inputs"),
    *("inputs_of", "modules", "modules_with_inputs", "tensors"),
]

# Batch, channels, height and width of every value in a drawn module.
SHAPE = (2, 4, 6, 6)
_CHANNELS, _WIDTH = SHAPE[1], SHAPE[3]


@dataclass(frozen=True)
class Operation:
    """The computation of one step of a drawn module, from one or two earlier values."""

    apply: Callable[[Any, Any, Any], Any]  # layer, x, y -> value; the layer may be None
    text: str  # as source code, with {x} and {y}
    layer: Callable[[], nn.Module] | None = None
    draws: bool = False  # uses random numbers
    writes: bool = False  # writes into an earlier value
    trains: bool = False  # changes its module in train mode


def _call(layer: Any, x: Any, y: Any) -> Any:
    return layer(x)


def _module(text: str, layer: Callable[[], nn.Module], *, draws: bool = False, trains: bool = False) -> Operation:
    return Operation(_call, text, layer, draws=draws, trains=trains)


def _function(text: str, apply: Callable[[Any, Any], Any], *, draws: bool = False, writes: bool = False) -> Operation:
    return Operation(lambda layer, x, y: apply(x, y), text, draws=draws, writes=writes)


def _swapped_halves(x: Any) -> Any:
    first, second = x.chunk(2, dim=1)
    return torch.cat((second, first), dim=1)


OPERATIONS: dict[str, Operation] = {
    "conv": _module("Conv2d({x})", lambda: nn.Conv2d(_CHANNELS, _CHANNELS, 3, padding=1)),
    "conv_without_bias": _module("Conv2d({x})", lambda: nn.Conv2d(_CHANNELS, _CHANNELS, 1, bias=False)),
    "depthwise": _module("Conv2d({x})", lambda: nn.Conv2d(_CHANNELS, _CHANNELS, 3, padding=1, groups=_CHANNELS)),
    "batch_norm": _module("BatchNorm2d({x})", lambda: nn.BatchNorm2d(_CHANNELS), trains=True),
    "group_norm": _module("GroupNorm({x})", lambda: nn.GroupNorm(2, _CHANNELS)),
    "layer_norm": _module("LayerNorm({x})", lambda: nn.LayerNorm(_WIDTH)),
    "linear": _module("Linear({x})", lambda: nn.Linear(_WIDTH, _WIDTH)),
    "relu_module": _module("ReLU({x})", nn.ReLU),
    "dropout": _module("Dropout({x})", lambda: nn.Dropout(0.5), draws=True),
    "max_pool": _module("MaxPool2d({x})", lambda: nn.MaxPool2d(3, 1, 1)),
    "identity": _module("Identity({x})", nn.Identity),
    "relu": _function("torch.relu({x})", lambda x, y: torch.relu(x)),
    "relu_method": _function("{x}.relu()", lambda x, y: x.relu()),
    "gelu": _function("F.gelu({x})", lambda x, y: F.gelu(x)),
    "silu": _function("F.silu({x})", lambda x, y: F.silu(x)),
    "hardtanh": _function("F.hardtanh({x}, -1.0, 2.0)", lambda x, y: F.hardtanh(x, -1.0, 2.0)),
    "clamp": _function("{x}.clamp(min=-1.0)", lambda x, y: x.clamp(min=-1.0)),
    "tanh": _function("torch.tanh({x})", lambda x, y: torch.tanh(x)),
    "sigmoid": _function("torch.sigmoid({x})", lambda x, y: torch.sigmoid(x)),
    "softmax": _function("F.softmax({x}, dim=-1)", lambda x, y: F.softmax(x, dim=-1)),
    "neg": _function("-{x}", lambda x, y: -x),
    "add": _function("{x} + {y}", lambda x, y: x + y),
    "add_scaled": _function("torch.add({x}, {y}, alpha=0.5)", lambda x, y: torch.add(x, y, alpha=0.5)),
    "sub": _function("{x} - {y}", lambda x, y: x - y),
    "mul_bounded": _function("{x} * torch.tanh({y})", lambda x, y: x * torch.tanh(y)),
    "mul_number": _function("{x} * 0.5", lambda x, y: x * 0.5),
    "add_zero": _function("{x} + 0", lambda x, y: x + 0),
    "mul_one": _function("1 * {x}", lambda x, y: 1 * x),
    "div": _function("{x} / 1.5", lambda x, y: x / 1.5),
    "maximum": _function("torch.maximum({x}, {y})", lambda x, y: torch.maximum(x, y)),
    "where": _function("torch.where({x} > 0, {x}, {y})", lambda x, y: torch.where(x > 0, x, y)),
    "matmul": _function("torch.matmul(F.softmax({x}, -1), {y})", lambda x, y: torch.matmul(F.softmax(x, -1), y)),
    "centre": _function("{x} - {x}.mean(1, keepdim=True)", lambda x, y: x - x.mean(1, keepdim=True)),
    "transpose": _function("{x}.transpose(2, 3)", lambda x, y: x.transpose(2, 3)),
    "permute": _function("{x}.permute(0, 1, 3, 2).contiguous()", lambda x, y: x.permute(0, 1, 3, 2).contiguous()),
    "flatten": _function(f"{{x}}.flatten(1).view{SHAPE}", lambda x, y: x.contiguous().flatten(1).view(SHAPE)),
    "swap_halves": _function("torch.cat({x}.chunk(2, dim=1)[::-1], dim=1)", lambda x, y: _swapped_halves(x)),
    "cat_slice": _function("torch.cat([{x}, {y}], 1)[:, 2:6]", lambda x, y: torch.cat([x, y], 1)[:, 2:6]),
    "dropout_function": _function("F.dropout({x})", lambda x, y: F.dropout(x), draws=True),
    "noise": _function("{x} + torch.rand_like({x})", lambda x, y: x + torch.rand_like(x), draws=True),
    "add_in_place": _function("{x}.add_(0.25)", lambda x, y: x.add_(0.25), writes=True),
    "relu_in_place": _function("torch.relu_({x})", lambda x, y: torch.relu_(x), writes=True),
}


def usable_operations(*, random: bool, mutation: bool, training_state: bool) -> list[str]:
    """Return the names of the operations that the options allow."""
    return [
        name
        for name, operation in OPERATIONS.items()
        if (random or not operation.draws)
        and (mutation or not operation.writes)
        and (training_state or not operation.trains)
    ]


OUTPUTS = ("last", "pair", "list", "dict")


@dataclass(frozen=True)
class Step:
    """One operation; its operands x and y count back from the newest value, modulo the number of values."""

    operation: str
    x: int
    y: int


@dataclass(frozen=True)
class Program:
    """The steps of a drawn module, and the seed of its parameters."""

    inputs: int  # how many: 1 or 2
    steps: tuple[Step, ...]
    output: str  # one of OUTPUTS
    seed: int


class RandomModule(nn.Module):
    """The module that a program describes; its repr is the program as source code."""

    def __init__(self, program: Program) -> None:
        """Make the layers, with parameters drawn from the program's seed; torch's generator is restored."""
        super().__init__()
        self.program = program
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(program.seed)
            for index, step in enumerate(program.steps):
                layer = OPERATIONS[step.operation].layer
                if layer is not None:
                    self.add_module(f"layer{index}", _with_statistics(layer()))

    def forward(self, x: Any, *others: Any) -> Any:
        """Run the steps on inputs of shape SHAPE; the result has the structure that `program.output` names."""
        values = [x, *others]
        for index, step in enumerate(self.program.steps):
            layer = self._modules.get(f"layer{index}")
            operands = (values[-1 - back % len(values)] for back in (step.x, step.y))
            values.append(OPERATIONS[step.operation].apply(layer, *operands))
        return _returned(self.program.output, values)

    def __repr__(self) -> str:
        names = [f"x{index}" for index in range(self.program.inputs)]
        lines = [f"def forward(self, {', '.join(names)}):  # parameters from seed {self.program.seed}"]
        for index, step in enumerate(self.program.steps):
            x, y = (names[-1 - back % len(names)] for back in (step.x, step.y))
            operation = OPERATIONS[step.operation]
            text = operation.text.format(x=x, y=y)
            if operation.layer is not None:
                text = f"self.layer{index}({x})  # {text.partition('(')[0]}"
            names.append(f"v{index}")
            lines.append(f"    v{index} = {text}")
        return "\n".join([*lines, f"    return {_returned(self.program.output, names)}"]).replace("'", "")


class OneInput(RandomModule):
    """A drawn module of one input; a trace needs a forward that names its parameters."""

    def forward(self, x: Any) -> Any:
        """Run the steps."""
        return super().forward(x)


class TwoInputs(RandomModule):
    """A drawn module of two inputs."""

    def forward(self, x: Any, y: Any) -> Any:
        """Run the steps."""
        return super().forward(x, y)


def module_of(program: Program) -> RandomModule:
    """Build the module of a program."""
    return (OneInput if program.inputs == 1 else TwoInputs)(program)


def _returned(output: str, values: list[Any]) -> Any:
    last, middle = values[-1], values[len(values) // 2]
    made = {"last": last, "pair": (last, middle), "list": [last, [middle]], "dict": {"last": last, "middle": middle}}
    return made[output]


def _with_statistics(layer: nn.Module) -> nn.Module:
    """Give a batch norm random statistics: with the initial ones it does next to nothing."""
    if isinstance(layer, nn.BatchNorm2d):
        with torch.no_grad():
            for values in (layer.running_mean, layer.bias):
                values.uniform_(-0.5, 0.5)  # type: ignore[union-attr]  # torch types them as possibly missing
            for values in (layer.running_var, layer.weight):
                values.uniform_(0.5, 1.5)  # type: ignore[union-attr]  # as above
    return layer


# The values of drawn tensors: a shape and a generator -> a tensor.
_VALUES: dict[str, Callable[[tuple[int, ...], torch.Generator], torch.Tensor]] = {
    "uniform": lambda shape, generator: torch.rand(shape, generator=generator) * 4 - 2,
    "normal": lambda shape, generator: torch.randn(shape, generator=generator),
    "zeros": lambda shape, generator: torch.zeros(shape),
    "ones": lambda shape, generator: torch.ones(shape),
    "halves": lambda shape, generator: torch.randint(-4, 5, shape, generator=generator) / 2,
    "tiny": lambda shape, generator: torch.randn(shape, generator=generator) * 1e-6,
    "strided": lambda shape, generator: _turned(torch.randn(shape[::-1], generator=generator)),
}


def modules(
    *,
    max_operations: int = 8,
    random: bool = False,
    mutation: bool = False,
    training_state: bool = True,
    training: bool | None = False,
) -> st.SearchStrategy[RandomModule]:
    """Return a strategy for modules: chains and branches of layers, functions and methods, with some dead values.

    Inputs and values have the shape SHAPE. `random` allows operations that use random numbers, `mutation`
    operations that write in place, `training_state` modules that change in train mode (batch norm). `training` is the
    mode of the module; None draws the mode. A failing example shrinks to few operations and prints as the source of its
    forward.
    """
    names = usable_operations(random=random, mutation=mutation, training_state=training_state)
    steps = st.builds(Step, st.sampled_from(names), st.integers(0, 3), st.integers(0, 3))
    chains = st.lists(steps, min_size=1, max_size=max_operations).map(tuple)
    programs = st.builds(Program, st.integers(1, 2), chains, output=st.sampled_from(OUTPUTS), seed=st.integers(0, 3))
    modes = st.booleans() if training is None else st.just(training)
    return st.builds(_module_in_mode, programs, modes)


def _module_in_mode(program: Program, training: bool) -> RandomModule:
    return module_of(program).train(training)


def graphs(**options: Any) -> st.SearchStrategy[fxcore.GraphModule]:
    """Return a strategy for graph modules, some with dead code; the options are the options of `modules`."""
    return modules(**options).map(fxcore.symbolic_trace)


def tensors(shape: tuple[int, ...] = SHAPE, dtype: torch.dtype = torch.float32) -> st.SearchStrategy[torch.Tensor]:
    """Return a strategy for tensors: random, all equal, at rounding boundaries, tiny, or with reversed strides."""
    return st.builds(_tensor, st.just(shape), st.just(dtype), st.sampled_from([*_VALUES]), st.integers(0, 2**16))


def _tensor(shape: tuple[int, ...], dtype: torch.dtype, kind: str, seed: int) -> torch.Tensor:
    return _VALUES[kind](shape, torch.Generator().manual_seed(seed)).to(dtype)


def _turned(values: torch.Tensor) -> torch.Tensor:
    return values.permute(tuple(reversed(range(values.dim()))))


def inputs_of(subject: Any) -> st.SearchStrategy[tuple[torch.Tensor, ...]]:
    """Return a strategy for the positional arguments of a drawn module or graph; raises GateError for others."""
    if isinstance(subject, RandomModule):
        count = subject.program.inputs
    elif isinstance(subject, fxcore.GraphModule):
        count = sum(node.op == "placeholder" for node in subject.graph.nodes)
    else:
        raise GateError(
            f"inputs_of: a {type(subject).__name__} was not drawn here, so the shapes that it takes are not known; "
            "build its inputs of tensors(shape, dtype)"
        )
    return st.tuples(*[tensors()] * count)


def modules_with_inputs(**options: Any) -> st.SearchStrategy[tuple[RandomModule, tuple[torch.Tensor, ...]]]:
    """Return a strategy for pairs of a module and its arguments; the options are the options of `modules`."""
    return modules(**options).flatmap(lambda module: st.tuples(st.just(module), inputs_of(module)))


def graphs_with_inputs(**options: Any) -> st.SearchStrategy[tuple[fxcore.GraphModule, tuple[torch.Tensor, ...]]]:
    """Return a strategy for pairs of a graph module and its arguments; the options are the options of `modules`."""
    return graphs(**options).flatmap(lambda graph: st.tuples(st.just(graph), inputs_of(graph)))


_MOST_CHANGES = 2
_TRIES_OF_ROUND = 10  # hypothesis varies its own examples after some draws; short rounds draw independent calls


def changed_calls(
    model: Any, inputs: Any, *, kwargs: Mapping[str, Any] | None = None, graph: fxcore.GraphModule | None = None
) -> st.SearchStrategy[ChangedCall]:
    """Return a strategy for calls that differ from the example in one or two points.

    A call changes the structure of the inputs (None, missing and further elements and keys, tuples for lists), sizes
    of one dimension or of every input, dtypes, ranks, layouts, plain values, the list of arguments, modes (train, grad,
    inference, autocast, default dtype) and attributes of modules. `str(call)` names the changes;
    `call.check(model, graph)` returns "right", "refused" or "both raise", and raises MismatchError if the graph
    answers otherwise than the model. A failing call shrinks to the change that matters. Without `graph` the model is
    traced here.
    """
    example = arguments_of(inputs, kwargs)
    graph = graph if graph is not None else _traced(model, example.args, example.kwargs)
    by_kind = changes_of(model, graph, example)
    change = st.one_of([st.sampled_from(changes) for changes in by_kind.values()])
    changes = st.lists(change, min_size=1, max_size=_MOST_CHANGES, unique_by=lambda each: (each.kind, each.where))
    flag, seed = st.booleans(), st.integers(0, 3)
    return st.builds(ChangedCall, st.just(example), changes.map(tuple), seed=seed, grads=flag, twice=flag)


def fuzz_guards(
    model: Any,
    inputs: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    graph: fxcore.GraphModule | None = None,
    tries: int = 100,
    seed: int = 0,
) -> Counter[str]:
    """Call the graph of a model in ways that differ from the example; each answer must be the model's, or a refusal.

    Return the numbers of calls that were "right", "refused", and at which "both raise". `inputs` and `kwargs` are the
    example of the trace; without `graph` the model is traced with them. The draws depend on `seed` alone. Model and
    graph are restored after each call. Raises MismatchError with the smallest call that shows a difference, and if the
    graph refuses its own example.
    """
    __tracebackhide__ = True
    example = arguments_of(inputs, kwargs)
    graph = graph if graph is not None else _traced(model, example.args, example.kwargs)
    if ChangedCall(example).check(model, graph) == "refused":
        raise MismatchError("the graph refuses the example that it was traced with", "")
    counts: Counter[str] = Counter()

    def is_wrong(call: ChangedCall) -> bool:
        try:
            counts[call.check(model, graph)] += 1
        except MismatchError:
            return True
        return False

    calls = changed_calls(model, example.args, kwargs=example.kwargs, graph=graph)
    for round_ in range(-(-tries // _TRIES_OF_ROUND)):
        found = minimal(calls, is_wrong, seed + round_ * 2**32, min(tries, _TRIES_OF_ROUND))
        if found is not None:
            found.check(model, graph)
            raise MismatchError(f"the graph differs at this call at some times only: {found}", "")
    return counts


def _traced(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> fxcore.GraphModule:
    return fxcore.symbolic_trace(model, example_inputs=args, example_kwargs=dict(kwargs))

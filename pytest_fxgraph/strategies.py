"""Hypothesis strategies for random modules, graphs and inputs, to drive passes of your own with.

from hypothesis import given
from pytest_fxgraph import assert_equivalent, strategies

@given(strategies.modules_with_inputs())
def test_my_pass_keeps_what_a_module_computes(drawn):
    model, inputs = drawn
    assert_equivalent(model, my_pass(fxcore.symbolic_trace(model)), inputs)
"""

from __future__ import annotations

from typing import Any

import torch

import fxcore
from pytest_fxgraph.errors import GateError
from pytest_fxgraph.strategies_operations import SHAPE, usable_operations
from pytest_fxgraph.strategies_program import OUTPUTS, Program, RandomModule, Step, module_of

try:
    from hypothesis import strategies as st
except ImportError as missing:
    raise GateError(
        "pytest_fxgraph.strategies needs hypothesis, which is not installed: pip install 'pytest-fxgraph[hypothesis]'"
    ) from missing

__all__ = ["graphs", "graphs_with_inputs", "inputs_of", "modules", "modules_with_inputs", "tensors"]

_KINDS = ("uniform", "normal", "zeros", "ones", "halves", "tiny", "strided")


def modules(
    *,
    max_operations: int = 8,
    random: bool = False,
    mutation: bool = False,
    training_state: bool = True,
    training: bool | None = False,
) -> st.SearchStrategy[RandomModule]:
    """Draw modules: chains and branches of layers, functions and methods, some values read by nobody.

    `random` lets them draw random numbers, `mutation` write into values in place, `training_state` hold modules that
    change in train mode (batch norm). `training` is the mode they are in; None draws it. A failing example shrinks to
    few operations, and prints as the forward that one would write.
    """
    names = usable_operations(random=random, mutation=mutation, training_state=training_state)
    steps = st.builds(Step, st.sampled_from(names), st.integers(0, 3), st.integers(0, 3))
    programs = st.builds(
        Program,
        inputs=st.integers(1, 2),
        steps=st.lists(steps, min_size=1, max_size=max_operations).map(tuple),
        output=st.sampled_from(OUTPUTS),
        seed=st.integers(0, 3),
    )
    modes = st.booleans() if training is None else st.just(training)
    return st.builds(_module_in_mode, programs, modes)


def _module_in_mode(program: Program, training: bool) -> RandomModule:
    module = module_of(program)
    module.train(training)
    return module


def graphs(**options: Any) -> st.SearchStrategy[fxcore.GraphModule]:
    """Draw graph modules; options as of `modules`. Values that nobody reads are dead code in them."""
    return modules(**options).map(fxcore.symbolic_trace)


def tensors(shape: tuple[int, ...] = SHAPE, dtype: torch.dtype = torch.float32) -> st.SearchStrategy[torch.Tensor]:
    """Draw tensors of a shape: random, all alike, at rounding boundaries, tiny, or with strides out of order."""
    return st.builds(_tensor, st.just(shape), st.just(dtype), st.sampled_from(_KINDS), st.integers(0, 2**16))


def _tensor(shape: tuple[int, ...], dtype: torch.dtype, kind: str, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if kind == "strided":
        turned = torch.randn(shape[::-1], generator=generator)
        return turned.permute(tuple(reversed(range(len(shape))))).to(dtype)
    made = {
        "uniform": lambda: torch.rand(shape, generator=generator) * 4 - 2,
        "normal": lambda: torch.randn(shape, generator=generator),
        "zeros": lambda: torch.zeros(shape),
        "ones": lambda: torch.ones(shape),
        "halves": lambda: torch.randint(-4, 5, shape, generator=generator) / 2,
        "tiny": lambda: torch.randn(shape, generator=generator) * 1e-6,
    }[kind]()
    return made.to(dtype)


def inputs_of(subject: Any) -> st.SearchStrategy[tuple[torch.Tensor, ...]]:
    """Draw the positional arguments of a drawn module or graph."""
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
    """Draw a module and what to call it with; options as of `modules`."""
    return modules(**options).flatmap(lambda module: st.tuples(st.just(module), inputs_of(module)))


def graphs_with_inputs(**options: Any) -> st.SearchStrategy[tuple[fxcore.GraphModule, tuple[torch.Tensor, ...]]]:
    """Draw a graph module and what to call it with; options as of `modules`."""
    return graphs(**options).flatmap(lambda graph: st.tuples(st.just(graph), inputs_of(graph)))

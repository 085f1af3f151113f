from __future__ import annotations

import copy
import operator
import re

import pytest
import torch
import torch.fx

from fixtures.higher_order import AOT, DYNAMO, EXPORT, HAND, PROGRAMS
from fixtures.torch_captures import captured, captured_afresh
from pytest_fxgraph import assert_graph_matches_golden, assert_ops

SAMPLE = {("autograd_function", DYNAMO), ("hints_wrapper", DYNAMO), ("hints_wrapper", AOT), ("associative_scan", HAND)}
CASES = [
    pytest.param(
        name, way, id=f"{name}-{way}", marks=[] if way == HAND or (name, way) in SAMPLE else [pytest.mark.long]
    )
    for name, program in PROGRAMS.items()
    for way in program.operators
]
WITH_GRAPHS_INSIDE = {
    *((name, way) for name in ("cond", "scan", "map", "hints_wrapper", "strict_mode") for way in (DYNAMO, AOT, EXPORT)),
    *((name, DYNAMO) for name in ("autograd_function", "checkpoint", "wrap", "invoke_quant", "register_hook")),
    *((name, EXPORT) for name in ("no_grad_region", "autocast_region", "invoke_subgraph", "foreach_map")),
    *((name, HAND) for name in ("associative_scan", "run_const_graph", "bypassing_wrapper")),
}
aten = torch.ops.aten
OTHER = {
    "sin": "tanh",
    "cos": "tanh",
    "relu": "sigmoid",
    operator.add: operator.sub,
    operator.mul: operator.sub,
    aten.sin.default: aten.tanh.default,
    aten.cos.default: aten.tanh.default,
    aten.relu.default: aten.sigmoid.default,
    aten.matmul.default: aten.mm.default,
    aten.add.Tensor: aten.sub.Tensor,
    aten.mul.Tensor: aten.sub.Tensor,
}


def graphs_that_are_called(module, path=""):
    """Yield the graph modules in a graph, with their paths; torch leaves others behind that nobody calls."""
    for node in module.graph.nodes:
        called = getattr(module, str(node.target), None) if node.op == "get_attr" else None
        if isinstance(called, torch.fx.GraphModule):
            yield f"{path}{node.target}", called
            yield from graphs_that_are_called(called, f"{path}{node.target}/")


def with_other_operator(module):
    """Return a copy in which the innermost graph that can do so calls another operator, and where; None without."""
    copied = copy.deepcopy(module)
    for path, inner in reversed(list(graphs_that_are_called(copied))):
        for node in inner.graph.nodes:
            if node.op in ("call_function", "call_method") and node.target in OTHER and node.users:
                node.target = OTHER[node.target]
                inner.recompile()
                return copied, f"{path}/{node.name}"
    return None


@pytest.mark.parametrize(("name", "way"), CASES)
def test_a_golden_of_a_program_matches_when_it_is_captured_again(name, way, tmp_path):
    for first, second in zip(captured(name, way), captured_afresh(name, way), strict=True):
        golden = tmp_path / f"{first.kind}.yaml"
        assert_graph_matches_golden(first.module, golden, update=True)

        assert_graph_matches_golden(second.module, golden)


@pytest.mark.parametrize(("name", "way"), CASES)
def test_another_operator_inside_is_told_with_its_path(name, way, tmp_path):
    changed = [(each, with_other_operator(each.module)) for each in captured(name, way)]
    if not any(made for _, made in changed):
        assert (name, way) not in WITH_GRAPHS_INSIDE
        pytest.skip("no graph is called inside this one")
    for each, made in changed:
        if made is not None:
            golden = tmp_path / f"{each.kind}.yaml"
            assert_graph_matches_golden(each.module, golden, update=True)

            with pytest.raises(
                AssertionError, match=rf"does not match: .* at {re.escape(made[1].rpartition('/')[0])}\b"
            ):
                assert_graph_matches_golden(made[0], golden)


def test_operators_inside_are_counted():
    (each,) = captured("hints_wrapper", DYNAMO)

    with pytest.raises(AssertionError, match="sin"):
        assert_ops(each.module, absent=["sin"])

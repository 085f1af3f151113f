"""Kernels as plain data: lines of goldens, operators by name, and the reason of a fusion that Inductor refused."""

from __future__ import annotations

import pytest

from pytest_fxgraph.captures.kernels import FusedNode, Kernel, KernelPlan, RefusedFusion, refuse_unfused


def kernel(*operators: str, kind: str = "pointwise", module: str = "", names: str = "", **facts) -> Kernel:
    """Return a kernel of operators; a letter of `names` is the name of each node."""
    named = zip(names or "abcdefg", operators, strict=False)
    return Kernel(kind, tuple(FusedNode(name, operator, module) for name, operator in named), **facts)


RELU, ADD, SUM, MM = "aten.relu.default", "aten.add.Tensor", "aten.sum.dim_IntList", "aten.mm.default"


@pytest.mark.parametrize(
    ("operator", "computes"),
    [("aten.relu", True), ("aten.relu.default", True), ("aten.*", True), ("aten.add.Tensor", True), ("aten.rel", False),
     ("relu", False), ("aten.add.Scalar", False)],
)  # fmt: skip
def test_a_kernel_computes_operators_with_and_without_their_overload(operator, computes):
    assert kernel(RELU, ADD).computes(operator) is computes
    assert not kernel().computes(operator)


def test_the_line_of_a_kernel_counts_operators_and_folds_repeated_modules():
    nodes = [("a", RELU, "blocks.0.act"), ("b", ADD, "blocks.11.act"), ("c", ADD, "1"), ("d", "prims.iota", ""),
             ("e", "higher_order.cond", "conv2d.head1")]  # fmt: skip
    made = Kernel("reduction", tuple(FusedNode(*node) for node in nodes), "", 12, 30)

    line = made.line("backward ")

    assert (line.phase, line.kind) == ("backward ", "reduction")
    assert line.modules == "*, blocks.*.act, conv2d.head1"
    assert line.operators == (("aten.add", 2), ("aten.relu", 1), ("higher_order.cond", 1), ("prims.iota", 1))
    assert (line.read, line.written, made.bytes) == (12, 30, 42)
    assert made.text == made.line().text


def test_a_kernel_shows_the_function_that_it_calls():
    assert repr(kernel(MM, kind="extern", target="extern_kernels.mm")) == (
        "<extern kernel extern_kernels.mm of aten.mm.default>"
    )
    assert repr(kernel(RELU, ADD)) == "<pointwise kernel of aten.relu.default, aten.add.Tensor>"
    assert repr(kernel()) == "<pointwise kernel of no operator>"
    assert kernel(RELU, updates=("buf0",)) == kernel(RELU)
    assert kernel(RELU).bytes == 0


def test_refused_fusions_are_pairs_of_kernels():
    kernels = (kernel(RELU, ADD, names="ab"), kernel(SUM, names="c"), kernel(MM, names="d"))
    refused = (RefusedFusion(("b",), ("c",), "shapes"), RefusedFusion(("c",), ("a", "b"), "order"),
               RefusedFusion(("a",), ("b",), "one kernel"), RefusedFusion((), ("c",), "nothing"),
               RefusedFusion(("a", "c"), ("d",), "two kernels"))  # fmt: skip

    assert [*KernelPlan(kernels, refused).refused_pairs()] == [(0, 1, "shapes"), (1, 0, "order")]


@pytest.mark.parametrize(
    ("plans", "operators", "words"),
    [
        ([[kernel(RELU, ADD)]], ("aten.relu", "aten.add"), None),
        ([[kernel(SUM), kernel(RELU, ADD)], [kernel(ADD)]], ("aten.relu", "aten.add"), None),
        ([[kernel(RELU)]], ("aten.relu", "aten.add"),
         "no kernel computes aten.add; the kernels are: <pointwise kernel of aten.relu.default>"),
        ([[]], ("aten.relu", "aten.add"), "no kernel computes aten.relu; the kernels are: none"),
        ([[kernel(RELU)], [kernel(ADD)]], ("aten.relu", "aten.add"),
         "aten.relu is not fused with aten.add in the graph 0: <pointwise kernel of aten.relu.default>; another graph "
         "computes aten.add"),
        ([[kernel(RELU, names="a"), kernel(ADD, SUM, names="bc")]], ("aten.relu", "aten.add", "aten.sum"),
         "aten.relu is not fused with aten.add, aten.sum in the graph 0: <pointwise kernel of aten.relu.default>; "
         "<pointwise kernel of aten.add.Tensor, aten.sum.dim_IntList>, and Inductor did not try to fuse these"),
        ([[kernel(RELU, ADD)], [kernel(RELU)]], ("aten.relu", "aten.add"),
         "aten.relu is not fused with aten.add in the graph 1: <pointwise kernel of aten.relu.default>; another graph "
         "computes aten.add"),
    ],
)  # fmt: skip
def test_operators_are_fused_or_the_error_names_their_kernels(plans, operators, words):
    named = [(f"graph {place}", KernelPlan(tuple(kernels))) for place, kernels in enumerate(plans)]

    if words is None:
        refuse_unfused(named, operators[0], operators[1:])
        return
    with pytest.raises(AssertionError) as caught:
        refuse_unfused(named, operators[0], operators[1:])
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("refused", "told"),
    [
        ((RefusedFusion(("a",), ("b",), "first"), RefusedFusion(("b",), ("a",), "last")), "because last"),
        ((RefusedFusion(("a",), ("c",), "another kernel"),), "and Inductor did not try to fuse these"),
        ((RefusedFusion(("b",), ("c",), "others"),), "and Inductor did not try to fuse these"),
        ((RefusedFusion(("b",), ("a",), "reversed"), RefusedFusion(("b",), ("c",), "others")), "because reversed"),
    ],
)
def test_the_reason_of_torch_is_that_of_the_two_kernels(refused, told):
    plan = KernelPlan((kernel(RELU, names="a"), kernel(ADD, names="b"), kernel(SUM, names="c")), refused)

    with pytest.raises(AssertionError) as caught:
        refuse_unfused([("graph", plan)], "aten.relu", ["aten.add"])

    assert str(caught.value).endswith(f"; <pointwise kernel of aten.add.Tensor>, {told}")

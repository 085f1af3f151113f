"""Passes of Inductor run in `fx_transform`, in the context that they ask for."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch._inductor import config, custom_graph_pass
from torch._inductor.fx_passes import (
    b2b_gemm,
    dedupe_symint_uses,
    group_batch_fusion,
    joint_graph,
    micro_pipeline_tp,
    post_grad,
    pre_grad,
    reinplace,
    replace_random,
)
from torch._inductor.pattern_matcher import CallFunction, KeywordArg, PatternMatcherPass, register_graph_pattern
from torch._inductor.virtualized import V
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from pytest_fxgraph import capture, check_transform
from pytest_fxgraph.captures.inductor_context import run_inductor_pass
from pytest_fxgraph.errors import MismatchError, SubjectError, VacuousCheckError
from pytest_fxgraph.report.text import headline

aten, prims = torch.ops.aten, torch.ops.prims
needs_2_13 = pytest.mark.skipif(torch.__version__ < "2.13", reason="the table holds the effects of torch 2.13's passes")
X = torch.linspace(-1.0, 2.0, 16).reshape(4, 4)
V4 = torch.tensor([0.5, -1.0, 2.0, 3.0])
INDEX = torch.tensor([0, 2])


@torch.library.custom_op("fxgraph_context::add_one_", mutates_args={"x"})
def add_one_(x: torch.Tensor) -> None:
    x.add_(1)


def written(x, v, index):
    return aten.index_put(x * 2, [index], v)


def mutated_by_an_operator(x):
    y = x * 2
    add_one_(y)
    return y


def scanned(x):
    from torch._higher_order_ops.scan import scan

    return scan(lambda carry, row: (carry + row, carry * row), x[0].clone(), x)[1]


def asserted(x):
    y = x * 2
    aten._assert_tensor_metadata(y, None, None, torch.float32)
    return y + 1


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.same = nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1), nn.Identity()
        nn.init.constant_(self.conv.weight, 2.0)

    def forward(self, x):
        return torch.cat([self.same(self.norm(self.conv(x)))]).relu()


class Case(NamedTuple):
    transform: Any
    function: Any
    inputs: tuple[torch.Tensor, ...]
    effect: str | None  # the edits, "no difference" for another order; None for a pass that must change nothing
    frontend: str = "make_fx"
    may_change: tuple[str, ...] = ()


IMAGE = (torch.linspace(-1.0, 1.0, 16).reshape(1, 1, 4, 4),)


def cases_of_2_13():
    return {
        "post_grad_passes": Case(
            post_grad.post_grad_passes, written, (X, V4, INDEX), "aten.index_put -> aten.index_put_"
        ),
        "reinplace": Case(
            reinplace.reinplace_inplaceable_ops, written, (X, V4, INDEX), "aten.index_put -> aten.index_put_"
        ),
        "reinplace_core": Case(
            reinplace.reinplace_inplaceable_ops_core, written, (X, V4, INDEX), "aten.index_put -> aten.index_put_"
        ),
        "reinplace_used": Case(
            reinplace.reinplace_inplaceable_ops, lambda x, v: (x * 2, aten.index_put(x, [INDEX], v) + x), (X, V4), None
        ),
        "remove_noop_ops": Case(
            post_grad.remove_noop_ops, lambda x: aten.clone(x * 2) + 1, (X,), "aten.clone removed after mul"
        ),
        "view_to_reshape": Case(
            post_grad.view_to_reshape, lambda x: x.view(2, 8) + 1, (X,), "aten.view -> aten.reshape"
        ),
        "remove_assert_ops": Case(
            post_grad.remove_assert_ops,
            asserted,
            (X,),
            "aten._assert_tensor_metadata removed after mul",
            may_change=("refusals",),
        ),
        "reorder_for_locality": Case(
            post_grad.reorder_for_locality,
            lambda x: (lambda a, b: (b + 1) * a)(x.sin(), x.cos()),
            (X,),
            "no difference",
        ),
        "stable_topological_sort": Case(post_grad.stable_topological_sort, torch.sin, (X,), None),
        "move_constructors": Case(post_grad.move_constructors_to_gpu, lambda x: x + torch.ones(4), (X,), None),
        "decompose_auto_functionalized": Case(
            post_grad.decompose_auto_functionalized,
            mutated_by_an_operator,
            (X,),
            "auto_functionalized_v2 -> 2 operators (as_strided, clone), and 2 more edits",
            "aot",
        ),
        "decompose_triton": Case(post_grad.decompose_triton_kernel_wrapper_functional, torch.sin, (X,), None),
        "decompose_scan": Case(
            post_grad.decompose_scan_to_while_loop,
            scanned,
            (X,),
            "2 operators (scan, getitem) -> 3 operators (full, empty_strided, while_loop), and 6 more edits",
            "torch",
        ),
        "joint_graph_passes": Case(
            joint_graph.joint_graph_passes,
            lambda x: x.sin() * torch.full((4, 4), 1.0) + 1,
            (X,),
            "sin's output is no longer multiplied by the result of full",
        ),
        "constant_fold_uniform_value": Case(
            joint_graph.constant_fold_uniform_value,
            lambda x: x + torch.full((4, 4), 2.0) * 3,
            (X,),
            "2 operators (full, mul) -> full",
        ),
        "remove_redundant_views": Case(
            joint_graph.remove_redundant_views,
            lambda x: (lambda y: aten.view.dtype(y, torch.int32) + aten.view.dtype(y, torch.int32))(x.sin()),
            (X,),
            "aten.view removed after sin",
        ),
        "canonicalize_aten_ir": Case(joint_graph.canonicalize_aten_ir_passes, torch.sin, (X,), None),
        "addmm": Case(
            post_grad.pass_patterns[2], lambda x, v: torch.mm(x, x) + v, (X, V4), "2 operators (mm, add) -> addmm"
        ),
        "addmm_apply": Case(
            post_grad.pass_patterns[2].apply, lambda x, v: torch.mm(x, x) + v, (X, V4), "2 operators (mm, add) -> addmm"
        ),
        "post_grad_0": Case(post_grad.pass_patterns[0], torch.sin, (X,), None),
        "post_grad_1": Case(post_grad.pass_patterns[1], torch.sin, (X,), None),
        "joint_patterns": Case(
            joint_graph.patterns,
            lambda x: prims.convert_element_type(prims.convert_element_type(x, torch.float64), torch.float32) + 1,
            (X,),
            "prims.convert_element_type removed after input arg0_1",
        ),
        "early_patterns": Case(
            joint_graph.early_patterns, lambda x: aten.view(x.sin(), [4, 4]) + 1, (X,), "aten.view removed after sin"
        ),
        "b2b_gemm": Case(b2b_gemm.B2B_GEMM_PASS, lambda x: x.mm(x).mm(x), (X,), None),
        "group_batch_fusion": Case(
            partial(group_batch_fusion.group_batch_fusion_passes, pre_grad=False),
            lambda x: sum((x + n).tanh() for n in range(6)),
            (X,),
            "aten.tanh -> aten.select at 4 places, and 2 more edits",
        ),
        "micro_pipeline_tp": Case(micro_pipeline_tp.micro_pipeline_tp_pass, torch.sin, (X,), None),
        "replace_random": Case(replace_random.replace_random_passes, torch.sin, (X,), None),
        "dedupe_symints": Case(dedupe_symint_uses.dedupe_symints, torch.sin, (X,), None),
        "pre_grad_passes": Case(
            partial(pre_grad.pre_grad_passes, example_inputs=IMAGE),
            ConvNet,
            IMAGE,
            "relu moved from after to before cat, and 1 more edit",
            "",
        ),
        "remove_identity": Case(pre_grad.remove_identity, ConvNet, IMAGE, "nn.Identity removed after norm", ""),
        "fuse_conv_bn": Case(pre_grad.fuse_conv_bn, ConvNet, IMAGE, "nn.BatchNorm2d removed after conv", ""),
        "sink_cat_after_pointwise": Case(
            pre_grad.sink_cat_after_pointwise,
            ConvNet,
            IMAGE,
            "relu moved from after to before cat, and 1 more edit",
            "",
        ),
        "fuse_fx": Case(
            partial(pre_grad.fuse_fx, example_inputs=IMAGE),
            ConvNet,
            IMAGE,
            "relu moved from after to before cat, and 1 more edit",
            "",
        ),
    }


CASES = {} if torch.__version__ < "2.13" else cases_of_2_13()


@pytest.fixture(scope="module")
def registered_patterns():
    post_grad.lazy_init()
    joint_graph.lazy_init(torch.device("cpu"))


def is_fake_mode_set():
    return isinstance(V.fake_mode, FakeTensorMode)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("registered_patterns")
def test_passes_of_inductor_keep_results_and_have_their_effect(name):
    case = CASES[name]
    if case.frontend == "torch":  # a loop's counter needs the environment of shapes of a symbolic trace
        subject = make_fx(case.function, tracing_mode="symbolic")(*case.inputs)
    elif case.frontend:
        subject = capture(case.function, case.inputs, frontend=case.frontend)
    else:
        subject = case.function().eval()

    with config.patch(post_grad_fusion_options={"batch_aten_tanh": {}}):
        result = check_transform(
            case.transform, subject, case.inputs, allow_vacuous=case.effect is None, may_change=case.may_change
        )

    assert not is_fake_mode_set()
    assert (headline(result.difference) if result.is_changed else None) == case.effect


def cast_down_and_up(x):
    low = prims.convert_element_type(x * 1.1, torch.bfloat16)
    return prims.convert_element_type(low, torch.float32) + 1


def written_and_read(x, v):
    buffer = x * 2
    return aten.index_put(buffer, [INDEX], v) + buffer


class CastRemoval(custom_graph_pass.CustomGraphPass):
    """Remove casts down and up again; `only_up` keeps the casts that round."""

    def __init__(self, only_up=False):
        self._only_up = only_up

    def __call__(self, graph: torch.fx.Graph) -> None:
        for node in graph.find_nodes(op="call_function", target=prims.convert_element_type.default):
            source = node.args[0]
            if source.target is node.target and not (self._only_up and source.args[1] is torch.bfloat16):
                node.replace_all_uses_with(source.args[0])
                graph.erase_node(node)
                graph.erase_node(source)

    def uuid(self):
        return None


class Reinplacing(custom_graph_pass.CustomGraphPass):
    """Write in place, without a look at the later readers of the buffer."""

    def __call__(self, graph):
        for node in graph.find_nodes(op="call_function", target=aten.index_put.default):
            node.target = aten.index_put_.default

    def uuid(self):
        return None


BROKEN = {
    "cast": (
        CastRemoval(), cast_down_and_up, (X,),
        r"eager and graph after \w+ differ \(mode eval\): output(.|\n)*edits so far: 2 convert_element_type removed",
    ),
    "reinplacing": (
        Reinplacing(), written_and_read, (X, V4),
        r"eager and graph after \w+ differ \(mode eval\): output(.|\n)*edits so far: aten.index_put -> aten.index_put_",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_custom_pass_is_caught(name):
    broken, function, inputs, message = BROKEN[name]
    graph = capture(function, inputs, frontend="make_fx").graphs[0]

    with pytest.raises(MismatchError, match=message):
        check_transform(broken, graph, inputs)


@needs_2_13
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_custom_pass_is_caught_where_inductor_calls_it(name):
    broken, function, inputs, message = BROKEN[name]
    graph = capture(function, inputs, frontend="make_fx").graphs[0]

    with config.patch(post_grad_custom_post_pass=broken), pytest.raises(MismatchError, match=message):
        check_transform(post_grad.post_grad_passes, graph, inputs)


def test_a_right_custom_pass_passes():
    def widened(x):
        return prims.convert_element_type(prims.convert_element_type(x * 1.1, torch.float64), torch.float32) + 1

    result = check_transform(CastRemoval(only_up=True), capture(widened, (X,), frontend="make_fx"), (X,))

    assert result.passes == ("CastRemoval",)
    result.assert_ops(removed={"prims.convert_element_type": 2})


class AddMultiplied:
    """Inductor's patterns as users register them: a product of a value with itself becomes its square."""

    def __init__(self):
        self.patterns = PatternMatcherPass(pass_name="squares")
        self.modes = []
        register_graph_pattern(
            CallFunction(aten.mul.Tensor, KeywordArg("x"), KeywordArg("x")), pass_dict=self.patterns
        )(self.square)

    def square(self, match, x):
        self.modes.append(V.fake_mode)
        node = match.output_node()
        with match.graph.inserting_before(node):
            made = match.graph.call_function(aten.pow.Tensor_Scalar, (x, 2))
        made.meta.update(node.meta)
        node.replace_all_uses_with(made)
        match.graph.erase_node(node)


def test_a_users_pass_applies_patterns_in_the_fake_mode_of_the_graph():
    squares = AddMultiplied()
    graph = make_fx(lambda x: x * x, tracing_mode="fake")(X)

    def squared(graph_module):
        squares.patterns.apply(graph_module.graph)
        graph_module.recompile()

    result = check_transform(squared, graph, (X,))

    result.assert_ops(added={"aten.pow": 1}, removed={"aten.mul": 1})
    assert squares.modes == [next(iter(graph.graph.nodes)).meta["val"].fake_mode]
    assert not is_fake_mode_set()


@pytest.mark.parametrize("form", ["object", "method"])
def test_patterns_are_a_pass_with_their_name(form):
    patterns = AddMultiplied().patterns

    result = check_transform(
        patterns if form == "object" else patterns.apply, torch.export.export(Square(), (X,)), (X,)
    )

    assert result.passes == ("squares",)
    result.assert_ops(added={"aten.pow": 1}, removed={"aten.mul": 1})


class Square(nn.Module):
    def forward(self, x):
        return x * x


def test_patterns_without_a_match_are_an_error():
    graph = make_fx(lambda x: x + 1, tracing_mode="fake")(X)

    with pytest.raises(VacuousCheckError, match="checking squares says nothing: the graph is as it was"):
        check_transform(AddMultiplied().patterns, graph, (X,))


def test_the_fake_mode_does_not_stay_set_after_an_error():
    modes = []

    def failing(graph_module):
        modes.append(V.fake_mode)
        raise KeyError("of the pass")

    with pytest.raises(KeyError, match="of the pass"):
        check_transform(failing, make_fx(torch.sin, tracing_mode="fake")(X), (X,))

    assert isinstance(modes[0], FakeTensorMode)
    assert not is_fake_mode_set()


NO_VALUES = {
    "post_grad_passes": (
        post_grad.post_grad_passes,
        "the pass reads it. Hand over a graph that has `val`: fx_capture(",
    ),
    "redundant_views": (
        joint_graph.remove_redundant_views,
        "the pass failed with KeyError: 'val'. Hand over a graph that has `val`: fx_capture(",
    ),
    "linear_permute": (
        pre_grad.linear_permute_fusion,
        "the pass failed with KeyError: 'tensor_meta'. Record meta['tensor_meta'] first: torch.fx.passes.shape_prop.",
    ),
}


@pytest.mark.parametrize("name", NO_VALUES)
def test_a_graph_without_values_is_refused_where_a_pass_needs_them(name):
    transform, message = NO_VALUES[name]
    graph = torch.fx.symbolic_trace(lambda x: nn.functional.linear(aten.view.dtype(x, torch.float32), x).permute(1, 0))

    with pytest.raises(SubjectError) as caught:
        check_transform(transform, graph, (X,))

    assert f"a pass of Inductor: no node of the graph has a fake tensor in meta['val'], and {message}" in str(
        caught.value
    )


def test_an_argument_that_no_graph_tells_is_named():
    with pytest.raises(SubjectError, match=r"cannot call fuse_fx, .* it asks for 'example_inputs', .* bind the argument"
                       r": functools.partial\(fuse_fx, example_inputs=\.\.\.\)"):  # fmt: skip
        check_transform(pre_grad.fuse_fx, ConvNet().eval(), IMAGE)


@needs_2_13
def test_a_step_whose_graph_has_no_python_form_is_refused():
    graph = capture(lambda x, v: aten.slice_scatter(x * 2, v.expand(2, 4), 0, 0, 2), (X, V4), frontend="make_fx")

    with pytest.raises(SubjectError, match="the graph that canonicalize_view_scatter_ops, a pass of Inductor, left"):
        check_transform(reinplace.canonicalize_view_scatter_ops, graph, (X, V4))


def test_a_capture_of_several_graphs_is_refused():
    def broken(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    with pytest.raises(SubjectError, match=r"a capture with 2 graphs is no subject for a transform; hand over one"):
        check_transform(post_grad.remove_noop_ops, capture(broken, (X,)), (X,))


def test_a_pass_gets_the_arguments_that_its_parameters_name():
    found = []
    with FakeTensorMode():
        x = torch.ones(2)

    def step(gm, graph, inner: torch.fx.Graph, is_inference, example_inputs, more=3):
        found.extend([gm, graph, inner, is_inference, example_inputs, more])

    given = torch.fx.symbolic_trace(torch.nn.ReLU())
    next(iter(given.graph.nodes)).meta["val"] = x

    assert run_inductor_pass(step, given, "step") is given
    assert found == [given, given.graph, given.graph, True, [x], 3]

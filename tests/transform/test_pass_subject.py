"""A graph is given to passes as it is, as a copy; a module is traced in the way that was chosen."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx.passes.infra.pass_base import PassBase, PassResult

import fxcore
from fixtures.lowered import EdgeProgramManager
from fixtures.shown_frames import raises_here
from fixtures.torch_versions import TORCH
from fixtures.transform_models import ConvBnRelu, image
from pytest_fxgraph import functions
from pytest_fxgraph.equivalence.inputs import arguments_of
from pytest_fxgraph.errors import CaptureError, ChoiceError, SubjectError
from pytest_fxgraph.transform.fixture import FxTransform
from pytest_fxgraph.transform.pass_subject import PassSubject

GIVEN: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_given():
    GIVEN.clear()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def noting(subject: Any) -> None:
    GIVEN.append(subject)


def model() -> nn.Module:
    return ConvBnRelu().eval()


def exported() -> torch.export.ExportedProgram:
    return torch.export.export(model(), (image(),), strict=False)


def squashed(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x)


GRAPHS = {
    "fxcore": lambda: fxcore.symbolic_trace(model()),
    "torch.fx": lambda: torch.fx.symbolic_trace(model()),
    "ExportedProgram": exported,
    "exported module": lambda: exported().module(),
}


@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS)
def test_a_graph_is_given_as_a_copy_of_its_own_kind_with_its_metadata(make):
    subject = make()
    next(iter(subject.graph.nodes)).meta["note"] = "mine"

    result = FxTransform()(noting, subject, image(), allow_vacuous=True)

    (given,) = GIVEN
    assert type(given).__mro__[1:] == type(subject).__mro__[1:]
    assert [(node.name, node.target) for node in given.graph.nodes] == [
        (node.name, node.target) for node in subject.graph.nodes
    ]
    assert all(
        node.meta.get("val") is subject_node.meta.get("val")
        for node, subject_node in zip(given.graph.nodes, subject.graph.nodes, strict=True)
    )
    assert next(iter(given.graph.nodes)).meta["note"] == "mine"
    assert given is not subject
    assert result.before is subject
    assert result.after is given
    assert result.difference.is_empty


@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS)
def test_in_place_the_graph_itself_is_given(make):
    subject = make()

    result = FxTransform()(noting, subject, image(), inplace=True, allow_vacuous=True)

    assert GIVEN[0] is subject
    assert result.after is subject
    assert result.before is not subject


@pytest.mark.parametrize("package", [fxcore, torch.fx])
def test_a_graph_without_its_module_is_given_as_a_graph(package):
    subject = package.symbolic_trace(model()).graph

    FxTransform()(noting, subject, image(), allow_vacuous=True)

    assert isinstance(GIVEN[0], package.Graph)
    assert GIVEN[0] is not subject


@pytest.mark.parametrize(
    ("trace", "kind"),
    [
        (None, fxcore.GraphModule),
        ("fxcore", fxcore.GraphModule),
        ("torch", torch.fx.GraphModule),
        ("export", torch.export.ExportedProgram),
    ],
)
@pytest.mark.parametrize("subject", [model, lambda: squashed], ids=["module", "function"])
def test_a_model_is_traced_as_chosen(subject, trace, kind):
    def on_parts(subject: Any) -> Any:
        assert isinstance(subject, kind)
        return subject

    options = {"modes": ("eval", "train"), "idempotent": True, "allow_vacuous": True}
    # torch 2.6 exports keyword arguments of a function as parts of one argument.
    by_keyword = subject is not model and (trace != "export" or TORCH > (2, 6))
    inputs, kwargs = ((), {"x": image()}) if by_keyword else (image(), None)
    result = FxTransform()(on_parts, subject(), inputs, kwargs=kwargs, trace=trace, **options)

    assert isinstance(result.before, kind)
    assert isinstance(result.after, kind)


def test_a_graph_module_is_traced_anew_only_where_that_is_asked_for():
    FxTransform()(noting, torch.fx.symbolic_trace(model()), image(), trace="fxcore", allow_vacuous=True)

    assert isinstance(GIVEN[0], fxcore.GraphModule)


@pytest.mark.parametrize(
    ("options", "subject", "words"),
    [
        ({"trace": "dynamo"}, model, "trace must be one of 'fxcore', 'torch', 'export', got 'dynamo'"),
        (
            {"trace": "torch"},
            exported,
            "trace is for modules that are traced, and a ExportedProgram is a graph alr",
        ),
        ({"concrete_args": {"x": 1}}, exported, "concrete_args is for modules that are traced, and a ExportedProgram"),
        ({"trace": "export", "concrete_args": {"x": 1}}, model, "concrete_args are for symbolic tracing"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, subject, words):
    with pytest.raises(ChoiceError, match=words):
        FxTransform()(noting, subject(), image(), **options)


@pytest.mark.parametrize("trace", ["torch", "export"])
def test_a_model_that_cannot_be_traced_is_named_with_its_line(trace):
    class Deciding(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(
        CaptureError, match=r"(?s)cannot trace Deciding: .*test_pass_subject.py:\d+, in forward: return x"
    ):
        FxTransform()(noting, Deciding(), image(), trace=trace)


def test_the_graph_module_of_a_program_needs_its_program():
    with pytest.raises(SubjectError, match=r"with 1 input: .*Hand over the program itself"):
        FxTransform()(noting, exported().graph_module, image())


class ReluToSilu(PassBase):
    """Computes something else, and says what it is told to."""

    def __init__(self, claim: bool) -> None:
        super().__init__()
        self.claim = claim

    def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
        for node in graph_module.graph.nodes:
            if node.target in (torch.relu, torch.ops.aten.relu.default):
                node.target = torch.nn.functional.silu if node.target is torch.relu else torch.ops.aten.silu.default
        graph_module.recompile()
        return PassResult(graph_module, self.claim)


@pytest.mark.parametrize("make", [GRAPHS["torch.fx"], GRAPHS["ExportedProgram"]], ids=["torch.fx", "ExportedProgram"])
def test_a_wrong_pass_is_found_with_the_node_and_leaves_the_graph_alone(make):
    subject = make()
    text = str(subject.graph)

    with raises_here(AssertionError, match=r"eager and graph after ReluToSilu differ(?s:.*)eager ran relu"):
        FxTransform()(ReluToSilu(True), subject, image())
    with raises_here(AssertionError, match="ReluToSilu returned modified=False, and yet it changed the graph"):
        FxTransform()(ReluToSilu(False), subject, image())

    assert str(subject.graph) == text


def test_a_claim_of_a_change_is_not_held_against_a_pass():
    """torch's own passes claim one wherever they might have made one."""
    FxTransform()(lambda gm: PassResult(gm, True), GRAPHS["torch.fx"](), image(), allow_vacuous=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda gm: gm.get_submodule("conv").bias.add_(1e-7),
        lambda gm: gm.get_submodule("conv").bias.data.add_(1e-7),
        lambda gm: gm.get_submodule("conv").requires_grad_(False),
        lambda gm: gm.get_submodule("conv").register_forward_hook(lambda *_: None),
        lambda gm: setattr(gm.get_submodule("conv"), "notes", [1]),
        lambda gm: setattr(gm.get_submodule("bn"), "eps", 1.1e-5),
        lambda gm: gm.add_module("more", nn.ReLU()),
        lambda gm: setattr(gm.get_submodule("bn"), "weight", nn.Parameter(gm.get_submodule("bn").weight * 2)),
    ],
)
def test_a_change_of_modules_or_state_is_a_change_too(change):
    def silent(gm: torch.fx.GraphModule) -> PassResult:
        with torch.no_grad():
            change(gm)
        return PassResult(gm, False)

    with raises_here(AssertionError, match="silent returned modified=False, and yet it changed the graph"):
        FxTransform()(silent, GRAPHS["torch.fx"](), image())


def test_the_changes_of_a_pass_that_claims_none_are_named():
    def silent(gm: torch.fx.GraphModule) -> PassResult:
        gm.get_submodule("conv").bias.data.add_(1e-7)
        return PassResult(gm, False)

    with raises_here(AssertionError, match=r"changed the graph: parameter conv\.bias has other values; return"):
        FxTransform()(silent, GRAPHS["torch.fx"](), image())


def test_a_pass_of_others_may_be_let_off_its_claim():
    def always_false(gm: torch.fx.GraphModule) -> PassResult:
        next(node for node in gm.graph.nodes if node.target is torch.relu).target = torch.nn.functional.relu
        gm.recompile()
        return PassResult(gm, False)

    with raises_here(AssertionError, match=r"returned modified=False, .*a pass of others with check_modified=False"):
        FxTransform()(always_false, GRAPHS["torch.fx"](), image())
    FxTransform()(always_false, GRAPHS["torch.fx"](), image(), check_modified=False)


def test_other_names_alone_are_no_change():
    def renaming(gm: torch.fx.GraphModule) -> PassResult:
        for node in gm.graph.nodes:
            if node.op == "call_module":
                node._rename(f"{node.name}_again")
        gm.recompile()
        return PassResult(gm, False)

    FxTransform()(renaming, GRAPHS["torch.fx"](), image())


def test_weights_of_the_copy_may_be_folded_in_place():
    def folded(gm: torch.fx.GraphModule) -> None:
        conv, bn = gm.get_submodule("conv"), gm.get_submodule("bn")
        scale = bn.weight / (bn.running_var + bn.eps).sqrt()
        with torch.no_grad():
            conv.weight.mul_(scale.view(-1, 1, 1, 1))
            conv.bias.copy_((conv.bias - bn.running_mean) * scale + bn.bias)
        node = next(node for node in gm.graph.nodes if node.target == "bn")
        node.replace_all_uses_with(node.args[0])
        gm.graph.erase_node(node)
        gm.delete_all_unused_submodules()
        gm.recompile()

    subject = GRAPHS["torch.fx"]()
    state = copy.deepcopy(subject.state_dict())

    result = FxTransform()(folded, subject, image())

    result.assert_ops(removed=nn.BatchNorm2d, unchanged=True)
    result.assert_state_dict(dropped="bn.*", kept="conv.*")
    assert all(torch.equal(subject.state_dict()[name], value) for name, value in state.items())


@pytest.mark.parametrize("make", [GRAPHS["torch.fx"], GRAPHS["ExportedProgram"]], ids=["torch.fx", "ExportedProgram"])
def test_a_pass_that_changes_the_graph_it_was_not_given_is_told(make):
    subject = make()

    def around(_: Any) -> None:
        node = next(node for node in subject.graph.nodes if "relu" in node.name)
        node.target = torch.sigmoid

    with raises_here(AssertionError, match="around was given a copy and changed the graph that the test handed over"):
        FxTransform()(around, subject, image())


def test_a_pass_that_changes_tensors_it_was_not_given_is_told_and_they_are_put_back():
    subject = exported()
    weight = subject.state_dict["conv.weight"]
    before = weight.detach().clone()

    def zeroing(_: Any) -> None:
        with torch.no_grad():
            weight.zero_()

    with raises_here(AssertionError, match=r"zeroing changed the model that it was given: parameter conv\.weight h"):
        FxTransform()(zeroing, subject, image())
    assert torch.equal(weight, before)


def test_a_program_whose_signature_no_longer_fits_is_malformed():
    def renaming(program: torch.export.ExportedProgram) -> None:
        next(node for node in program.graph.nodes if node.name == "p_conv_weight").name = "weight"

    with raises_here(AssertionError, match=r"renaming left a malformed program: .* keep graph_signature in step"):
        FxTransform()(renaming, exported(), image())


def test_leftovers_lost_inputs_and_lost_meta_are_told_of_graphs_of_torch():
    def forgetting(gm: torch.fx.GraphModule) -> None:
        for node in gm.graph.nodes:
            if node.op == "call_function":
                node.meta.pop("val", None)

    def leaving(gm: torch.fx.GraphModule) -> None:
        relu = next(node for node in gm.graph.nodes if "relu" in node.name)
        with gm.graph.inserting_after(relu):
            gm.graph.call_function(torch.ops.aten.sigmoid.default, (relu,)).meta.update(relu.meta)
        gm.recompile()

    def stale(gm: torch.fx.GraphModule) -> None:
        relu = next(node for node in gm.graph.nodes if "relu" in node.name)
        relu.target = torch.ops.aten.relu_.default

    def renamed(gm: torch.fx.GraphModule) -> None:
        x = gm.graph.find_nodes(op="placeholder")[-1]
        x.target = "image"
        x._rename("image")
        gm.recompile()

    check = FxTransform()
    with raises_here(AssertionError, match=r"forgetting lost the meta of .*\(val\)"):
        check(forgetting, exported().module(), image(), keeps_meta=("val",))
    with raises_here(AssertionError, match="leaving left nodes without users: sigmoid"):
        check(leaving, exported(), image())
    with raises_here(AssertionError, match=r"stale changed the graph and forgot recompile\(\)"):
        check(stale, exported().module(), image())
    with raises_here(AssertionError, match="renamed changed the inputs: input 0 was 'x' and is 'image'"):
        check(renamed, exported(), image())


def test_the_function_takes_graphs_as_the_fixture_does():
    result = functions.check_transform(noting, exported(), image(), idempotent=True, allow_vacuous=True)

    assert isinstance(result.after, torch.export.ExportedProgram)


def test_concrete_arguments_are_fixed_in_the_trace_that_a_pass_gets():
    class Flagged(nn.Module):
        def forward(self, x: torch.Tensor, flag: bool) -> torch.Tensor:
            return torch.relu(x) if flag else torch.neg(x)

    result = FxTransform()(
        lambda gm: gm, Flagged(), (torch.ones(2), True), concrete_args={"flag": True}, allow_vacuous=True
    )

    called = {node.target for node in result.after.graph.nodes}
    assert torch.relu in called
    assert torch.neg not in called


@pytest.mark.parametrize(
    ("make", "options", "name"),
    [
        (lambda: fxcore.symbolic_trace(model()).graph, ("torch", None), "trace"),
        (lambda: fxcore.symbolic_trace(model()).graph, (None, {"x": 1}), "concrete_args"),
        (lambda: fxcore.symbolic_trace(model()), (None, {"x": 1}), "concrete_args"),
        (exported, ("torch", None), "trace"),
        (exported, (None, {"x": 1}), "concrete_args"),
    ],
)
def test_options_of_a_trace_are_refused_for_graphs(make, options, name):
    with pytest.raises(ChoiceError, match=f"{name} is for modules that are traced, and a .* is a graph already"):
        PassSubject.of(make(), *options, False)


@pytest.mark.parametrize(
    ("make", "trace", "is_graph"),
    [
        (model, None, False),
        (lambda: fxcore.symbolic_trace(model()), None, True),
        (lambda: fxcore.symbolic_trace(model()), "torch", False),
        (exported, None, True),
        (lambda: EdgeProgramManager({"forward": exported()}), None, True),
    ],
)
def test_a_subject_is_a_graph_unless_it_is_traced(make, trace, is_graph):
    subject = PassSubject.of(make(), trace, None, False)

    assert subject.is_graph is is_graph
    name = "forward" if isinstance(subject.model, EdgeProgramManager) else ""
    assert [*subject.arguments_by_program(image(), None)] == [name]


def test_values_for_arguments_are_traced_in():
    def scaled(x: torch.Tensor, twice: bool = False) -> torch.Tensor:
        return torch.relu(x) * 2 if twice else torch.tanh(x)

    targets = []
    for values in ({"twice": True}, None):
        subject = PassSubject.of(scaled, None, values, False)
        _, given = subject.graphs(scaled, arguments_of(torch.ones(2)))
        targets.append({node.target for node in given.graph.nodes} & {torch.relu, torch.tanh})

    assert targets == [{torch.relu}, {torch.tanh}]


def test_the_reference_is_a_copy_with_all_attributes_where_passes_may_change_the_subject():
    for make in (model, lambda: torch.fx.symbolic_trace(model())):
        subject = make()
        subject.tags = ["mine"]

        assert PassSubject.of(subject, None, None, False).reference() is subject
        reference = PassSubject.of(subject, None, None, True).reference()
        assert reference is not subject
        assert reference.tags == ["mine"]

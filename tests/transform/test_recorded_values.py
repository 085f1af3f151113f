"""meta["val"] is true of a run, or the pass and the node are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim, ExportedProgram, export
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import fxcore
from fixtures.shown_frames import raises_here
from fxcore import interop
from fxcore.state.snapshot import Snapshot
from pytest_fxgraph.equivalence.inputs import arguments_of
from pytest_fxgraph.transform.fixture import FxTransform
from pytest_fxgraph.transform.run_promises import unlike_a_run


class Net(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        padded = nn.functional.pad(x, (0, 4))
        return torch.relu(padded)[:, :4] + 1


def values() -> torch.Tensor:
    return torch.linspace(-1, 1, 20).reshape(5, 4)


def program() -> ExportedProgram:
    return export(Net(), (values(),), dynamic_shapes=({0: Dim("batch", min=3, max=64)},), strict=False)


def traced() -> torch.fx.GraphModule:
    return make_fx(Net(), tracing_mode="fake")(values())


def node_of(graph: Any, name: str) -> Any:
    return next(node for node in graph.nodes if node.name.startswith(name))


def with_val(change: Callable[[torch.Tensor], Any]) -> Callable[[Any], None]:
    def recorded(given: Any) -> None:
        node = node_of(given.graph, "relu")
        node.meta["val"] = change(node.meta["val"])

    return recorded


@pytest.mark.parametrize("make", [program, traced])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda val: val.new_empty(3, 8), r"relu says shape \[3, 8\], and the value has shape \[5, 8\]"),
        (lambda val: val.new_empty(val.shape[0]), r"relu says shape \[.*\], and the value has shape \[5, 8\]"),
        (
            lambda val: val.new_empty(val.shape[0] * 2, 8),
            r"relu says shape \[.*, 8\], and the value has shape \[5, 8\]",
        ),
        (lambda val: val.half(), r"relu says torch.float16, and the value is of torch.float32"),
        (lambda val: val.t().contiguous().t(), r"relu says strides \[1, .*\], and the value has strides \[8, 1\]"),
    ],
)
def test_metadata_that_a_run_contradicts_is_told(make, change, words):
    with raises_here(AssertionError, match=rf"recorded left metadata .*: meta\['val'\] of {words}"):
        FxTransform()(with_val(change), make(), values())
    FxTransform()(with_val(change), make(), values(), may_change="val", allow_vacuous=True)


def without_padding(given: Any) -> None:
    """Compute on the values alone; metadata follows."""
    source, padded, relu, *cuts = given.graph.nodes
    relu.args = (source,)
    given.graph.erase_node(padded)
    for node in (relu, *cuts):
        node.meta.update(val=source.meta["val"] if node.op == "call_function" else node.meta.get("val"))
    given.recompile()


@pytest.mark.parametrize("make", [program, traced])
def test_other_shapes_inside_with_true_metadata_are_no_fault(make):
    FxTransform()(lambda gm: without_padding(getattr(gm, "graph_module", gm)), make(), values())


def test_metadata_that_was_wrong_before_is_not_held_against_a_pass():
    subject = traced()
    with_val(torch.Tensor.half)(subject)

    FxTransform()(torch.fx.Transformer, subject, values())
    FxTransform()(lambda gm: gm, subject, values(), allow_vacuous=True)


def test_metadata_that_is_gone_is_no_fault():
    def forgotten(gm: torch.fx.GraphModule) -> None:
        for node in gm.graph.nodes:
            node.meta.clear()

    FxTransform()(forgotten, traced(), values())


def test_a_kernel_without_data_that_errs_is_not_held_against_a_pass():
    with torch.library._scoped_library("promises", "FRAGMENT") as library:
        library.define("turned(Tensor x) -> Tensor")
        library.impl("turned", lambda x: x.t().contiguous().t(), "CPU")
        library.impl("turned", torch.empty_like, "Meta")

        def turned(gm: torch.fx.GraphModule) -> None:
            relu = node_of(gm.graph, "relu")
            with gm.graph.inserting_after(relu):
                made = gm.graph.call_function(torch.ops.promises.turned.default, (relu,))
            with gm.graph.inserting_after(made):
                straight = gm.graph.call_function(torch.ops.aten.contiguous.default, (made,))
            made.meta["val"] = straight.meta["val"] = relu.meta["val"]
            relu.replace_all_uses_with(straight, delete_user_cb=lambda user: user is not made)
            gm.recompile()

        subject = traced()
        FxTransform()(turned, subject, values())
        turned(subject)
        node_of(subject.graph, "turned").meta["val"] = subject.graph._root.next.meta["val"]
        found = unlike_a_run(interop.from_torch(subject), arguments_of(values()), Snapshot())
        assert found == {"turned_default": "says shape [5, 4], and the value has shape [5, 8]"}


def unlike(target: Any, recorded: Any, *operands: Any, of_operands: Any = None) -> str:
    """Return what a run says against a value recorded for one call of `target`; operands are inputs of the graph."""
    graph = fxcore.Graph()
    inputs = [graph.placeholder(f"x{number}") for number in range(len(operands))]
    for node, value in zip(inputs, of_operands or (), strict=False):
        node.meta["val"] = value
    call = graph.call_function(target, tuple(inputs), name="call")
    call.meta["val"] = recorded
    graph.output(call)
    return unlike_a_run(fxcore.GraphModule({}, graph), arguments_of(operands), Snapshot()).get("call", "")


def nested(*sizes: int, **options: Any) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(size) for size in sizes], **options)


def test_a_recorded_size_is_one_number_in_a_run():
    size = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(torch.ones(5, 7)).shape[0]

    assert unlike(divmod, (size, size), 12, 5) == ""
    assert unlike(divmod, (size, size * 2), 9, 5) == "says 2*s26, and the value is 4".replace("s26", str(size))
    assert unlike(divmod, (size * 2, size), 12, 5) == ""


def test_the_parts_of_a_result_are_compared_one_by_one():
    right, wrong = torch.ones(2, 3), torch.ones(3, 2)
    halves = [torch.ones(1, 3, device="meta")] * 2

    assert unlike(torch.chunk, (halves[0], halves[0]), right, 2) == ""
    assert unlike(torch.chunk, (halves[0], wrong), right, 2) == "says shape [3, 2], and the value has shape [1, 3]"


@pytest.mark.parametrize("options", [{}, {"layout": torch.jagged}])
def test_nested_tensors_are_compared_by_their_type_alone(options):
    value = nested(2, 3, **options)

    assert unlike(torch.neg, nested(4, 5, **options), value) == ""
    assert unlike(torch.neg, torch.ones(2), value) == ""
    assert unlike(torch.neg, nested(2, 3, **options).half(), value) != ""


def test_tensors_without_strides_or_elements_are_compared_by_their_shape():
    assert unlike(torch.neg, torch.ones(2, 3).t().contiguous().t(), torch.ones(2, 3).to_sparse()) == ""
    assert unlike(torch.neg, torch.ones(0, 3).t(), torch.ones(3, 0)) == ""
    assert unlike(torch.neg, torch.ones(3, 2).t().to_sparse(), torch.ones(3, 2)) != ""


def turned() -> torch.Tensor:
    """Return a fake tensor of shape [2, 3] and strides [1, 2]."""
    return FakeTensorMode().from_tensor(torch.ones(3, 2).t())


def test_a_value_that_follows_from_the_recorded_operands_is_no_fault_of_the_pass():
    relu, x, fake = torch.ops.aten.relu.default, torch.ones(2, 3), turned()
    words = "says strides [1, 2], and the value has strides [3, 1]"

    assert unlike(relu, fake, x, of_operands=[fake]) == ""
    assert unlike(torch.ops.aten.split.Tensor, [*fake.split(1)], x, 1, of_operands=[fake, 1]) == ""
    assert unlike(relu, fake, x, of_operands=[fake.contiguous()]) == words
    assert unlike(relu, fake, x) == words
    assert unlike(torch.relu, fake, x, of_operands=[fake]) == words


def test_an_operator_that_needs_data_cannot_explain_its_recorded_value():
    fake = turned()
    index = torch.ops.aten.nonzero.default

    words = unlike(index, fake.new_empty(3, 1, dtype=torch.int64), torch.eye(2), of_operands=[fake])

    assert words == "says shape [3, 1], and the value has shape [2, 2]"


@pytest.mark.parametrize("make", [lambda: torch.ones(3, 2).t(), turned])
def test_an_operator_that_writes_is_never_run_on_recorded_values(make):
    add, transpose, recorded = torch.ops.aten.add_.Tensor, torch.ops.aten.t_.default, make()

    assert unlike(add, recorded, torch.ones(2, 3), torch.ones(2, 3), of_operands=[recorded, recorded]) != ""
    assert unlike(transpose, recorded, torch.ones(4, 2), of_operands=[recorded]) != ""

    assert (recorded.shape, recorded.stride()) == ((2, 3), (1, 2))
    assert type(recorded) is not torch.Tensor or recorded.eq(1).all()


def test_nothing_is_computed_on_recorded_values_with_data():
    recorded = torch.ones(3, 2).t()

    assert unlike(torch.ops.aten.relu.default, recorded, torch.ones(2, 3), of_operands=[recorded]) != ""

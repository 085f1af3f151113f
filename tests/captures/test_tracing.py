from __future__ import annotations

import copy
import linecache
import math
import random

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import VerificationError
from pytest_fxgraph.captures.tracing import trace, trace_for_inputs, trace_to_read, traced_again_with_sources
from pytest_fxgraph.errors import CaptureError, InputsError


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block()
        self.second = Block()
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout()

    def forward(self, x, scale: float = 1.0):
        return self.drop(self.norm(self.second(self.first(x)))) * scale


def double(x):
    return twice_of(x) + abs(x)


def twice_of(x):
    return x * 2


def _private(x):
    return x


def targets(graph_module):
    return [node.target for node in graph_module.graph.nodes if node.op.startswith("call")]


def test_a_module_is_traced_and_shares_its_parameters():
    model = Net()

    traced = trace(model)

    assert traced.first.linear.weight is model.first.linear.weight
    assert type(traced).__name__ == "Net"


def test_leaf_modules_are_named_by_class():
    assert targets(trace(Net(), leaf_modules=Block))[:2] == ["first", "second"]


def test_leaf_modules_are_named_by_path():
    assert targets(trace(Net(), leaf_modules=["second"]))[:3] == ["first.linear", torch.relu, "second"]


def test_a_leaf_module_that_is_neither_is_refused():
    with pytest.raises(CaptureError, match="leaf_modules: expected classes and paths of modules, or 'auto', got Block"):
        trace(Net(), leaf_modules=[Block()])


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("layers.3", r"has no module at 'layers.3'; it has 'layers.2'"),
        ("encoder", r"has no module at 'encoder'; it has 'layers', 'layers.0', 'layers.1', 'layers.2'"),
    ],
)
def test_a_leaf_path_that_is_misspelt_is_refused_with_the_nearest(path, words):
    model = nn.Module()
    model.layers = nn.Sequential(nn.ReLU(), nn.ReLU(), nn.ReLU())

    with pytest.raises(CaptureError, match=words):
        trace(model, leaf_modules=(path,))


def test_a_leaf_path_of_a_function_is_refused():
    with pytest.raises(CaptureError, match="twice_of has no module at 'layer'; it has no modules inside it"):
        trace(twice_of, leaf_modules="layer")


@pytest.mark.parametrize("wrap", [twice_of, [twice_of], "twice_of", (f"{__name__}.twice_of",)])
def test_wrapped_functions_stay_one_node(wrap, monkeypatch):
    if wrap == (f"{__name__}.twice_of",):
        monkeypatch.setitem(__import__("sys").modules, __name__, __import__("types").SimpleNamespace(twice_of=twice_of))

    assert targets(trace(double, wrap=wrap))[0] is twice_of


def test_wrapped_builtins_stay_one_node_and_leave_the_file_as_it_was():
    before = dict(globals())

    traced = trace(double, wrap="abs")

    assert abs in targets(traced)
    assert globals().keys() == before.keys()


def test_a_function_that_is_not_there_is_refused():
    with pytest.raises(CaptureError, match="wrap: there is no function 'thrice_of' in the model's file"):
        trace(double, wrap="thrice_of")


def test_a_private_function_is_refused_with_what_to_do():
    with pytest.raises(CaptureError, match=r"write fxcore.wrap\('_private'\) at the top level"):
        trace(double, wrap=_private)


def test_concrete_arguments_are_fixed():
    def choose(x, flag):
        return torch.neg(x) if flag else torch.abs(x)

    assert torch.neg in targets(trace(choose, concrete_args={"flag": True}))
    assert torch.abs in targets(trace(choose, concrete_args={"flag": False}))


def test_example_inputs_add_shapes_and_dtypes():
    traced = trace(Net().eval(), example_inputs=torch.zeros(2, 4))

    assert all(node.meta["tensor_meta"].shape == (2, 4) for node in traced.graph.nodes if node.op != "placeholder")
    assert traced.graph.output_node().meta["tensor_meta"].dtype is torch.float32


def test_example_keyword_inputs_find_their_placeholders():
    def add(x, y=1, *, z):
        return x + y + z

    traced = trace(add, example_inputs=(torch.zeros(3),), example_kwargs={"z": torch.zeros(2, 1)})

    assert traced.graph.output_node().meta["tensor_meta"].shape == (2, 3)


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"other": 1}, "got an unexpected keyword argument 'other'; give a tuple of its positional arguments"),
        ({"y": torch.zeros(1), "q": 1}, "got an unexpected keyword argument 'q'"),
    ],
)
def test_example_keyword_inputs_without_a_placeholder_are_refused(kwargs, words):
    def add(x, y=1):
        return x + y

    with pytest.raises(CaptureError, match=words):
        trace(add, example_inputs=torch.zeros(3), example_kwargs=kwargs)


def test_running_on_example_inputs_changes_neither_model_nor_inputs_nor_random_state():
    model = Net().train()
    before = copy.deepcopy(model.state_dict())
    inputs = torch.randn(8, 4)
    inputs_before = inputs.clone()
    random_state = torch.get_rng_state()

    trace(model, example_inputs=inputs)

    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random_state)
    assert torch.equal(inputs, inputs_before)


def test_an_input_that_the_graph_writes_to_is_left_alone():
    def add_in_place(x):
        return x.add_(1)

    inputs = torch.zeros(3)
    trace(add_in_place, example_inputs=inputs)

    assert torch.equal(inputs, torch.zeros(3))


def test_a_weight_with_a_gradient_history_is_copied():
    layer = nn.Linear(4, 4)
    weight = layer.weight
    del layer.weight
    layer.weight = weight * 2  # as torch's old weight_norm does: deepcopy refuses it

    traced = trace(layer, example_inputs=torch.zeros(1, 4), leaf_modules=())

    assert traced.graph.output_node().meta["tensor_meta"].shape == (1, 4)


def test_example_inputs_that_do_not_run_are_refused_with_the_reason():
    with pytest.raises(CaptureError) as caught:
        trace(Net(), example_inputs=torch.zeros(2, 5))

    assert str(caught.value).startswith(
        "cannot trace Net: the model itself does not run on the example inputs: "
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied"
    )


def test_example_inputs_in_another_form_are_refused():
    with pytest.raises(InputsError, match="example_inputs: expected a tuple of positional arguments or a lone tensor"):
        trace(Net(), example_inputs=[torch.zeros(2, 4)])


def branch(x):
    if math.pi > x.sum():
        return x
    return -x


class Branching(nn.Module):
    def forward(self, x):
        return branch(x)


def test_a_failure_names_the_model_the_users_line_and_the_reason():
    with pytest.raises(CaptureError) as caught:
        trace(Branching())

    lines = str(caught.value).splitlines()
    assert lines[0].startswith(
        "cannot trace Branching: symbolically traced variables cannot be used as inputs to control"
    )
    assert any("test_tracing.py" in line and "in branch: if math.pi > x.sum():" in line for line in lines)


def test_a_failure_in_a_library_names_the_models_line_not_the_librarys():
    import collections

    def through_a_library(x):
        return collections.Counter(x)

    with pytest.raises(CaptureError, match=r"test_tracing\.py:\d+, in through_a_library: return collections\.Counter"):
        trace(through_a_library)


def test_a_value_that_cannot_be_returned_names_the_function_that_does():
    def returns_an_object(x):
        return x, object()

    with pytest.raises(
        CaptureError, match=r"<class 'object'> at .*test_tracing\.py:\d+: return x, object\(\), in what"
    ):
        trace(returns_an_object)


class CountsTraces(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.traces = 0

    def forward(self, x):
        self.traces += 1
        return self.linear(x).relu()


def test_a_graph_that_is_only_read_is_the_same_without_a_module_and_without_lines():
    model = CountsTraces()

    traced = trace_to_read(model)

    assert str(traced.graph) == str(trace(model).graph)
    assert traced.root is model
    assert all("source" not in node.meta for node in traced.graph.nodes)


def test_the_lines_of_a_graph_that_was_only_read_are_had_by_tracing_again():
    traced = trace_to_read(CountsTraces())

    again = traced_again_with_sources(traced)

    assert traced.model.traces == 2
    assert [node.name for node in again.graph.nodes] == [node.name for node in traced.graph.nodes]
    assert "self.linear(x).relu()" in linecache.getline(*again.graph.find_nodes(op="call_module")[0].meta["source"])
    assert traced_again_with_sources(again) is None


def test_only_a_graph_that_was_traced_to_be_read_is_freed(monkeypatch):
    freed = []
    monkeypatch.setattr("pytest_fxgraph.captures.tracing.break_cycles", freed.append)
    traced = trace_to_read(CountsTraces())
    again = traced_again_with_sources(traced)

    traced.free()
    again.free()

    assert freed == [traced.graph]


def test_tracing_again_leaves_the_random_generators_alone():
    class Draws(nn.Module):
        def forward(self, x):
            torch.randn(3)
            return x + 1

    traced = trace_to_read(Draws())
    before = torch.random.get_rng_state()

    traced_again_with_sources(traced)

    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_model_that_cannot_be_traced_twice_has_no_lines():
    class Once(CountsTraces):
        def forward(self, x):
            if self.traces:
                raise RuntimeError("not again")
            return super().forward(x)

    assert traced_again_with_sources(trace_to_read(Once())) is None


def test_constants_of_a_graph_that_is_only_read_are_kept_apart_from_the_model():
    class MakesConstant(nn.Module):
        def forward(self, x):
            return x + torch.ones(2)

    model = MakesConstant()

    traced = trace_to_read(model)

    path = traced.graph.find_nodes(op="get_attr")[0].target
    assert torch.equal(getattr(traced.root, path), torch.ones(2))
    assert not hasattr(model, path)


class ShapeDependent(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        if x.dim() == 2:
            x = self.linear(x)
        return x * x.shape[0]


def test_an_example_gets_past_a_question_for_the_shape():
    traced = trace(ShapeDependent(), example_inputs=torch.rand(2, 4))

    assert [str(guard) for guard in traced.graph.guards] == ["x.dim() == 2"]
    assert traced.meta["free_sizes"].dimensions == {"0": (0,)}
    assert traced.graph.output_node().meta["tensor_meta"].shape == (2, 4)


def test_a_graph_that_can_be_had_without_an_example_does_not_depend_on_one():
    assert trace_for_inputs(Net(), torch.rand(2, 4), verify=True).graph.guards == ()
    assert len(trace_for_inputs(ShapeDependent(), torch.rand(2, 4), verify=True).graph.guards) == 1


@pytest.mark.parametrize("option", [{"assume": {"a.py:1": "x"}}, {"verify": True}, {"enforce_guards": True}])
def test_options_of_an_example_are_refused_without_one(option):
    with pytest.raises(CaptureError, match="assume, verify and enforce_guards need an example: give example_inputs="):
        trace(double, **option)


def test_all_places_that_stand_in_the_way_are_told():
    class Gates(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Gate(), Mean()

        def forward(self, x):
            return self.second(self.first(x))

    with pytest.raises(CaptureError) as caught:
        trace(Gates(), example_inputs=torch.rand(2, 4))

    assert "all 2 places that stand in the way:" in str(caught.value)
    assert "leaf_modules=('second',)" in str(caught.value)
    assert len(trace(Gates(), example_inputs=torch.rand(2, 4), leaf_modules="auto").graph.nodes) == 4


class Gate(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


class Mean(nn.Module):
    def forward(self, x):
        return x + float(x.mean())


class DrawsConstant(nn.Module):
    def forward(self, x):
        x = x.relu()
        return x + torch.randn(3)


class DrawsNumber(nn.Module):
    def forward(self, x):
        return x * random.random()


class DrawsBranch(nn.Module):
    def forward(self, x):
        if random.random() < 0.5:
            x = x.relu()
        return x.neg()


class DrawsForNothing(nn.Module):
    def forward(self, x):
        torch.randn(3)
        return x + 1


class DrawsInGraph(nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x) + torch.rand(x.shape)


class FillsConstant(nn.Module):
    def forward(self, x):
        return x + torch.empty(2, 3).uniform_()


@pytest.mark.parametrize(
    ("model", "line", "node"),
    [
        (DrawsConstant, "return x + torch.randn(3)", "_tensor_constant0"),
        (FillsConstant, "return x + torch.empty(2, 3).uniform_()", "_tensor_constant0"),
        (DrawsNumber, "return x * random.random()", "mul"),
    ],
)
def test_a_number_drawn_while_tracing_is_refused_with_its_line(model, line, node):
    with pytest.raises(CaptureError) as refused:
        trace(model())

    first, place, last = str(refused.value).split("\n")
    assert first.startswith(f"cannot trace {model.__name__}: it draws random numbers while it is traced")
    assert "test_tracing.py:" in place
    assert place.endswith(f": {line}")
    assert f"Node {node!r} is the first that differs" in last
    assert "torch.rand_like(x)" in last


def test_a_branch_taken_by_chance_is_refused():
    random.seed(3)

    with pytest.raises(CaptureError, match="its graph differs in every run"):
        trace(DrawsBranch())


def test_a_draw_of_numpy_is_refused():
    numpy = pytest.importorskip("numpy")

    def forward(x):
        return x * float(numpy.random.rand())

    with pytest.raises(CaptureError, match=r"return x \* float\(numpy.random.rand\(\)\)"):
        trace(forward)


def test_a_draw_that_leaves_nothing_in_the_graph_is_no_harm_and_moves_the_generator_once():
    torch.manual_seed(0)
    traced = trace(DrawsForNothing())
    after_tracing = torch.random.get_rng_state()
    torch.manual_seed(0)
    torch.randn(3)

    assert [node.op for node in traced.graph.nodes] == ["placeholder", "call_function", "output"]
    assert torch.equal(after_tracing, torch.random.get_rng_state())


OFFSET = torch.ones(3)


class DrawsForNothingBesideConstant(nn.Module):
    def forward(self, x):
        torch.randn(3)
        return x + OFFSET


def test_a_draw_for_nothing_is_no_harm_beside_a_constant_that_stays():
    traced = trace(DrawsForNothingBesideConstant())

    assert [node.op for node in traced.graph.nodes] == ["placeholder", "get_attr", "call_function", "output"]


class DrawsForNothingBesideNewConstant(nn.Module):
    def forward(self, x):
        torch.randn(3)
        return x + torch.tensor([1.0, math.nan])


def test_a_draw_for_nothing_is_no_harm_beside_a_constant_that_is_made_anew():
    traced = trace(DrawsForNothingBesideNewConstant())

    assert [node.op for node in traced.graph.nodes] == ["placeholder", "get_attr", "call_function", "output"]


def test_draws_that_the_graph_makes_are_traced_and_leave_the_generators_as_they_were():
    before = torch.random.get_rng_state(), random.getstate()

    traced = trace(DrawsInGraph())

    assert sum(node.target in (torch.rand_like, torch.rand) for node in traced.graph.nodes) == 2
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert before[1] == random.getstate()


def test_a_refused_model_is_left_without_constants():
    model = DrawsConstant()

    with pytest.raises(CaptureError):
        trace(model)

    assert [name for name in vars(model) if "constant" in name] == []


def test_what_is_no_function_cannot_be_wrapped():
    with pytest.raises(CaptureError, match="wrap: expected functions and names of functions, got 3"):
        trace(double, wrap=(3,))


def test_a_graph_that_computes_other_results_than_the_model_is_refused_where_it_was_to_be_verified(monkeypatch):
    def refuse(*_):
        raise VerificationError("the graph has other results at size 3")

    monkeypatch.setattr("pytest_fxgraph.captures.tracing.verify_trace", refuse)

    with pytest.raises(CaptureError, match="cannot trace Net: the graph has other results at size 3"):
        trace(Net(), example_inputs=torch.rand(2, 4))
    trace(Net(), example_inputs=torch.rand(2, 4), verify=False)


@pytest.mark.parametrize("enforce_guards", [None, True, False])
def test_guards_hold_as_the_caller_wants(enforce_guards):
    traced = trace(ShapeDependent(), example_inputs=torch.rand(2, 4), enforce_guards=enforce_guards)

    if enforce_guards is False:
        traced(torch.rand(5, 4, 4))
    else:
        with pytest.raises(fxcore.errors.GuardError):
            traced(torch.rand(5, 4, 4))

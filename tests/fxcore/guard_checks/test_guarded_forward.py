"""A graph traced with an example checks its guards in each call, and the code that people read does not show it."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import threading

import pytest
import torch
from torch import nn

import fxcore
from fxcore import Interpreter, Transformer, interop
from fxcore.codegen.codegen import BoxedCodeGen
from fxcore.errors import GuardError


class Specialised(nn.Module):
    """Asks about an input, and about the result of a layer."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, mask=None):
        if x.dim() != 2:
            x = x.flatten(1)
        hidden = self.linear(x)
        if hidden.shape[0] % 2 == 0:
            hidden = hidden + 1
        return hidden * hidden.shape[0]


HOLDS, BREAKS_INPUT, BREAKS_INNER = torch.ones(2, 4), torch.ones(2, 2, 2), torch.ones(3, 4)


@pytest.fixture
def graph_module():
    return fxcore.symbolic_trace(Specialised(), example_inputs=torch.rand(2, 4))


def saved(graph_module):
    file = io.BytesIO()
    torch.save(graph_module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES = {
    "itself": lambda gm: gm,
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda gm: pickle.loads(pickle.dumps(gm)),
    "torch.save": saved,
    "inside another": nn.Sequential,
    "its forward": lambda gm: gm.forward,
    "its class": lambda gm: lambda *args: type(gm).forward(gm, *args),
    "a transformer": lambda gm: Transformer(gm).transform(),
    "an interpreter": lambda gm: Interpreter(gm).run,
    "a trace of it": fxcore.symbolic_trace,
    "torch.fx": interop.to_torch,
    "a deepcopy in torch.fx": lambda gm: copy.deepcopy(interop.to_torch(gm)),
    "a copy in torch.fx": lambda gm: copy.copy(interop.to_torch(gm)),
    "a pickle of torch.fx": lambda gm: pickle.loads(pickle.dumps(interop.to_torch(gm))),
    "back from torch.fx": lambda gm: interop.from_torch(copy.deepcopy(interop.to_torch(gm))),
}


@pytest.mark.parametrize("made", COPIES.values(), ids=COPIES)
def test_every_form_of_a_graph_checks_its_guards(graph_module, made):
    call = made(graph_module)

    assert torch.equal(call(HOLDS), graph_module(HOLDS))
    with pytest.raises(GuardError, match=r"x\.dim\(\) == 2: it is (3|False)"):
        call(BREAKS_INPUT)
    with pytest.raises(GuardError, match=r"\(self\.linear\(\.\.\.\)\.shape\[0\] % 2\) == 0: it is False"):
        call(BREAKS_INNER)


@pytest.mark.parametrize("made", [COPIES["itself"], copy.deepcopy, COPIES["pickle"], interop.to_torch])
def test_checks_that_are_left_out_stay_left_out(made):
    graph_module = fxcore.symbolic_trace(Specialised(), example_inputs=HOLDS, enforce_guards=False)

    assert made(graph_module)(BREAKS_INNER).shape == (3, 4)
    with pytest.raises(GuardError):
        graph_module.check_guards(BREAKS_INNER)


def test_code_shows_no_checks(graph_module):
    expected = fxcore.symbolic_trace(Specialised(), example_inputs=HOLDS, enforce_guards=False)

    assert graph_module.code == expected.code
    assert str(graph_module.graph) == str(expected.graph)
    assert inspect.getsource(graph_module.forward).strip() == expected.code.strip()
    assert inspect.signature(graph_module.forward) == inspect.signature(expected.forward)
    assert interop.to_torch(graph_module).code == expected.code


def test_an_error_of_the_graph_shows_the_line_of_the_code(graph_module, capsys):
    relu = graph_module.graph.find_nodes(op="call_module")[0].next
    with graph_module.graph.inserting_after(relu.prev):
        graph_module.graph.call_method("is_missing", (relu.prev,))
    graph_module.recompile()

    with pytest.raises(AttributeError, match="is_missing"):
        graph_module(HOLDS)
    told = capsys.readouterr().err
    assert "is_missing = linear.is_missing()" in told
    assert "_state" not in told


@pytest.mark.parametrize("tracer", [fxcore.symbolic_trace, torch.fx.symbolic_trace])
def test_a_graph_traced_again_has_the_same_nodes(graph_module, tracer):
    again = tracer(graph_module)

    assert [node.op for node in again.graph.nodes] == [node.op for node in graph_module.graph.nodes]
    assert torch.equal(again(HOLDS), graph_module(HOLDS))


def test_a_graph_with_starred_parameters_is_traced_again():
    def function(x, *rest, flag=1, **others):
        return x + 1 if x.shape[0] > 1 and rest[0].dim() else x * flag

    example = (torch.ones(2), torch.ones(2))
    checked = fxcore.symbolic_trace(function, example_inputs=example)
    unchecked = fxcore.symbolic_trace(function, example_inputs=example, enforce_guards=False)

    assert str(fxcore.symbolic_trace(checked).graph) == str(fxcore.symbolic_trace(unchecked).graph)


def test_a_proxy_outside_of_a_trace_is_not_checked(graph_module):
    graph = fxcore.Graph()
    graph_module(fxcore.Proxy(graph.placeholder("x")))

    called = [node.target for node in graph.nodes if node.op == "call_function"]
    assert called[0] is torch.nn.functional.linear


def test_torchscript_takes_the_code_without_checks(graph_module):
    assert torch.equal(torch.jit.script(graph_module)(HOLDS), graph_module(HOLDS))
    assert torch.equal(torch.jit.trace(graph_module, (HOLDS,))(HOLDS), graph_module(HOLDS))


@pytest.mark.parametrize("is_inside", [False, True])
def test_a_compiled_graph_is_whole_and_checks(graph_module, is_inside):
    called = nn.Sequential(graph_module) if is_inside else graph_module
    torch._dynamo.reset()

    assert torch.equal(torch.compile(called, backend="eager", fullgraph=True)(HOLDS), graph_module(HOLDS))
    with pytest.raises(GuardError):
        torch.compile(called, backend="eager", fullgraph=not is_inside)(BREAKS_INNER)


def test_a_graph_is_exported(graph_module):
    program = torch.export.export(graph_module, (HOLDS,))

    assert torch.equal(program.module()(HOLDS), graph_module(HOLDS))


def test_whether_a_graph_supports_inputs_is_told_without_a_run(graph_module):
    entry_only = fxcore.symbolic_trace(lambda x: x + 1 if x.dim() == 2 else x, example_inputs=HOLDS)

    assert graph_module.supports(HOLDS) is None
    assert graph_module.supports(BREAKS_INNER) is None
    assert graph_module.supports(BREAKS_INPUT) is False
    assert entry_only.supports(HOLDS) is True
    assert entry_only.supports(BREAKS_INPUT) is False
    assert fxcore.symbolic_trace(nn.ReLU()).supports(HOLDS) is True
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        entry_only.supports()


def test_conditions_after_the_first_that_fails_are_not_computed():
    graph_module = fxcore.symbolic_trace(
        lambda x: x + 1 if x.dim() == 3 and x.shape[2] == 4 else x, example_inputs=torch.ones(2, 3, 4)
    )

    for call in (graph_module, graph_module.check_guards):
        with pytest.raises(GuardError, match=r"x\.dim\(\) == 3: it is False"):
            call(torch.ones(2))


def test_a_condition_that_cannot_be_computed_is_a_broken_guard():
    graph_module = fxcore.symbolic_trace(lambda x: x + 1 if x.shape[2] == 4 else x, example_inputs=torch.ones(2, 3, 4))

    with pytest.raises(GuardError, match=r"x\.shape\[2\] == 4: it cannot be computed \(IndexError: ") as caught:
        graph_module(torch.ones(2))
    assert isinstance(caught.value.__cause__, IndexError)


def test_an_error_of_the_graph_before_the_last_check_stays_as_it_is():
    def function(x, y):
        total = x + y
        return total if total.shape[0] > 2 else total + 1

    graph_module = fxcore.symbolic_trace(function, example_inputs=(torch.ones(3), torch.ones(3)))

    with pytest.raises(RuntimeError, match="size of tensor a") as caught:
        graph_module.check_guards(torch.ones(3), torch.ones(4))
    assert not isinstance(caught.value, GuardError)


def test_a_condition_that_a_new_example_cannot_compute_refuses_the_trace():
    graph_module = fxcore.symbolic_trace(lambda x: x + 1 if x.shape[2] == 4 else x, example_inputs=torch.ones(2, 3, 4))

    with pytest.raises(GuardError, match=r"x\.shape\[2\] == 4: it cannot be computed \(IndexError"):
        fxcore.symbolic_trace(graph_module, example_inputs=torch.ones(2))


def test_an_edit_without_recompile_changes_no_check(graph_module):
    linear = next(node for node in graph_module.graph.nodes if node.op == "call_module")
    linear.name = "other"

    with pytest.raises(GuardError, match=r"shape\[0\] % 2\) == 0: it is False"):
        graph_module(BREAKS_INNER)


def test_a_guard_whose_value_a_transform_removed_is_computed_alone(graph_module):
    graph_module.linear = nn.Sequential(graph_module.linear, nn.BatchNorm1d(4))
    (linear,) = graph_module.graph.find_nodes(op="call_module")
    with graph_module.graph.inserting_after(linear):
        other = graph_module.graph.call_module("linear", linear.args)
    for reader in list(linear.users):
        reader.replace_input_with(linear, other)
    graph_module.graph.erase_node(linear)
    graph_module.recompile()
    before = copy.deepcopy(graph_module.state_dict())

    with pytest.raises(GuardError, match=r"shape\[0\] % 2\) == 0: it is False"):
        graph_module(BREAKS_INNER)
    assert all(torch.equal(value, before[name]) for name, value in graph_module.state_dict().items())
    assert graph_module.supports(BREAKS_INNER) is False
    assert graph_module(HOLDS).shape == (2, 4)


def test_a_guard_about_an_input_that_is_gone_is_gone():
    graph_module = fxcore.symbolic_trace(lambda x, mask=None: x + 1, example_inputs=HOLDS)
    graph_module.graph.erase_node(graph_module.graph.find_nodes(op="placeholder")[1])
    graph_module.recompile()

    assert torch.equal(graph_module(HOLDS), HOLDS + 1)


def test_a_user_s_lines_of_code_are_checked_before_they_run(graph_module):
    def doubled(transform):
        return lambda lines: [line.replace(" + 1", " + 2") for line in lines]

    graph_module.graph.on_generate_code(doubled)
    graph_module.recompile()

    assert " + 2" in graph_module.code
    assert graph_module(HOLDS).shape == (2, 4)
    with pytest.raises(GuardError):
        graph_module(BREAKS_INNER)


def test_inputs_in_one_list_are_checked(graph_module):
    graph_module.graph.set_codegen(BoxedCodeGen())
    graph_module.recompile()

    assert graph_module([HOLDS, None]).shape == (2, 4)
    with pytest.raises(GuardError):
        graph_module([BREAKS_INPUT, None])


def test_threads_may_make_the_first_call_at_once(graph_module):
    errors = []

    def call():
        try:
            graph_module(HOLDS)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []


@pytest.mark.parametrize("made", [lambda gm: gm, nn.Sequential], ids=["itself", "inside another"])
def test_a_graph_traced_again_with_an_example_keeps_its_guards(graph_module, made):
    again = fxcore.symbolic_trace(made(graph_module), example_inputs=HOLDS)

    assert [node.op for node in again.graph.nodes if node.target != "mask"] == [
        node.op for node in graph_module.graph.nodes if node.target != "mask"
    ]
    assert torch.equal(again(HOLDS), graph_module(HOLDS))
    for inputs in (BREAKS_INPUT, BREAKS_INNER):
        with pytest.raises(GuardError):
            again(inputs)


def test_an_assumption_is_assumed_again():
    graph_module = fxcore.symbolic_trace(
        lambda x: x + 1 if fxcore.assume(x.sum() > 0) else x - 1, example_inputs=torch.ones(2)
    )

    again = fxcore.symbolic_trace(nn.Sequential(graph_module), example_inputs=torch.ones(2))

    assert again.graph.guards[0].is_assumed
    with pytest.raises(GuardError):
        again(-torch.ones(2))


def draws():
    y = torch.rand(2)
    return y + 1 if fxcore.assume(y.sum() > 1) else y


def test_a_graph_without_inputs_is_checked_right_after_its_first_call():
    torch.manual_seed(0)  # the sum is 1.26
    graph_module = fxcore.symbolic_trace(draws, example_inputs=())

    for run in (graph_module, Interpreter(graph_module).run):
        torch.manual_seed(0)
        assert run().sum() > 3
        torch.manual_seed(2)  # the sum is 0.996
        with pytest.raises(GuardError, match=r"rand\(\.\.\.\)\.sum\(\) > 1"):
            run()


class AsksBehindAWrite(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x):
        self.calls.add_(1)
        y = x * 2
        return y if fxcore.assume(self.calls.sum() > 2) else y + 1


def test_a_check_of_the_guards_makes_the_writes_before_the_last_check_and_takes_them_back():
    graph_module = fxcore.symbolic_trace(AsksBehindAWrite(), example_inputs=torch.ones(2))

    graph_module.check_guards(torch.ones(2))

    assert graph_module.calls.tolist() == [0, 0, 0]
    graph_module.calls.sub_(2)
    with pytest.raises(GuardError, match=r"self.calls.sum\(\) > 2"):
        graph_module.check_guards(torch.ones(2))
    assert graph_module.calls.tolist() == [-2, -2, -2]

from __future__ import annotations

import copy
import inspect
import operator
import pickle
import threading

import pytest
import torch
from torch import nn

import fxcore
from fixtures.oracle import assert_same_success
from fxcore.lazy_forward import ForwardDescriptor, may_be_outdated
from fxcore.matching.replacer import MatchReplacer


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1, 1)
        self.other = nn.Linear(1, 1)

    def forward(self, x, y=1):
        return torch.relu(self.linear(x) + y).clamp(max=100.0)


EDITS = {}


def edit(function):
    EDITS[function.__name__] = function
    return function


@edit
def create(fx, module, at):
    with module.graph.inserting_before(at["output"]):
        module.graph.call_function(torch.neg, (at["clamp"],))


@edit
def erase(fx, module, at):
    at["output"].args = (at["relu"],)
    module.graph.erase_node(at["clamp"])


@edit
def change_args(fx, module, at):
    at["clamp"].args = (at["x"],)


@edit
def update_an_arg(fx, module, at):
    at["add"].update_arg(1, 7)


@edit
def insert_an_arg(fx, module, at):
    at["clamp"].insert_arg(1, 50.0)


@edit
def update_a_kwarg(fx, module, at):
    at["clamp"].update_kwarg("min", 50.0)


@edit
def change_target(fx, module, at):
    at["add"].target = operator.sub


@edit
def change_op(fx, module, at):
    at["relu"].op = "call_method"
    at["relu"].target = "neg"


@edit
def rename(fx, module, at):
    at["add"].name = "total"


@edit
def change_type(fx, module, at):
    at["add"].type = torch.Tensor


@edit
def move(fx, module, at):
    at["x"].append(at["linear"])


@edit
def replace_uses(fx, module, at):
    at["relu"].replace_all_uses_with(at["x"])


@edit
def replace_input(fx, module, at):
    at["clamp"].replace_input_with(at["relu"], at["x"])


@edit
def eliminate_dead_code(fx, module, at):
    at["output"].args = (at["x"],)
    module.graph.eliminate_dead_code()


@edit
def change_default(fx, module, at):
    at["y"].args = (10,)


@edit
def set_codegen(fx, module, at):
    class Starred(fx.CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation):
            names = ", ".join(variable.split("=")[0] for variable in free_vars)
            return f"def forward(self, *values):\n    {names} = *values, 5"

    module.graph.set_codegen(Starred())


@edit
def change_lines(fx, module, at):
    module.graph.on_generate_code(lambda before: lambda body: [line.replace("relu", "neg") for line in body])


@edit
def share_the_graph(fx, module, at):
    at["add"].target = operator.sub
    module.twin = fx.GraphModule(module, module.graph)
    at["add"].target = operator.mul


@edit
def assign_the_graph_again(fx, module, at):
    at["add"].target = operator.sub
    module.graph = module.graph
    at["add"].target = operator.mul


@edit
def disown_the_graph(fx, module, at):
    module.graph.owning_module = None
    at["add"].target = operator.sub


@pytest.mark.parametrize("when", ["never used", "recompiled", "used", "code read"])
@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS)
def test_forward_runs_the_graph_as_of_the_last_recompile(change, when):
    def sights(fx):
        module = fx.symbolic_trace(Model())
        module.eval()
        promised = module.recompile() if when == "recompiled" else None
        if when == "used":
            module(torch.ones(1))
        if when == "code read":
            _ = module.code
        change(fx, module, {node.name: node for node in module.graph.nodes})
        seen = [module(torch.ones(1)).detach(), module.code, promised.src if promised else None]
        module.recompile()
        return [*seen, module(torch.ones(1)).detach(), module.code]

    assert_same_success(sights)


def multiply_in_lines(fx, graph, factors):
    graph.on_generate_code(
        lambda before: lambda body: [line.replace("relu(x)", f"relu(x * {factors[-1]})") for line in body]
    )


def multiply_in_the_return(fx, graph, factors):
    class Multiplying(fx.graph.CodeGen):
        def generate_output(self, output_args):
            return f"return {output_args!r} * {factors[-1]}"

    graph.set_codegen(Multiplying())


@pytest.mark.parametrize("change", [multiply_in_lines, multiply_in_the_return])
def test_code_that_depends_on_more_than_the_graph_is_written_by_recompile(change):
    def sights(fx):
        factors = [2]
        module = fx.symbolic_trace(lambda x: torch.relu(x))
        change(fx, module.graph, factors)
        module.recompile()
        factors.append(3)
        return module(torch.ones(1)), module.code

    assert_same_success(sights)


COPIES = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
    "retrace": fxcore.symbolic_trace,
}


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
def test_a_copy_after_an_edit_does_not_disturb_the_original(make):
    module = fxcore.symbolic_trace(lambda x: x + 1)
    list(module.graph.nodes)[1].target = operator.sub

    make(module)

    assert module(1) == 2
    module.recompile()
    assert module(1) == 0


def test_nothing_can_tell_that_forward_was_not_there():
    module = fxcore.symbolic_trace(lambda x, y=2: x + y)
    assert isinstance(vars(type(module))["forward"], ForwardDescriptor)

    assert str(inspect.signature(module.forward)) == "(x, y=2)"
    assert type(module).forward(module, 1) == 3
    assert not isinstance(vars(type(module))["forward"], ForwardDescriptor)


def test_a_class_derived_from_a_module_s_own_finds_forward_too():
    module = fxcore.symbolic_trace(lambda x: x + 1)

    class Derived(type(module)):
        pass

    assert Derived.forward(module, 1) == 2


def test_threads_that_come_first_together_all_get_the_result():
    module = fxcore.symbolic_trace(lambda x: x + 1)
    results = []
    threads = [threading.Thread(target=lambda: results.append(module(1))) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == [2] * 8


@pytest.fixture
def compiled():
    torch._dynamo.reset()
    yield lambda function, **options: torch.compile(function, backend="eager", **options)
    torch._dynamo.reset()


def test_a_compiled_module_follows_recompile(compiled):
    module = fxcore.symbolic_trace(lambda x: torch.relu(x) + 1)
    run = compiled(module)
    before = run(torch.ones(1))

    module.graph.find_nodes(op="call_function", target=operator.add)[0].target = operator.sub
    unchanged = run(torch.ones(1))
    module.recompile()

    assert [before, unchanged, run(torch.ones(1))] == [2, 2, 0]


@pytest.mark.parametrize("how", ["torch.compile", "Module.compile"])
def test_a_module_compiled_as_one_graph_follows_recompile(compiled, how):
    module = fxcore.symbolic_trace(lambda x: torch.relu(x) + 1)
    if how == "Module.compile":
        module.compile(backend="eager", fullgraph=True)
    run = compiled(module, fullgraph=True) if how == "torch.compile" else module
    results = [run(torch.ones(1))]

    module.recompile()
    results.append(run(torch.ones(1)))
    module.graph.find_nodes(op="call_function", target=operator.add)[0].target = operator.sub
    results.append(run(torch.ones(1)))
    module.recompile()

    assert [*results, run(torch.ones(1))] == [2, 2, 2, 0]


@pytest.mark.parametrize("run", ["inside.__call__", "inside.forward"])
def test_a_module_inside_a_compiled_one_needs_no_first_call(compiled, run):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside = fxcore.symbolic_trace(lambda x: torch.relu(x) + 1)

        def forward(self, x):
            return (self.inside(x) if run == "inside.__call__" else self.inside.forward(x)) * 2

    assert compiled(Outer(), fullgraph=True)(torch.ones(1)) == 4


def test_dynamo_does_not_watch_code_being_written(compiled, recwarn):
    module = fxcore.symbolic_trace(nn.Sequential(nn.Linear(1, 1)))
    run = compiled(module)
    run(torch.ones(1))

    module.recompile()
    run(torch.ones(1))

    assert [str(warning.message) for warning in recwarn if "fxcore" in str(warning.message)] == []


def rewrite(module):
    return fxcore.replace_pattern(module, lambda x: torch.relu(x), lambda x: torch.neg(x))


def test_code_that_was_promised_before_a_rewriting_is_the_code_of_then():
    traced = fxcore.symbolic_trace(lambda x: torch.relu(x))
    promised = traced.recompile()

    rewrite(traced)

    assert "torch.relu" in promised.src
    assert "torch.neg" in traced.code


def test_a_module_that_shares_the_graph_runs_as_before_a_rewriting():
    traced = fxcore.symbolic_trace(lambda x: torch.relu(x))
    sharing = copy.copy(traced)
    x = torch.tensor([-1.0, 2.0])

    rewrite(traced)

    assert torch.equal(sharing(x), torch.relu(x))
    assert torch.equal(traced(x), -x)
    rewritten = fxcore.symbolic_trace(lambda x: torch.relu(x))
    sharing = copy.copy(rewritten)
    rewrite(sharing)
    assert torch.equal(rewritten(x), torch.relu(x))
    assert torch.equal(sharing(x), -x)


def test_listeners_of_a_rewriting_find_the_module_as_it_was():
    traced = fxcore.symbolic_trace(lambda x: torch.relu(torch.relu(x)))
    x, heard = torch.tensor([-1.0, 2.0]), []
    traced._register_replace_node_hook(lambda old, new, user: heard.append(traced(x)))

    rewrite(traced)

    assert heard
    assert all(torch.equal(result, torch.relu(x)) for result in heard)


def test_callbacks_of_a_rewriting_find_the_module_as_it_was():
    traced = fxcore.symbolic_trace(lambda x: torch.relu(torch.relu(x)))
    x, heard = torch.tensor([-1.0, 2.0]), []

    def replacement(match, graph, pattern):
        heard.append(traced(x))
        return fxcore.symbolic_trace(lambda x: torch.neg(x)).graph

    fxcore.subgraph_rewriter.replace_pattern_with_filters(
        traced, lambda x: torch.relu(x), replacement_callback=replacement
    )

    assert len(heard) == 2
    assert all(torch.equal(result, torch.relu(x)) for result in heard)


def test_a_rewriting_that_fails_before_its_first_edit_leaves_the_module_as_it_was():
    traced = fxcore.symbolic_trace(lambda x: torch.relu(torch.relu(x)))

    with pytest.raises(fxcore.FxError, match="Placeholder count mismatch"):
        fxcore.replace_pattern(traced, lambda x: torch.relu(x), lambda x, y: torch.neg(x))

    assert traced.code.count("torch.relu") == 2


def test_a_rewriting_that_is_interrupted_says_that_there_is_no_code(monkeypatch):
    traced = fxcore.symbolic_trace(lambda x: torch.relu(x))

    def interrupt(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MatchReplacer, "finish", interrupt)
        with pytest.raises(KeyboardInterrupt):
            rewrite(traced)

    with pytest.raises(fxcore.FxError, match=r"there is no code: .* call recompile"):
        _ = traced.code
    traced.recompile()
    assert traced.code


def test_code_that_cannot_be_written_is_the_same_error_at_each_reading():
    graph = fxcore.Graph()
    graph.output(graph.create_node("call_function", eval("lambda: 1"), name="unnamed"))
    module = fxcore.GraphModule({}, graph)

    errors = []
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Unable to represent lambda") as caught:
            _ = module.code
        errors.append(caught.value)

    assert errors[0] is errors[1]


def test_the_result_of_recompile_has_the_fields_of_written_code_and_no_others():
    written = fxcore.symbolic_trace(nn.ReLU()).recompile()

    assert "def forward" in written.src
    assert not hasattr(written, "nothing")
    assert written.globals["torch"] is torch


def test_a_module_may_be_outdated_from_an_edit_to_the_next_recompile():
    traced = fxcore.symbolic_trace(lambda x: x + 1)
    found = [may_be_outdated(traced)]

    traced.graph.placeholder("y")
    found.append(may_be_outdated(traced))
    traced.recompile()
    found.append(may_be_outdated(traced))

    assert found == [False, True, False]
    assert not may_be_outdated(nn.ReLU())


def test_code_that_was_promised_twice_is_kept_for_the_first_reader():
    traced = fxcore.symbolic_trace(lambda x: torch.relu(x))
    first, second = traced.recompile(), traced.recompile()
    del second

    rewrite(traced)

    assert "torch.relu" in first.src

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import fxcore
from fixtures.graph_identity import differences
from fixtures.higher_order import AOT, DYNAMO, EXPORT, HAND, NAMES, PROGRAMS
from fixtures.torch_captures import captured
from fxcore import interop

# Those that take a second or more to capture, of which one is enough for every day.
SLOW = {"scan", "flex_attention", "while_loop", "map", "invoke_subgraph", "foreach_map", "leaf_function"}
SAMPLE = {("hints_wrapper", AOT), ("no_grad_region", EXPORT), ("effects", AOT), ("custom_with_mutation", AOT)}
# torch's operators that interpret the graph they are given, or ask for its class.
INTERPRETED = {"autograd_function", "checkpoint", "checkpoint_with_dropout", "run_const_graph", "bypassing_wrapper"}


def cases(*ways: str) -> list:
    """List the programs with their ways of capture; those of every day are Dynamo's quick ones and a few others."""
    return [
        pytest.param(
            *(name, way),
            id=f"{name}-{way}",
            marks=[] if (way in (DYNAMO, HAND) and name not in SLOW) or (name, way) in SAMPLE else [pytest.mark.long],
        )
        for name, program in PROGRAMS.items()
        for way in program.operators
        if way in (ways or (DYNAMO, AOT, EXPORT, HAND))
    ]


def run(module, inputs, *, grad=False):
    torch.manual_seed(0)
    with torch.set_grad_enabled(grad):  # torch makes graphs of gradients at each call
        return module(*inputs)


def test_this_torch_has_every_program():
    assert list(PROGRAMS) == NAMES


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(("name", "way"), cases())
def test_the_program_calls_its_operator(name, way):
    targets = [
        str(node.target)
        for each in captured(name, way)
        for module in each.module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
    ]

    assert any(PROGRAMS[name].operators[way] in target for target in targets)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(("name", "way"), cases())
def test_there_and_back_is_the_identity(name, way, nested):
    for each in captured(name, way):
        ours = interop.from_torch(each.module, nested=nested)
        back = interop.to_torch(ours, nested=nested)

        assert [line for line in differences(each.module, ours) if not line.startswith("class")] == []
        assert differences(each.module, back) == []
        assert differences(ours, interop.from_torch(back, nested=nested)) == []


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(("name", "way"), cases())
def test_the_graph_computes_what_the_program_does(name, way, nested):
    if nested and name in INTERPRETED:
        pytest.skip("torch's operator takes only graph modules of torch.fx")
    grad = name == "register_hook"
    for each in captured(name, way):
        expected = run(each.module, each.fresh_inputs(), grad=grad)
        ours = interop.from_torch(each.module, nested=nested)

        for module in (ours, fxcore.Interpreter(ours).run, copy.deepcopy(ours), interop.to_torch(ours, nested=nested)):
            obtained = run(module, each.fresh_inputs(), grad=grad)
            torch.testing.assert_close(obtained, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("name", "way"),
    [("associative_scan", HAND), ("auto_functionalized", HAND), ("no_grad_region", EXPORT), ("cond", DYNAMO)],
)
def test_a_pickle_of_the_graph_computes_the_same(name, way):
    # What torch.export makes of a program with its state has hooks that no pickle takes.
    each = next(each for each in captured(name, way) if each.kind != "unlifted")

    loaded = pickle.loads(pickle.dumps(interop.from_torch(each.module, nested=True)))

    expected = run(each.module, each.fresh_inputs())
    torch.testing.assert_close(run(loaded, each.fresh_inputs()), expected, rtol=0, atol=0)


def test_a_converted_module_is_compiled():
    each = captured("cond", DYNAMO)[0]
    compiled = torch.compile(interop.from_torch(each.module), backend="eager", fullgraph=True)

    expected = run(each.module, each.fresh_inputs())
    torch.testing.assert_close(run(compiled, each.fresh_inputs()), expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["autograd_function", "checkpoint"])
def test_gradients_are_those_of_the_program(name):
    each = captured(name, DYNAMO)[0]

    expected, obtained = (
        torch.autograd.grad(module(*inputs)[0].sum(), [value for value in inputs if value.requires_grad])
        for module in (each.module, interop.from_torch(each.module))
        for inputs in (each.fresh_inputs(),)
    )

    torch.testing.assert_close(obtained, expected, rtol=0, atol=0)

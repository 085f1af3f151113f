from __future__ import annotations

import functools
import types

import pytest
import torch
from torch import nn

import fxcore
from fixtures.oracle import assert_same_success
from fxcore import wrap
from fxcore.errors import FxError
from fxcore.tracing.patching import Patcher
from fxcore.tracing.wrap import (
    find_symbolic,
    ids_of_functions,
    patch_globals,
    patch_module,
    recorded,
    wrapped_function,
)

wrap("len")
wrap("defined_below")


def defined_below(x, *, options=None):
    return x


@wrap
def decorated(x):
    return x + 1


def doubled(function):
    @functools.wraps(function)
    def wrapper(*args):
        return 2 * function(*args)

    return wrapper


@wrap
@doubled
def wrapped_twice(x):
    return x


def targets(function):
    graph = fxcore.symbolic_trace(function).graph
    return [node.target for node in graph.nodes if node.op == "call_function"]


def test_functions_registered_in_any_way_become_calls():
    assert targets(lambda x: len(x)) == [len]
    assert targets(lambda x: defined_below(x)) == [defined_below]
    assert targets(lambda x: decorated(x)) == [decorated]
    assert targets(lambda x: wrapped_twice(x)) == [wrapped_twice]


@pytest.mark.parametrize("place", [lambda x: [1, (x,)], lambda x: {"a": [x]}, lambda x: slice(None, x)])
def test_a_proxy_is_found_wherever_it_is_nested(place):
    assert targets(lambda x: defined_below(place(x))) == [defined_below]
    assert targets(lambda x: defined_below(1, options=place(x))) == [defined_below]


def test_without_a_proxy_the_function_runs():
    traced = fxcore.symbolic_trace(lambda x: x + decorated(1) + len([1, 2, 3]))

    assert [node.args[1] for node in traced.graph.nodes if len(node.args) == 2] == [2, 3]
    assert decorated(1) == 2
    assert len([1]) == 1


def test_a_module_s_forward_sees_them_and_so_does_tracing_again():
    class Model(nn.Module):
        def forward(self, x):
            return decorated(x)

    traced = fxcore.symbolic_trace(Model())
    again = fxcore.symbolic_trace(traced)
    theirs = torch.fx.symbolic_trace(traced)

    assert 'wrap("test_wrap_decorated")' in traced.code.replace("tests_fxcore_tracing_", "")
    assert again.code == traced.code
    assert "decorated" in str(theirs.graph)
    assert [traced(1), again(1), theirs(1)] == [2, 2, 2]


def test_registrations_at_torch_fx_hold_too():
    library = types.ModuleType("library_with_its_own_wrap")
    exec("import torch.fx\n@torch.fx.wrap\ndef leaf(x): return x\ndef calls(x): return leaf(x)", vars(library))

    assert targets(library.calls) == [library.leaf]


def test_what_cannot_be_wrapped_is_refused():
    with pytest.raises(
        RuntimeError, match="Unsupported type for global function! Must be either a callable or string"
    ) as caught:
        wrap(3)

    assert isinstance(caught.value, FxError)


def test_wrapping_inside_a_function_is_refused_with_the_place():
    with pytest.raises(NotImplementedError, match="wrap must be called at the top level of a module") as caught:
        wrap("something")

    assert f"{__file__}:" in str(caught.value)
    assert "'test_wrapping_inside_a_function_is_refused_with_the_place'" in str(caught.value)


def test_the_last_proxy_answers_and_plain_values_have_none():
    graph = fxcore.Graph()
    first, last = fxcore.Proxy(graph.placeholder("a")), fxcore.Proxy(graph.placeholder("b"))

    assert find_symbolic([first, {"k": (last, 1)}]) is last
    assert find_symbolic([1, {"k": (2, None)}]) is None


def test_a_wrapped_function_says_that_it_was_wrapped():
    graph = fxcore.Graph()

    proxy = wrapped_function(decorated)(fxcore.Proxy(graph.placeholder("x")))

    assert proxy.node.meta == {"is_wrapped": True}
    assert wrapped_function(decorated).__name__ == "decorated"


def pair_class(fx):
    class Pair(metaclass=fx.ProxyableClassMeta):
        def __init__(self, left, right):
            self.left, self.right = left, right

        def swapped(self):
            return Pair(self.right, self.left)

    return Pair


def test_construction_from_proxies_is_recorded():
    def graph(fx):
        Pair = pair_class(fx)

        def function(x, pair):
            made = Pair(x, pair.left)
            return made.swapped(), Pair(torch.zeros(1), x)

        return fx.symbolic_trace(function).graph

    assert_same_success(graph)


def test_an_instance_made_of_constants_is_kept_on_the_module():
    Pair = pair_class(fxcore)

    traced = fxcore.symbolic_trace(lambda x: x.method(Pair(1, 2)))

    assert [node.target for node in traced.graph.find_nodes(op="get_attr")] == ["_Pair_constant_0"]
    assert traced._Pair_constant_0.left == 1


def test_outside_of_a_trace_the_class_is_an_ordinary_one():
    Pair = pair_class(fxcore)

    assert Pair(1, 2).swapped().left == 2


def test_public_functions_of_a_module_are_recorded_and_nothing_else():
    module = types.ModuleType("made")
    module.public, module._private, module.number = torch.add, torch.mul, 3

    assert ids_of_functions(module) == {id(torch.add)}


@wrap
def negate(x):
    x.neg_()


def test_a_function_that_returns_nothing_becomes_a_call_with_an_example_too():
    def negated(x):
        y = torch.relu(x)
        negate(y)
        return y + 1

    graph_module = fxcore.symbolic_trace(negated, example_inputs=torch.ones(2))

    (call,) = [node for node in graph_module.graph.nodes if node.name == "negate"]
    assert call.meta["is_wrapped"]
    assert torch.equal(graph_module(torch.ones(2)), torch.zeros(2))
    assert torch.equal(fxcore.symbolic_trace(graph_module)(torch.ones(2)), torch.zeros(2))


def doubled(x):
    return x * 2


def tripled(x):
    return x * 3


def test_a_recorded_call_has_the_function_or_the_target_that_is_given():
    x = fxcore.Proxy(fxcore.Graph().placeholder("x"))

    function, method = recorded(doubled)(x), recorded(doubled, "call_method", "double")(x)

    assert (function.node.op, function.node.target) == ("call_function", doubled)
    assert (method.node.op, method.node.target) == ("call_method", "double")
    assert recorded(doubled)(4) == 8


def test_the_globals_of_a_module_get_the_functions_whose_ids_are_given():
    number = 1000
    names = {"doubled": doubled, "_private": doubled, "tripled": tripled, "number": number}
    before = dict(names)

    with Patcher() as patcher:
        for _ in range(2):
            patch_globals(patcher, names, {id(doubled), id(number)})
        assert names == {**before, "doubled": wrapped_function(doubled)}
    assert names == before
    with Patcher() as patcher:
        patch_globals(patcher, names, {id(torch.neg)})
        assert names == before


def test_a_module_that_changed_has_other_functions():
    module = types.ModuleType("changing")
    module.first = doubled
    assert ids_of_functions(module) == {id(doubled)}

    module.second = tripled
    assert ids_of_functions(module) == {id(doubled), id(tripled)}
    module.first = fxcore.wrap
    assert ids_of_functions(module) == {id(fxcore.wrap), id(tripled)}
    del module.second
    assert ids_of_functions(module) == {id(fxcore.wrap)}


@pytest.mark.parametrize("replaced", [("first",), ("first", "second"), ()])
def test_the_functions_of_a_module_are_replaced_if_their_ids_are_given(replaced):
    module = types.ModuleType("partly")
    module.first, module.second = doubled, tripled
    ids = {id(getattr(module, name)) for name in replaced}

    with Patcher() as patcher:
        patch_module(patcher, module, {*ids, id(torch.neg)})
        found = [name for name in ("first", "second") if hasattr(getattr(module, name), "__wrapped__")]

    assert tuple(found) == replaced
    assert (module.first, module.second) == (doubled, tripled)

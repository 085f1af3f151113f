from __future__ import annotations

import functools
import inspect

import pytest
import torch
from torch import nn

import fxcore
from fixtures.oracle import assert_same, assert_same_success
from fxcore import PH, Tracer
from fxcore.errors import FxError
from fxcore.tracing.placeholders import PHWithMeta, function_of, name_of, user_code_of, with_plain_parameters


class Adds:
    def __call__(self, x, y=2):
        return x + y

    def method(self, x, *, y=3):
        return x + y

    @classmethod
    def of_the_class(cls, x):
        return x + 4


CALLABLES = {
    "object": (Adds(), 3),
    "method": (Adds().method, 4),
    "classmethod": (Adds.of_the_class, 5),
    "partial": (functools.partial(Adds().method, y=6), 7),
    "cached": (functools.lru_cache(lambda x: x + 7), 8),
    "function": (lambda x: x + 8, 9),
}


@pytest.mark.parametrize(("function", "expected"), CALLABLES.values(), ids=CALLABLES)
def test_every_callable_of_python_can_be_traced(function, expected):
    traced = fxcore.symbolic_trace(function)

    assert traced(1) == expected
    assert [node.name for node in traced.graph.nodes if node.op == "call_function"] == ["add"]


def test_a_forward_on_the_instance_is_the_one_that_calling_runs():
    model = nn.Identity()
    model.forward = lambda x: x + 100

    assert fxcore.symbolic_trace(model)(1) == model(1) == 101


def test_another_method_than_forward_is_traced_if_asked_for():
    class Model(nn.Module):
        def forward(self, x):
            return x

        def encode(self, x):
            return x * 2

    def graph(fx):
        class Encodes(fx.Tracer):
            traced_func_name = "encode"

        return Encodes().trace(Model())

    assert_same_success(graph)


@pytest.mark.parametrize("root", [3, None, "text", torch.ones(1)], ids=lambda root: type(root).__name__)
def test_what_is_not_callable_is_refused(root):
    with pytest.raises(AssertionError, match="Expected FunctionType, got <class") as caught:
        fxcore.symbolic_trace(root)

    assert isinstance(caught.value, FxError)


def test_a_builtin_without_a_signature_is_refused_with_advice():
    with pytest.raises(AssertionError, match="wrap it in a function that lists them"):
        Tracer().trace(torch.relu)


def positional_only(x, /, y, *, z, w=3):
    return x + y + z + w


def starred(x, *rest, k=1, **named):
    return x + rest[0] + k + named["q"]


def only_starred(*rest):
    return rest[0] + rest[1]


def defaults(a=torch.float32, b=(1, 2), c={"k": 1}, d=slice(1), e=None, f="text", g=1j, h=..., i=range(3)):  # noqa: B006
    return a


def annotated(x: torch.Tensor, n: int = 2) -> torch.Tensor:
    return x * n


@pytest.mark.parametrize("function", [positional_only, starred, only_starred, defaults, annotated])
def test_parameters_become_placeholders_as_in_torch_fx(function):
    assert_same_success(lambda fx: (fx.symbolic_trace(function).graph, fx.symbolic_trace(function).code))


def test_starred_arguments_run():
    assert fxcore.symbolic_trace(starred)(1, 3, 2, q=4) == 10  # k comes before *rest, as in torch.fx
    assert fxcore.symbolic_trace(only_starred)(1, 2) == 3


def flagged(x, flag=True, n=3, nothing=None, scale=1.5):
    return x * n if flag else x + scale


@pytest.mark.parametrize(
    "concrete",
    [
        {"flag": True},
        {"flag": False, "n": 2},
        {"flag": True, "scale": float("nan")},
        {"flag": True, "n": torch.ones(1)},
        {"flag": 1, "unknown": 3},
        (5, True, 3, None, 1.5),
        {},
    ],
    ids=str,
)
def test_concrete_values_are_fixed_and_checked_as_in_torch_fx(concrete):
    def code(fx):
        text = fx.symbolic_trace(flagged, concrete).code
        # The function that checks for None is each library's own.
        return text.replace("torch.fx._symbolic_trace._assert", "fxcore__symbolic_trace__assert")

    assert_same(code)


def test_an_input_fixed_to_none_must_stay_none_also_after_tracing_again():
    traced = fxcore.symbolic_trace(lambda x, y=None: x if y is None else x + y, {"y": None})
    again = [traced, fxcore.symbolic_trace(traced), torch.fx.symbolic_trace(traced)]

    for module in again:
        assert module(1) == 1
        with pytest.raises(AssertionError, match="y has been specialized to have value None but got another value"):
            module(1, 2)


def test_a_tuple_of_values_must_have_one_for_each_parameter():
    with pytest.raises(RuntimeError, match="Tracing expected 5 arguments but got 1 concrete arguments") as caught:
        fxcore.symbolic_trace(flagged, (PH,))

    assert isinstance(caught.value, FxError)


def test_a_forward_without_self_is_refused():
    class Model(nn.Module):
        def forward(*args):
            return args[0]

    with pytest.raises(RuntimeError, match="``self`` argument cannot be part of"):
        fxcore.symbolic_trace(Model())


def test_attributes_of_a_marker_are_passed_on_to_the_node():
    traced = fxcore.symbolic_trace(annotated, {"x": PHWithMeta(ph_key="image"), "n": PH})

    assert next(iter(traced.graph.nodes)).ph_key == "image"


def test_a_decorated_function_has_the_parameters_of_the_one_inside():
    class Model(nn.Module):
        @torch.no_grad()
        def forward(self, x, n=3):
            return x * n

    assert_same_success(lambda fx: fx.symbolic_trace(Model()).code)


def test_the_check_for_none_is_named_where_torch_fx_has_it():
    traced = fxcore.symbolic_trace(flagged, {"flag": True, "nothing": None})

    assert "fxcore__symbolic_trace__assert_is_none(nothing_1" in traced.code
    assert fxcore._symbolic_trace._assert_is_none in [node.target for node in traced.graph.nodes]


def test_a_warning_of_an_input_that_cannot_be_checked_points_to_the_user_s_line():
    with pytest.warns(UserWarning, match="Was not able to add assertion") as caught:
        fxcore.symbolic_trace(flagged, {"flag": True, "n": torch.ones(1)})

    assert [warning.filename for warning in caught] == [__file__]


def test_markers_of_one_starred_parameter_become_inputs_with_their_attributes():
    class Net(nn.Module):
        def forward(self, *values):
            return values[0] + values[1]

    def recorded(fx):
        marked = PHWithMeta(ph_key="first") if fx is fxcore else torch.fx._symbolic_trace.PHWithMeta(ph_key="first")
        graph = fx.Tracer().trace(Net(), concrete_args=(marked, fx.PH))
        return graph, [node.ph_key if hasattr(node, "ph_key") else None for node in graph.nodes]

    assert repr(PH) == "PH"
    assert_same(recorded)


class Doubles(nn.Module):
    def forward(self, x):
        return x * 2

    def other(self, x):
        return x * 3


def plain(x):
    return x * 5


def with_own_forward(make):
    module = Doubles()
    module.forward = make(module)
    return module


@pytest.mark.parametrize(
    ("root", "function", "takes_module", "factor"),
    [
        (Doubles(), Doubles.forward, True, 2),
        (with_own_forward(lambda module: module.other), Doubles.other, True, 3),
        (with_own_forward(lambda module: plain), plain, False, 5),
        (with_own_forward(lambda module: Doubles().other), None, False, 3),
        (with_own_forward(lambda module: functools.partial(plain)), None, False, 5),
        (plain, plain, False, 5),
        (functools.partial(plain), None, False, 5),
        (functools.partial(lambda x, *more, y=5: x * y), None, False, 5),
        (Doubles().other, None, False, 3),
    ],
    ids=[
        "class",
        "own method",
        "own function",
        "method of another",
        "own partial",
        "function",
        "partial",
        "star",
        "method",
    ],
)
def test_the_function_to_trace_is_the_users_own_where_there_is_one(root, function, takes_module, factor):
    found, is_method = function_of(root)

    assert is_method is takes_module
    assert function is None or found is function
    assert found(*([root] if is_method else []), 7) == 7 * factor


class Named(Doubles):
    __name__ = "another name"


@pytest.mark.parametrize(
    ("root", "name", "code"),
    [
        (plain, "plain", plain),
        (functools.partial(functools.partial(plain)), "partial", plain),
        (functools.partial(Adds().method, y=6), "partial", Adds.method),
        (Adds(), "Adds", Adds.__call__),
        (Adds().method, "method", Adds.method),
        (functools.lru_cache(plain), "plain", plain),
        (Doubles(), "Doubles", Doubles.forward),
        (Named(), "Named", Doubles.forward),
        (with_own_forward(lambda module: functools.partial(plain)), "Doubles", Doubles.forward),
        (torch.no_grad()(plain), "plain", plain),
    ],
    ids=["function", "partial", "of a method", "object", "method", "cached", "module", "named", "own", "decorated"],
)
def test_a_root_has_a_name_and_the_code_that_the_user_wrote(root, name, code):
    function, _ = function_of(root)

    assert name_of(root) == name
    assert user_code_of(root, function) is code.__code__


@pytest.mark.parametrize(
    "function",
    [
        lambda x, *, k, m=3: x + k + m,
        lambda x, *rest, k: x + k,
        lambda *rest, k=2, **named: k,
        lambda x, y=2, **named: x + y,
        annotated,
    ],
)
def test_the_function_that_calls_an_object_has_the_parameters_of_the_object(function):
    calling, _ = function_of(functools.partial(function))

    signature = inspect.signature(function)
    assert str(inspect.signature(calling)) == str(signature.replace(return_annotation=inspect.Signature.empty))
    assert calling.__annotations__ == {
        name: kind for name, kind in function.__annotations__.items() if name != "return"
    }


def takes_batch(batch, scale):
    return batch["x"] * scale + batch["pair"][1]


@pytest.mark.parametrize(
    ("function", "concrete"),
    [
        (takes_batch, {"batch": {"x": "PH", "pair": ("PH", "PH")}}),
        (takes_batch, {"batch": {"x": 3, "pair": ("PH", 4)}, "scale": 5}),
        (lambda x: x + 1, ("PH",)),
        (lambda x: x + 1, (3,)),
        (lambda x, *rest: x, ("PH", "PH")),
        (lambda x, *rest: rest[0], ()),
        (lambda x, y: x + y, ("PH", "PH")),
    ],
)
def test_nested_values_and_tuples_are_fixed_as_in_torch_fx(function, concrete):
    def code(fx):
        def marked(value):
            return fx.PH if value == "PH" else value

        return fx.symbolic_trace(function, torch.utils._pytree.tree_map(marked, concrete)).code

    assert_same(code)


class Marker(PHWithMeta):
    op = "an op of its own"

    def method(self):
        return 1


def test_a_marker_passes_on_its_values_and_no_method_and_nothing_that_a_node_has():
    graph = Tracer().trace(annotated, concrete_args={"x": Marker(ph_key="image"), "n": PH})

    node = next(iter(graph.nodes))
    assert (node.op, node.ph_key) == ("placeholder", "image")
    assert not hasattr(node, "method")


def test_values_for_any_number_of_arguments_leave_no_attributes_on_the_nodes():
    def recorded(fx):
        graph = fx.Tracer().trace(Starred(), concrete_args=(3, fx.PH))
        return graph, [hasattr(node, "numerator") for node in graph.nodes]

    assert_same(recorded)


class Starred(nn.Module):
    def forward(self, *values):
        return values[0] + values[1]


def test_all_variables_of_a_function_become_plain_parameters():
    function = with_plain_parameters(positional_only, 4)

    assert function(x=1, y=2, z=3, w=4) == function(1, 2, 3, 4) == 10
    assert with_plain_parameters(only_starred, 1)(rest=(1, 2)) == 3


def test_a_forward_that_is_a_static_method_takes_no_module():
    class Static(nn.Module):
        @staticmethod
        def forward(x):
            return x * 2

    traced = fxcore.symbolic_trace(Static())

    assert [node.op for node in traced.graph.nodes] == ["placeholder", "call_function", "output"]
    assert traced(3) == Static()(3) == 6

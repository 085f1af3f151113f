from __future__ import annotations

import inspect
import types
import typing
import warnings

import pytest
import torch
import torch.fx.operator_schemas as theirs
import torch.nn.functional as F
from torch import nn

import fxcore
import fxcore.operator_schemas as ours
from fixtures.torch_versions import TORCH
from fxcore.errors import GraphError
from fxcore.operator_schemas import (
    ArgsKwargsPair,
    check_for_mutable_operation,
    create_type_hint,
    get_signature_for_torch_op,
    normalize_function,
    normalize_module,
    type_matches,
)


def described(signatures):
    # torch.fx takes a schema's Generator for typing.Generator; ours is torch's.
    return str(signatures).replace("torch._C.Generator", "Generator")


@pytest.mark.parametrize("namespace", [torch, torch.linalg, torch.fft, torch.special, F], ids=lambda it: it.__name__)
def test_operators_have_the_signatures_that_torch_gives_them(namespace):
    for name, function in vars(namespace).items():
        if callable(function) and not name.startswith("quantized_"):
            expected = theirs.get_signature_for_torch_op(function)

            assert described(get_signature_for_torch_op(function)) == described(expected), name


def test_signatures_come_with_their_schemas_if_asked_for():
    signatures, schemas = get_signature_for_torch_op(torch.ops.aten.add, return_schemas=True)

    assert len(signatures) == len(schemas)
    assert str(schemas[0]).startswith("aten::add.Tensor(")
    assert get_signature_for_torch_op(len, return_schemas=True) == (None, None)


CALLS = [
    (torch.relu, (1,), {}),
    (torch.mm, (1, 2), {}),
    (F.relu, (1,), {}),
    (F.max_pool2d, (1, 2), {"return_indices": True}),
    (F.layer_norm, (1, [2]), {"eps": 1}),
    (torch.cat, ([1, 2],), {}),
    (torch.nonzero, (1,), {}),
    (torch.ops.aten.relu.default, (1,), {}),
    (torch.rand, (1,), {"unknown": 2}),
    (inspect.signature, (1,), {}),
    (print, (1,), {}),
]


@pytest.mark.parametrize("only_kwargs", [True, False])
@pytest.mark.parametrize(("target", "args", "kwargs"), CALLS, ids=lambda it: getattr(it, "__name__", None))
def test_arguments_are_normalized_as_torch_does(target, args, kwargs, only_kwargs):
    expected = theirs.normalize_function(target, args, kwargs, normalize_to_only_use_kwargs=only_kwargs)

    assert normalize_function(target, args, kwargs, normalize_to_only_use_kwargs=only_kwargs) == expected


def test_types_choose_between_overloads_that_fit():
    by_tensor = normalize_function(torch.add, (1, 2), {}, (torch.Tensor, torch.Tensor), {})
    by_number = normalize_function(torch.add, (1, 2), {}, (torch.Tensor, float), {})

    assert by_tensor == theirs.normalize_function(torch.add, (1, 2), {}, (torch.Tensor, torch.Tensor), {})
    assert by_number == ArgsKwargsPair((1, 2), {"alpha": 1})
    assert normalize_function(torch.add, (1, 2), {}, (str, dict), {}) is None


def test_overloads_that_fit_without_types_are_an_error_that_lists_them():
    with pytest.raises(RuntimeError, match="the schema match was ambiguous") as caught:
        normalize_function(torch.add, (1, 2))

    assert isinstance(caught.value, fxcore.FxError)
    assert "other: torch.Tensor" in str(caught.value)


def test_a_wrapper_around_an_operator_is_looked_through():
    class Wrapper:
        _op = torch.ops.aten.relu.default

        def __call__(self, *args):
            return self._op(*args)

    assert normalize_function(Wrapper(), (1,), normalize_to_only_use_kwargs=True) == ((), {"input": 1})


def test_arguments_of_a_torch_module_are_matched_to_its_forward():
    root = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.MultiheadAttention(2, 1)))

    assert normalize_module(root, "0", (5,), normalize_to_only_use_kwargs=True) == ((), {"input": 5})
    attention = normalize_module(root, "1.0", (1, 2, 3), {"need_weights": False})
    assert attention == theirs.normalize_module(root, "1.0", (1, 2, 3), {"need_weights": False})


def test_a_module_that_is_not_torchs_is_left_alone():
    class Own(nn.Module):
        def forward(self, x):
            return x

    assert normalize_module(nn.Sequential(Own()), "0", (1,)) is None


def test_a_path_that_names_no_module_is_refused():
    with pytest.raises(RuntimeError, match="Tried to normalize node with target gone but root did not have"):
        normalize_module(nn.Sequential(), "gone", ())


def test_a_node_normalizes_its_own_arguments():
    gm = fxcore.symbolic_trace(nn.Sequential(nn.ReLU()))
    root, call, _ = gm.graph.nodes
    call.args = (F.relu,)
    with gm.graph.inserting_before(call):
        function = gm.graph.call_function(F.relu, (root,))

    normalized = function.normalized_arguments(gm, normalize_to_only_use_kwargs=True)

    assert normalized == ((), {"input": root, "inplace": False})
    assert call.normalized_arguments(gm) == ((F.relu,), {})
    assert root.normalized_arguments(gm) is None


TYPES = [
    int,
    float,
    bool,
    str,
    torch.Tensor,
    torch.dtype,
    list[int],
    list[float],
    tuple[int, ...],
    tuple[int, float],
    tuple[torch.Tensor, torch.Tensor],
]

# As schemas write them.
UNIONS = [typing.Union[int, None], typing.Union[int, list[int]]]  # noqa: UP007


@pytest.mark.parametrize("parameter", [*TYPES, *UNIONS, list[torch.Tensor]], ids=str)
def test_types_match_where_torch_says_so(parameter):
    for argument in TYPES:
        assert type_matches(parameter, argument) == theirs.type_matches(parameter, argument), argument


def test_a_union_written_with_a_bar_is_a_union():
    assert type_matches(int | None, int)
    assert not type_matches(int | None, str)


@pytest.mark.parametrize(
    "items",
    [[int, int], (int, bool), [bool, int], [int, str], [], (), int, "text", (torch.Tensor, nn.Parameter)],
    ids=str,
)
def test_type_hints_are_those_of_torch(items):
    expected = theirs.create_type_hint(items)

    assert create_type_hint(items) == expected or (
        # Before torch 2.13, a list of int is written List[int].
        TORCH < (2, 13) and create_type_hint(items) == typing.get_origin(expected)[typing.get_args(expected)]
    )


def test_a_list_that_holds_no_types_gives_a_warning_and_comes_back():
    with pytest.warns(UserWarning, match="not able to successfully create type hint"):
        assert create_type_hint([1, 2]) == [1, 2]


def test_an_operation_that_mutates_is_refused():
    with pytest.raises(RuntimeError, match="Tried to trace mutable operation aten::relu_"):
        check_for_mutable_operation(torch.relu_, (torch.zeros(1),), {})


def test_an_operation_that_computes_passes_the_check():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_for_mutable_operation(torch.relu, (torch.zeros(1),), {})
        check_for_mutable_operation(len, ([],), {})

    assert ours.check_for_mutable_operation is check_for_mutable_operation


def test_parameters_up_to_a_keyword_of_python_are_given_by_position_alone():
    (signature,) = get_signature_for_torch_op(getattr(torch.ops.aten.random_, "from"))

    kinds = {name: parameter.kind.name for name, parameter in signature.parameters.items()}
    assert kinds == {
        "input": "POSITIONAL_ONLY",
        "from": "POSITIONAL_ONLY",
        "to": "POSITIONAL_OR_KEYWORD",
        "generator": "KEYWORD_ONLY",
    }


def test_a_list_is_no_number_of_a_list():
    with pytest.warns(UserWarning, match="Does not support nested parametric types"):
        assert not type_matches(list[list[int]], list[int])
    assert not type_matches(list[int], list[list[int]])


def test_a_function_of_any_number_of_arguments_has_no_names_for_them():
    assert normalize_function(torch.broadcast_tensors, (torch.ones(1), torch.ones(1))) is None


def test_a_type_that_python_does_not_know_is_any():
    assert ours.python_type(types.SimpleNamespace(annotation_str="__torch__.Mine")) is typing.Any


def test_a_list_of_lists_is_no_list_of_numbers():
    assert not type_matches(list[int], list[list[int]])
    assert not type_matches(list[int], tuple[list[int], int])
    assert type_matches(list[int], tuple[int, ...])


def test_a_choice_between_functions_with_other_parameters_has_no_signature():
    def if_true(x, more):
        return x

    def if_false(x):
        return x

    chosen = torch._jit_internal.boolean_dispatch(
        arg_name="more",
        arg_index=1,
        default=False,
        if_true=if_true,
        if_false=if_false,
        module_name=__name__,
        func_name="f",
    )

    assert normalize_function(chosen, (1,)) is None


def test_types_of_either_kind_of_argument_choose_an_overload():
    by_tensor = theirs.normalize_function(torch.add, (1, 2), {}, (torch.Tensor, torch.Tensor), {})

    assert normalize_function(torch.add, (1, 2), {}, (torch.Tensor, torch.Tensor)) == by_tensor
    by_keyword = normalize_function(
        torch.add, (), {"input": 1, "other": 2}, None, {"input": torch.Tensor, "other": torch.Tensor}
    )
    assert by_keyword == ((), {"input": 1, "other": 2, "alpha": 1})


@pytest.mark.parametrize(("count", "outcome"), [(0, None), (1, ((), {"x": 1})), (2, "ambiguous"), (3, "ambiguous")])
def test_two_overloads_that_fit_are_one_too_many(monkeypatch, count, outcome):
    signature = inspect.signature(lambda x: x)
    monkeypatch.setattr(ours, "get_signature_for_torch_op", lambda op: [signature] * count)

    if outcome == "ambiguous":
        with pytest.raises(RuntimeError, match="ambiguous"):
            normalize_function(torch.relu, (1,), normalize_to_only_use_kwargs=True)
    else:
        assert normalize_function(torch.relu, (1,), normalize_to_only_use_kwargs=True) == outcome


def test_the_widest_type_is_found_in_every_place():
    assert create_type_hint([int]) == list[int]
    assert create_type_hint((bool, int, bool)) == tuple[int, ...]
    assert create_type_hint([int, bool, str]) == list[typing.Any]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        create_type_hint([1])
        type_matches(list[list[int]], int)
    assert [each.filename for each in caught] == [__file__, __file__]


def test_a_list_of_a_union_is_no_list_of_numbers():
    assert not type_matches(list[int], list[typing.Optional[int]])  # noqa: UP045 - such annotations are met
    assert not type_matches(list[int], list[typing.Any])
    assert not type_matches(int, typing.Optional[int])  # noqa: UP045


@pytest.mark.parametrize(
    ("args", "rest", "more", "kwargs"),
    [((), (), {}, "None"), ((), ({"x": 1},), {}, "{'x': 1}"), ((1,), (), {"kwargs": {"y": 2}}, "{'y': 2}")],
)
def test_a_call_that_cannot_be_normalized_is_told_with_its_arguments(args, rest, more, kwargs):
    target = torch.ops.aten.relu.default

    with pytest.raises(GraphError) as error:
        ours._normalize_function_or_error(target, args, *rest, **more)

    assert f"with args {args} and kwargs {kwargs}:" in str(error.value)

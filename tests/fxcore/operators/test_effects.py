from __future__ import annotations

import math
import operator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fxcore.operators import effects
from fxcore.operators.effects import (
    Effects,
    attribute_effects,
    function_effects,
    holds,
    method_effects,
    module_effects,
)
from pytest_fxgraph.document.target_names import TargetNames


class Observer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))


@pytest.mark.parametrize(
    ("module", "training", "evaluating"),
    [
        (nn.Dropout(0.5), ("random",), ()),
        (nn.Dropout(0.0), (), ()),
        (nn.RReLU(), ("random",), ()),
        (nn.FractionalMaxPool2d(2, output_size=1), ("random",), ("random",)),
        (nn.LSTM(2, 2, num_layers=2, dropout=0.5), ("random",), ()),
        (nn.MultiheadAttention(4, 2, dropout=0.1), ("random",), ()),
        (nn.BatchNorm2d(2), ("state",), ()),
        (nn.BatchNorm2d(2, track_running_stats=False), (), ()),
        (nn.InstanceNorm1d(2), (), ()),
        (nn.Embedding(2, 2, max_norm=1.0), ("state",), ("state",)),
        (nn.TransformerEncoderLayer(4, 2), ("random",), ()),
        (nn.Conv2d(1, 1, 1), (), ()),
        (Observer(), ("state",), ()),
        (nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2)), ("random", "state"), ()),
    ],
)
def test_what_a_module_does_beside_computing_follows_its_training_flag(module, training, evaluating):
    assert module_effects(module.train()).kinds == training
    assert module_effects(module.eval()).kinds == evaluating


def test_a_module_that_works_in_place_writes_its_input():
    assert module_effects(nn.ReLU(inplace=True)).writes == ((0, "input"),)
    assert module_effects(nn.ReLU()).writes == ()


def test_the_result_of_a_layer_shares_no_storage_and_that_of_a_reshaping_module_is_not():
    assert module_effects(nn.Linear(1, 1)).aliases == "none"
    assert module_effects(nn.ReLU(inplace=True)).aliases == "all"
    assert module_effects(nn.Flatten()).aliases == "all"
    assert module_effects(Observer()).aliases == "all"


def of_the_user(x):
    return x


def effects_of(function):
    return function_effects(function, TargetNames(repr).name(function))


@pytest.mark.parametrize(
    "function",
    [
        *(torch.rand, torch.bernoulli, F.gumbel_softmax, torch.ops.aten.rand.default, torch.Tensor.normal_),
        *(torch.svd_lowrank, torch.pca_lowrank, torch.lobpcg, torch.get_rng_state),
    ],
)
def test_random_operators_are_known(function):
    assert effects_of(function).kinds == ("random",)


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "is_random"),
    [
        (F.dropout, (0,), {}, True),
        (F.dropout, (0, 0.5, False), {}, False),
        (F.dropout, (0,), {"training": False}, False),
        (F.dropout, (0,), {"training": object()}, True),
        (F.alpha_dropout, (0,), {}, False),
        (torch.dropout, (0, 0.5, True), {}, True),
        (torch.ops.aten.dropout.default, (0, 0.5, False), {}, False),
        (F.scaled_dot_product_attention, (0, 0, 0), {}, False),
        (F.scaled_dot_product_attention, (0, 0, 0), {"dropout_p": 0.1}, True),
        (F.rrelu, (0,), {}, False),
    ],
)
def test_what_is_random_in_training_only_is_judged_by_its_arguments(function, args, kwargs, is_random):
    effects = effects_of(function)

    assert effects.kinds == ("random",)
    assert holds(effects.condition, args, kwargs) is is_random


def test_an_operator_of_the_user_is_random_by_its_tag():
    with torch.library._scoped_library("fxcore_test_effects", "DEF") as library:
        library.define("drawn(Tensor x) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
        library.define("computed(Tensor x) -> Tensor")

        assert effects_of(torch.ops.fxcore_test_effects.drawn.default).kinds == ("random",)
        assert effects_of(torch.ops.fxcore_test_effects.computed.default).kinds == ()


@pytest.mark.parametrize(
    "function", [torch.relu_, F.relu_, torch.Tensor.add_, torch.nn.init.zeros_, operator.setitem, operator.iadd]
)
def test_functions_that_write_their_first_argument_are_known(function):
    assert 0 in [position for position, _ in effects_of(function).writes]


def test_an_overload_says_itself_what_it_writes_and_aliases():
    assert effects_of(torch.ops.aten.add_.Tensor).writes == ((0, "self"),)
    assert effects_of(torch.ops.aten.add.out).writes == ((3, "out"),)
    assert effects_of(torch.ops.aten.add.Tensor).writes == ()
    assert effects_of(torch.ops.aten.add.Tensor).aliases == "none"
    assert effects_of(torch.ops.aten.view.default).aliases == (0,)
    assert effects_of(torch.ops.aten.set_.source_Tensor).aliases == "all"


def test_methods_that_end_with_one_underscore_write_their_object():
    assert method_effects("add_").writes
    assert method_effects("__setitem__").writes
    assert method_effects("append").writes
    assert not method_effects("add").writes
    assert not method_effects("__add__").writes


@pytest.mark.parametrize(
    ("function", "kinds"),
    [
        (print, ("io",)),
        (torch._assert, ("io",)),
        (of_the_user, ("call",)),
        (lambda x: x, ("call",)),
        (torch.ops.higher_order.cond, ("call",)),
        (torch.relu, ()),
        (math.sqrt, ()),
        (len, ()),
    ],
)
def test_side_effects_and_functions_of_the_user_are_known(function, kinds):
    assert effects_of(function).kinds == kinds


def test_results_of_well_known_operators_share_no_storage_and_views_do():
    assert effects_of(torch.add).aliases == "none"
    assert effects_of(operator.mul).aliases == "none"
    assert method_effects("softmax").aliases == "none"
    assert method_effects("view").aliases == "first"
    assert effects_of(torch.flatten).aliases == "all"
    assert effects_of(of_the_user).aliases == "all"


def test_norms_write_their_statistics_while_they_train():
    for function in (torch.batch_norm, torch.ops.aten.batch_norm.default):
        effects = effects_of(function)
        assert effects.writes == ((3, "running_mean"), (4, "running_var"))
        assert holds(effects.writes_condition, (0, 0, 0, 0, 0, True), {})
        assert not holds(effects.writes_condition, (0, 0, 0, 0, 0, False), {})
    assert effects_of(F.batch_norm).writes == ((1, "running_mean"), (2, "running_var"))
    assert not holds(effects_of(F.batch_norm).writes_condition, (), {})
    assert holds(effects_of(F.instance_norm).writes_condition, (), {})


@pytest.mark.parametrize("function", [F.embedding, F.embedding_bag])
def test_a_lookup_with_a_largest_norm_writes_its_weight(function):
    indices, weight = torch.zeros(1, 1, dtype=torch.int64), torch.ones(2, 3)

    assert effects_of(function).written((indices, weight), {}) == []
    assert effects_of(function).written((indices, weight), {"max_norm": None}) == []
    assert [id(each) for each in effects_of(function).written((indices, weight), {"max_norm": 1.0})] == [id(weight)]


def test_an_observer_writes_its_four_statistics():
    names = [name for _, name in effects_of(torch.fused_moving_avg_obs_fake_quant).writes]

    assert names == ["running_min", "running_max", "scale", "zero_point"]


def test_a_tensor_that_takes_over_memory_shares_it():
    assert method_effects("set_").aliases == "all"
    assert effects_of(setattr).aliases == "all"


def test_what_changes_how_all_that_follows_computes_is_known():
    assert effects_of(torch._C._set_grad_enabled).changes_global_state
    assert not effects_of(torch.relu).changes_global_state


@pytest.mark.parametrize(
    ("op", "target"),
    [
        ("call_method", "size"),
        ("call_method", "dim"),
        ("call_function", len),
        ("call_function", isinstance),
        ("call_function", operator.is_),
        ("call_function", torch.is_grad_enabled),
        ("call_function", torch.ops.aten.sym_size.int),
    ],
)
def test_questions_about_form_are_told_apart_from_reads_of_contents(op, target):
    assert effects.effects_of(op, target).asks


@pytest.mark.parametrize("target", [operator.getitem, operator.eq, torch.sum, torch.unique])
def test_a_function_that_reads_contents_asks_no_question_about_form(target):
    assert not effects.effects_of("call_function", target).asks


def test_a_read_of_an_attribute_shares_memory_unless_the_attribute_is_plain():
    assert attribute_effects("requires_grad").aliases == "none"
    assert attribute_effects("is_leaf").aliases == "none"
    assert attribute_effects("T").aliases == "first"
    assert attribute_effects("of_the_user").aliases == "first"


def test_a_write_under_a_condition_is_none_where_the_condition_is_false():
    x, mean, variance = torch.ones(2, 3), torch.zeros(3), torch.ones(3)
    norm = effects_of(F.batch_norm)

    assert norm.written((x, mean, variance), {"training": False}) == []
    assert [id(each) for each in norm.written((x, mean, variance), {"training": True})] == [id(mean), id(variance)]


@pytest.mark.parametrize(
    ("name", "kinds"), [("onnx.Relu", ()), ("onnx.RandomNormal", ("random",)), ("onnx.Bernoulli", ("random",))]
)
def test_an_operator_of_the_onnx_standard_writes_nothing_and_may_draw(name, kinds):
    found = function_effects(lambda x: x, name)

    assert (found.kinds, found.writes, found.aliases) == (kinds, (), "none")


def test_a_function_of_the_package_onnx_is_a_user_s():
    assert function_effects(lambda x: x, "onnx.helper") == function_effects(lambda x: x, "mine.helper")


@pytest.mark.parametrize(
    ("name", "kinds", "writes", "aliases"),
    [
        ("multinomial", ("random",), (), "none"),
        ("uniform_", ("random",), effects.FIRST, "first"),
        ("add_", (), effects.FIRST, "first"),
        ("append", (), effects.FIRST, "all"),
        ("add", (), (), "none"),
    ],
)
def test_the_name_of_a_method_tells_its_effects(name, kinds, writes, aliases):
    found = method_effects(name)

    assert (found.kinds, found.writes, found.aliases) == (kinds, writes, aliases)


INPLACE, OUT = (1, "inplace"), (2, "out")


@pytest.mark.parametrize(
    ("found", "is_plain"),
    [
        (Effects(), True),
        (Effects(aliases="none"), True),
        (Effects(("random",)), False),
        (Effects(writes=effects.FIRST), False),
        (Effects(inplace=INPLACE), False),
        (Effects(changes_global_state=True), False),
    ],
)
def test_effects_are_plain_without_kind_write_and_global_state(found, is_plain):
    assert found.is_plain is is_plain


@pytest.mark.parametrize(
    ("args", "kwargs", "in_place"),
    [
        (("x",), {}, False),
        (("x", None), {}, False),
        (("x", False), {}, False),
        (("x", 0), {}, False),
        (("x", True), {}, True),
        (("x", 1), {}, True),
        (("x", object()), {}, True),
        (("x",), {"inplace": True}, True),
        (("x",), {"inplace": False}, False),
    ],
)
def test_a_call_works_in_place_unless_its_argument_is_false_for_sure(args, kwargs, in_place):
    found = Effects(inplace=INPLACE)

    assert found.works_in_place(args, kwargs) is in_place
    assert found.written(args, kwargs) == ["x"] * in_place
    assert not Effects().works_in_place(args, kwargs)


def test_a_call_of_one_kind_has_it_where_its_condition_may_hold():
    condition = (1, ("training", "train"), True)

    assert Effects(("random",)).kinds_of_call((), {}) == ("random",)
    assert Effects(("random",), condition).kinds_of_call((1, False), {}) == ()
    assert Effects(("random",), condition).kinds_of_call((1,), {"train": True}) == ("random",)
    assert Effects((), condition).kinds_of_call((1, True), {}) == ()


@pytest.mark.parametrize(
    ("args", "kwargs", "default", "may_hold"),
    [
        ((0, True), {}, False, True),
        ((0, False), {}, True, False),
        ((0, None), {}, True, False),
        ((0, 0.0), {}, True, False),
        ((0, 0.5), {}, False, True),
        ((0, []), {}, False, True),
        ((0,), {"b": 1}, False, True),
        ((0,), {"a": 0}, True, False),
        ((0,), {}, True, True),
        ((0,), {}, False, False),
    ],
)
def test_only_a_literal_false_argument_rules_a_condition_out(args, kwargs, default, may_hold):
    assert holds((1, ("a", "b"), default), args, kwargs) is may_hold
    assert holds(None, args, kwargs)


def test_a_call_writes_out_once_and_the_arguments_that_it_has():
    with_out, by_name = Effects(writes=(OUT,)), Effects(writes=((0, "self"), (1, "other")))

    assert with_out.written((), {"out": "o"}) == ["o"]
    assert with_out.written((1, 2, "o"), {}) == ["o"]
    assert Effects().written((), {"out": "o"}) == ["o"]
    assert Effects().written((), {"out": None}) == []
    assert by_name.written(("a",), {"out": "o"}) == ["o", "a"]
    assert by_name.written(("a",), {"other": "b"}) == ["a", "b"]
    assert Effects(writes=((0, "self"),), writes_condition=(1, ("c",), False)).written(("a",), {}) == []
    assert Effects(inplace=INPLACE).written((), {"input": "x", "inplace": True}) == ["x"]


def test_a_function_of_init_writes_its_tensor_that_a_trace_passes_by_name():
    assert effects_of(nn.init.constant_).written((), {"tensor": "w", "val": 0.5}) == ["w"]


def test_a_node_that_calls_no_known_module_has_plain_effects():
    layer = nn.Dropout(0.5)

    assert effects.effects_of("call_module", "layer", layer) == module_effects(layer)
    assert effects.effects_of("call_module", "layer", None) == effects.effects_of("placeholder", "x") == effects.PLAIN


class Unhashable:
    __hash__ = None
    __name__ = __qualname__ = "unhashable"

    def __call__(self, x):
        return x


def test_effects_of_functions_of_the_user_are_not_kept_and_those_of_torch_are():
    def mine(x):
        return x

    for target in (mine, torch.hypot, torch.ops.aten.hypot.default, Unhashable()):
        function_effects(target, None)

    kept = [target for target, _ in effects._KNOWN]
    assert torch.hypot in kept
    assert torch.ops.aten.hypot.default in kept
    assert mine not in kept
    assert function_effects(Unhashable(), "torch.relu") == function_effects(torch.relu, None)


@pytest.mark.parametrize(
    ("function", "name", "kinds", "writes", "aliases"),
    [
        (of_the_user, "higher_order.mine", ("call",), (), "all"),
        (of_the_user, "mine.function", ("call",), (), "all"),
        (of_the_user, "math.mine", (), (), "none"),
        (of_the_user, "cmath.mine", (), (), "none"),
        (of_the_user, "operator.getitem", (), (), "first"),
        (of_the_user, "builtins.getattr", (), (), "first"),
        (of_the_user, "builtins.max", (), (), "all"),
        (of_the_user, "operator.setitem", (), effects.FIRST, "first"),
        (of_the_user, "torch.Tensor.add_", (), effects.FIRST, "first"),
        (of_the_user, "torch.Tensor.view", (), (), "first"),
        (of_the_user, "torch.mine", (), (), "all"),
        (of_the_user, "torch.mine_", (), effects.FIRST, "all"),
        (torch.ops.aten.add, None, (), ((3, "out"),), "all"),
        (torch.ops.aten.rand, None, ("random",), None, "all"),
    ],
)
def test_a_name_tells_the_effects_of_a_function(function, name, kinds, writes, aliases):
    found = function_effects(function, name)

    assert (found.kinds, found.aliases) == (kinds, aliases)
    assert writes is None or found.writes == writes


class Inplace(nn.Module):
    def __init__(self, *parts):
        super().__init__()
        self.parts = nn.ModuleList(parts)


@pytest.mark.parametrize(
    ("module", "kinds", "is_written", "aliases"),
    [
        (nn.ReLU(), (), False, "none"),
        (nn.ReLU(inplace=True), (), True, "all"),
        (nn.Dropout(0.5, inplace=True), ("random",), True, "all"),
        (nn.Dropout(0.5, inplace=True).eval(), (), True, "all"),
        (Inplace(nn.ReLU(inplace=True)), (), True, "all"),
        (Inplace(nn.ReLU(), nn.Dropout(0.5)), ("random",), False, "all"),
        (Inplace(nn.BatchNorm1d(1), nn.Dropout(0.5)), ("random", "state"), False, "all"),
        (nn.TransformerEncoderLayer(2, 1, 2, activation=nn.ReLU(inplace=True), dropout=0), (), False, "all"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_effects_of_a_module_are_those_of_its_parts(module, kinds, is_written, aliases):
    found = module_effects(module)

    assert (found.kinds, bool(found.writes), found.aliases) == (kinds, is_written, aliases)


def test_a_wait_for_a_collective_writes_what_it_waits_for():
    found = function_effects(torch.ops._c10d_functional.wait_tensor.default, None)

    assert (found.writes, found.aliases) == (((0, "tensor"),), "first")


def test_an_operator_without_an_overload_has_the_effects_of_all():
    views = function_effects(torch.ops.aten.view, None)
    adds = function_effects(torch.ops.aten.add, None)
    detached = function_effects(torch.ops.aten.sym_size, None)

    assert (views.aliases, views.writes) == ("all", ())
    assert adds.facts == function_effects(torch.ops.aten.add.Tensor, None).facts
    assert detached.aliases == "none"


@pytest.mark.parametrize(("args", "kwargs"), [((7, 1), {}), ((), {"self": 7}), ((), {"input": 7}), ((), {"tensor": 7})])
def test_what_writes_its_first_argument_writes_it_under_each_of_its_names(args, kwargs):
    written = method_effects("add_").written(args, kwargs)

    assert set(written) == {7}


def test_a_layer_that_works_in_place_writes_what_it_is_given():
    effects = module_effects(nn.ReLU(inplace=True))

    assert effects.written((7,), {}) == effects.written((), {"input": 7}) == [7]
    assert module_effects(nn.ReLU()).written((7,), {}) == []
    assert function_effects(F.relu, None).written((7,), {"inplace": True}) == [7]
    assert function_effects(F.relu, None).written((7,), {"inplace": False}) == []

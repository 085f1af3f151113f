from __future__ import annotations

import enum
import functools
import gc
import types
import weakref

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune
from torch.nn.utils.weight_norm import WeightNorm

from fxcore import Graph, GraphModule
from pytest_fxgraph.document.argument_texts import ArgumentTexts
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.modules import (
    Attributes,
    module_config,
    parts_of,
    returns_something,
    training_flag,
    traits_of,
)


def test_modules_parameters_and_plain_attributes_are_found_by_path():
    root = nn.ModuleDict({"block": nn.Sequential(nn.Linear(1, 1))})
    root.block.config = {"a": 1}
    root.block.holder = types.SimpleNamespace(size=3)
    attributes = Attributes(root)

    assert attributes.at("") is root
    assert attributes.at("block.0") is root.block[0]
    assert attributes.at("block.0.weight") is root.block[0].weight
    assert attributes.at("block.config") == {"a": 1}
    assert attributes.at("block.holder.size") == 3


def test_a_missing_part_is_an_attribute_error():
    with pytest.raises(AttributeError, match="block"):
        Attributes(nn.Module()).at("block.weight")


def test_a_module_without_parts_stands_for_itself():
    layer = nn.ReLU()

    assert list(parts_of("act", layer)) == [("act", layer)]


def test_a_part_is_listed_under_each_of_its_paths():
    layer = nn.ReLU()
    block = nn.Sequential(layer, layer)

    assert list(parts_of("block", block)) == [("block", block), ("block.0", layer), ("block.1", layer)]


def test_the_parameters_of_a_constructor_come_with_what_goes_unsaid():
    (parameter,) = traits_of(nn.ReLU).parameters

    assert (parameter.name, parameter.unsaid) == ("inplace", False)


def test_a_layer_of_torch_is_told_from_a_class_of_the_user():
    class Mine(nn.Linear):
        pass

    assert traits_of(nn.Linear).is_layer
    assert not traits_of(Mine).is_layer
    assert not traits_of(Mine).is_of_torch


def test_a_class_that_parametrization_derives_is_no_layer():
    layer = nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", nn.Identity())

    assert not traits_of(type(layer)).is_layer


def test_a_layer_that_drops_counts_or_draws_is_not_inert():
    assert traits_of(nn.Linear).is_inert
    assert not any(traits_of(cls).is_inert for cls in (nn.Dropout, nn.BatchNorm1d, nn.LSTM, nn.RReLU, nn.Embedding))


def test_the_traits_of_torch_are_found_once_and_keep_no_class_of_the_user_alive():
    class Mine(nn.Module):
        pass

    watch = weakref.ref(Mine)
    traits_of(Mine)
    del Mine
    gc.collect()

    assert traits_of(nn.Conv2d) is traits_of(nn.Conv2d)
    assert watch() is None


class Mode(enum.Enum):
    FAST = 1


class OfTheUser(nn.Module):
    __constants__ = ("label",)

    def __init__(self):
        super().__init__()
        self.size = 3
        self.scale = 0.5
        self.is_causal = True
        self.nothing = None
        self.mode = Mode.FAST
        self.shape = (1, (2, Mode.FAST))
        self.label = "kept, because it is declared constant"
        self.path = "/left/out"
        self.items = [1]
        self._hidden = 4
        self.weight = nn.Parameter(torch.zeros(1))
        self.inner = nn.Linear(1, 1)


def config_of(module):
    return dict(module_config(module, ArgumentTexts(None).text))


def test_a_layer_is_described_by_its_constructor_without_device_and_dtype():
    assert config_of(nn.Conv2d(3, 8, 3, padding="same", bias=False)) == {
        "in_channels": "3",
        "out_channels": "8",
        "kernel_size": "(3, 3)",
        "stride": "(1, 1)",
        "padding": '"same"',
        "dilation": "(1, 1)",
        "groups": "1",
        "bias": "False",
        "padding_mode": '"zeros"',
    }


def test_bias_is_told_as_true_or_false():
    assert config_of(nn.Linear(2, 3))["bias"] == "True"
    assert config_of(nn.MultiheadAttention(4, 2))["bias"] == "True"
    assert config_of(nn.MultiheadAttention(4, 2, bias=False))["bias"] == "False"


def test_false_and_none_go_unsaid_where_they_are_the_default():
    assert config_of(nn.ReLU()) == {}
    assert config_of(nn.ReLU(inplace=True)) == {"inplace": "True"}
    assert config_of(nn.Upsample(scale_factor=2)) == {"scale_factor": "2.0", "mode": '"nearest"'}


def test_a_parameter_that_is_kept_under_another_name_is_said_by_it():
    assert config_of(nn.PairwiseDistance()) == {"eps": "1e-06"}
    assert config_of(nn.PairwiseDistance(p=3.0)) == {"norm": "3.0", "eps": "1e-06"}


def test_a_recurrent_layer_is_described_by_the_constructor_it_hands_its_arguments_to():
    config = config_of(nn.LSTM(2, 3, num_layers=2, batch_first=True))

    assert config["input_size"] == "2"
    assert config["num_layers"] == "2"
    assert config["batch_first"] == "True"


def test_functions_as_hyper_parameters_are_named():
    layer = nn.TransformerEncoderLayer(4, 2, activation=torch.nn.functional.gelu)

    assert config_of(layer)["activation"] == "torch.nn.functional.gelu"


def test_a_module_of_the_user_is_described_by_public_plain_attributes_and_declared_constants():
    mode = f"{__name__}.Mode.FAST"

    assert config_of(OfTheUser()) == {
        "is_causal": "True",
        "items": "[1]",
        "label": '"kept, because it is declared constant"',
        "mode": mode,
        "nothing": "None",
        "scale": "0.5",
        "shape": f"(1, (2, {mode}))",
        "size": "3",
    }


def with_attributes(**attributes):
    module = nn.Module()
    for name, value in attributes.items():
        setattr(module, name, value)
    module.__class__ = type("OfTheUser", (nn.Module,), {})
    return config_of(module)


def test_data_of_a_module_of_the_user_is_described_and_nothing_else():
    described = {
        "kind": (torch.float16, "torch.float16"),
        "place": (torch.device("cpu"), 'device("cpu")'),
        "part": (slice(1, None, 2), "slice(1, None, 2)"),
        "factor": (1 - 2j, "complex(1.0, -2.0)"),
        "sizes": ([1, (2.0, True)], "[1, (2.0, True)]"),
        "of": ({"a": [1], 2: None}, '{"a": [1], 2: None}'),
        "these": ({2, 1}, "{1, 2}"),
        "frozen": (frozenset({1}), "frozenset({1})"),
        "scale": (3, "3"),
    }
    deep: list[object] = []
    deep.append(deep)

    found = with_attributes(
        **{name: value for name, (value, _) in described.items()}, texts=["a path"], objects=[object()], deep=deep
    )

    assert found == {name: text for name, (_, text) in sorted(described.items())}


def test_a_constant_without_a_stable_text_is_described_by_its_type():
    module = OfTheUser()
    module.label = object()

    assert config_of(module)["label"] == "builtins.object"


def test_the_training_flag_is_kept_where_it_may_matter():
    assert training_flag(nn.Dropout()) is True
    assert training_flag(nn.BatchNorm1d(1).eval()) is False
    assert training_flag(nn.Linear(1, 1)) is None
    assert training_flag(OfTheUser().eval()) is False


@pytest.mark.parametrize("affine", [True, False])
def test_a_norm_says_of_its_bias_what_a_torch_without_that_parameter_says(affine):
    norms = nn.InstanceNorm1d, nn.BatchNorm1d, nn.SyncBatchNorm

    for norm in (nn.GroupNorm(1, 3, affine=affine), *[kind(3, affine=affine) for kind in norms]):
        assert config_of(norm).get("affine", "False") == str(affine)
        assert "bias" not in config_of(norm)


def test_a_bias_that_all_torches_know_is_said():
    assert config_of(nn.LayerNorm(3, bias=False))["bias"] == "False"


class PoolToCome(nn.Module):
    """AvgPool2d as a torch to come may have it: in another order, with two parameters more, without two."""

    __module__ = "torch.nn.modules.pooling"
    __qualname__ = "AvgPool2d"

    def __init__(self, kernel_size, padding=0, stride=None, pace=1, ceil_mode=True, *, flavour="plain"):
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, stride or kernel_size, padding
        self.pace, self.ceil_mode, self.flavour = (pace, pace), ceil_mode, flavour

    def forward(self, x):
        return nn.functional.avg_pool2d(x, self.kernel_size, self.stride, self.padding)


@pytest.fixture
def newer(monkeypatch):
    """Put the pool of a torch to come in place of the installed one."""
    monkeypatch.setattr(nn, "AvgPool2d", PoolToCome)
    return PoolToCome


INSTALLED = nn.AvgPool2d(2, padding=1)
OF_INSTALLED = {"kernel_size": "2", "stride": "2", "padding": "1", "count_include_pad": "True"}


def test_what_only_another_torch_knows_goes_unsaid_at_its_default(newer):
    assert config_of(newer(2, padding=1, ceil_mode=False)) == OF_INSTALLED


def test_the_installed_torch_says_the_same():
    assert config_of(INSTALLED) == OF_INSTALLED


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ({"pace": 2}, {"pace": "(2, 2)"}),
        ({"flavour": "sweet"}, {"flavour": '"sweet"'}),
        ({"padding": 1}, {"padding": "1"}),
    ],
)
def test_what_is_not_at_its_default_is_said_by_each_torch_that_knows_it(newer, argument, said):
    default, other = config_of(newer(2)), config_of(newer(2, **argument))

    assert dict(other.items() - default.items()) == said


def test_a_default_that_a_newer_torch_has_changed_is_a_difference(newer):
    assert config_of(newer(2, padding=1)) == {**OF_INSTALLED, "ceil_mode": "True"}


def test_a_class_that_derives_from_one_of_torch_says_nothing_of_what_only_some_torches_know(newer):
    class Derived(newer):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.size = 3

    default = config_of(Derived(2))

    assert (default["size"], default["padding"]) == ("3", "0")
    assert default.keys() == {"size", "kernel_size", "stride", "padding", "ceil_mode"}
    assert config_of(Derived(2, pace=3)) == {**default, "pace": "(3, 3)"}


def looks_on(module, args, output):
    print(output)


def leaves_early(module, args, output):
    if args:
        return
    for _ in args:
        return


def explicit_none(module, args, output):
    if module.training:
        print(output)
    return


def scales(module, args, output):
    return output * 2


def scales_sometimes(module, args, output):
    return output * 2 if module.training else None


class Observer:
    def __call__(self, module, args, output):
        self.seen = output


class Quantizer:
    def __call__(self, module, args, output):
        return output.round()

    def method(self, module, args):
        return args


@pytest.mark.parametrize(
    "hook", [looks_on, leaves_early, explicit_none, Observer(), functools.partial(looks_on), WeightNorm("weight", 0)]
)
def test_a_hook_that_only_looks_on_returns_nothing(hook):
    assert not returns_something(hook)


@pytest.mark.parametrize(
    "hook",
    [scales, scales_sometimes, Quantizer(), Quantizer().method, functools.partial(scales), torch.relu, lambda *_: 3],
)
def test_a_hook_that_may_return_something_is_told(hook):
    assert returns_something(hook)


def config_in_graph(module):
    graph = Graph()
    graph.output(graph.call_module("layer", (graph.placeholder("x"),)))
    return dict(build_document(GraphModule(nn.ModuleDict({"layer": module}), graph)).modules[0].config)


def test_hooks_of_a_called_module_are_part_of_its_configuration():
    layer = nn.ReLU()
    layer.register_forward_hook(looks_on)
    layer.register_forward_hook(scales)
    layer.register_forward_hook(Quantizer())
    layer.register_forward_pre_hook(Quantizer().method)

    assert config_in_graph(layer) == {
        "forward pre-hooks": f"[{__name__}.Quantizer.method]",
        "forward hooks": f"[{__name__}.scales, {__name__}.Quantizer]",
    }


def test_hooks_of_torch_that_prepare_parameters_are_no_part_of_it():
    layer = prune.l1_unstructured(nn.Linear(2, 2), "weight", amount=1)

    assert not any("hooks" in name for name in config_in_graph(layer))


def test_a_forward_that_one_module_got_is_part_of_its_configuration():
    layer = nn.ReLU()
    layer.forward = scales

    assert config_in_graph(layer) == {"patched forward": f"{__name__}.scales"}


class Hidden:
    """A key of no plain kind."""


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


def test_data_that_is_nested_deeper_than_20_lists_or_has_keys_of_no_plain_kind_is_not_told():
    told = with_attributes(
        flat=nested(1),
        deep=nested(21),
        deeper=nested(22),
        keys={Hidden(): 1},
        pairs={(1, 2): 2},
        values={"a": Hidden()},
        data={"a": None, 1: (2.0,)},
    )

    assert {*told} == {"flat", "deep", "pairs", "data"}


def test_data_of_a_layer_that_its_constructor_did_not_check_is_told():
    pool = nn.AdaptiveAvgPool2d((None, 3))
    listed = nn.AvgPool2d([2, 3], stride=(1.5, "a"))

    assert config_of(pool) == {"output_size": "(None, 3)"}
    assert (config_of(listed)["kernel_size"], config_of(listed)["stride"]) == ("[2, 3]", '(1.5, "a")')


def made_in(module):
    """Return a module whose class torch could have there, with a setting, two parts, a tensor and a lost parameter."""

    def __init__(self, weight=None, scale=1.0, lost=2, inner=None):
        nn.Module.__init__(self)
        self.weight, self.inner = nn.Parameter(torch.ones(1)), nn.ReLU()
        self.scale, self.zero_point, self.other = 2.0, 3, 4

    return type("Future", (nn.Module,), {"__init__": __init__, "__module__": module})()


def test_a_class_of_torch_says_its_parameters_and_one_that_quantizes_its_scales_too():
    assert config_of(made_in("torch.nn.modules.future")) == {"scale": "2.0"}
    assert config_of(made_in("torch.ao.nn.future")) == {"scale": "2.0", "zero_point": "3"}

"""The facts of the table, checked by running the operators."""

from __future__ import annotations

import ast
import builtins
import contextlib
import itertools
import operator
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._functorch import eager_transforms

import fxcore
from fxcore.operators import generate
from fxcore.operators.effects import effects_of
from fxcore.operators.table import (
    facts_of_name,
    facts_of_operator,
    inplace_argument,
    name_of_function,
    names_mutation,
    operator_table,
)

BY_HAND = generate.facts_by_hand()
SHAPES = [(2, 3), (3, 3), (4,), (2, 3, 4), (2, 3, 4, 4), (1, 2, 3, 4, 4), (), (1, 3, 3)]
DTYPES = [torch.float32, torch.int64, torch.bool, torch.complex64]
# Reads memory that is not there when some of its optional arguments are missing.
CRASHES = {"native_batch_norm"}


def storages(value: Any) -> set[int]:
    if isinstance(value, torch.Tensor):
        return {value.untyped_storage().data_ptr()} - {0} if value.layout is torch.strided else set()
    return set().union(*map(storages, value)) if isinstance(value, (list, tuple)) else set()


def example(kind: str, shape: tuple[int, ...], dtype: torch.dtype, number: int) -> Any:
    """Make an argument of a type that a schema names; `number` is every number in the call, 0 and 1 included."""
    is_square = len(shape) > 1 and shape[-1] == shape[-2]
    tensor = torch.eye(shape[-1]).expand(shape) if is_square else torch.zeros(shape)
    tensor = tensor.to(dtype, copy=True).contiguous()
    sizes = {0: [0], 1: [1] * max(len(shape), 1), 2: list(shape), 3: [1, 1]}[number]
    values = {
        "Tensor": tensor,
        "List[Tensor]": [tensor],
        "List[Optional[Tensor]]": [torch.zeros(shape, dtype=torch.int64)],
        **dict.fromkeys(("int", "SymInt", "number", "Scalar"), number),
        **dict.fromkeys(("List[int]", "List[SymInt]"), sizes),
        "float": float(number),
        "bool": bool(number),
        "Device": torch.device("cpu"),
        "str": "mean",
    }
    return values.get(kind)


def calls(overload: Any) -> Iterator[tuple[list[Any], Any]]:
    """Call an operator in ways that it accepts, those included that leave nothing to do."""
    for number in range(4):
        for dtype, shape in itertools.product(DTYPES if number == 0 else DTYPES[:2], SHAPES):
            required = [each for each in overload._schema.arguments if not each.has_default_value()]
            values = {each.name: example(str(each.type), shape, dtype, number) for each in required}
            positional = [values[each.name] for each in required if not each.kwarg_only]
            keywords = {each.name: values[each.name] for each in required if each.kwarg_only}
            try:
                result = overload(*positional, **keywords)
            except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError):
                continue
            yield [*values.values()], result
            break


@pytest.mark.skipif(
    torch.__version__.partition("+")[0] != generate.TORCH_VERSION, reason="other torches crash on other arguments"
)
@pytest.mark.filterwarnings("ignore")
def test_no_operator_that_is_non_aliasing_returns_storage_that_it_was_given():
    overloads = generate.callable_overloads(tuple(BY_HAND["internal"]))
    names = [name for name, facts in operator_table().items() if "non_aliasing" in facts and name in overloads]
    ran, sharing = set(), set()
    for name in [name for name in names if name not in CRASHES]:
        for given, result in itertools.chain.from_iterable(map(calls, overloads[name])):
            ran.add(name)
            if storages(result) & storages(given):
                sharing.add(name)

    assert not sharing
    assert len(ran) > 0.8 * len(names)


x, y = torch.rand(2, 4, 4), torch.rand(2, 4, 4)
image, volume = torch.rand(1, 2, 4, 4), torch.rand(1, 2, 4, 4, 4)
labels = torch.zeros(2, 4, dtype=torch.int64)
WINDOWS = [name.rpartition(".")[2] for name in BY_HAND["non_aliasing"] if name.startswith("torch.signal.windows.")]


def window(name):
    further = {"general_cosine": {"a": [0.5, 0.5]}, "general_hamming": {"alpha": 0.5}}
    return getattr(torch.signal.windows, name)(3, **further.get(name, {}))


WRITTEN_IN_PYTHON = {
    "batch_norm": lambda: (x, F.batch_norm(x, None, None, training=True)),
    "cross_entropy": lambda: (x, F.cross_entropy(x, labels, reduction="none")),
    "grid_sample": lambda: (image, F.grid_sample(image, torch.zeros(1, 4, 4, 2), align_corners=True)),
    "gumbel_softmax": lambda: (x, F.gumbel_softmax(x)),
    "gumbel_softmax of one": lambda: (x, F.gumbel_softmax(x, hard=True, dim=0)),
    "interpolate": lambda: (image, F.interpolate(image, size=(4, 4))),
    "interpolate by 1": lambda: (image, F.interpolate(image, scale_factor=1.0, mode="bilinear")),
    "interpolate area": lambda: (image, F.interpolate(image, size=(4, 4), mode="area")),
    "interpolate a volume": lambda: (volume, F.interpolate(volume, size=(4, 4, 4), mode="trilinear")),
    "upsample": lambda: (image, F.upsample(image, size=(4, 4))),
    "local_response_norm": lambda: (image, F.local_response_norm(image, 1)),
    "logsigmoid": lambda: (x, F.logsigmoid(x)),
    "new_tensor": lambda: (x, x.new_tensor(x)),
    "normalize": lambda: (x, F.normalize(x)),
    "softmin": lambda: (x, F.softmin(x, 0)),
    "softsign": lambda: (x, F.softsign(x)),
    "tanhshrink": lambda: (x, F.tanhshrink(x)),
    "tensor": lambda: (x, torch.tensor(x)),
    "unique": lambda: (labels, torch.unique(labels)),
    "unique of one": lambda: (x[:1, :1, :1], torch.unique(x[:1, :1, :1])),
    "fft": lambda: (x, torch.fft.fft(x)),
    "pad by nothing": lambda: (x, F.pad(x, (0, 0))),
    "pad by reflection": lambda: (x, F.pad(x, (0, 0), mode="reflect")),
    "pad in a circle": lambda: (x, F.pad(x, (0, 0), mode="circular")),
    "adaptive_avg_pool2d": lambda: (image, F.adaptive_avg_pool2d(image, 4)),
    "adaptive_max_pool2d": lambda: (image, F.adaptive_max_pool2d(image, 4)),
    "max_pool2d": lambda: (image, F.max_pool2d(image, 1)),
    "native_batch_norm": lambda: (x, torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)),
    "data_ptr": lambda: (x, x.data_ptr()),
    "element_size": lambda: (x, x.element_size()),
    "ndimension": lambda: (x, x.ndimension()),
    "tolist": lambda: (x, x.tolist()),
    "nelement": lambda: (x, x.nelement()),
    "is_shared": lambda: (x, x.is_shared()),
    "affine_grid": lambda: (x, F.affine_grid(x[:, :2, :3], (2, 1, 1, 1), align_corners=False)),
    "fold": lambda: (x, F.fold(x, (2, 2), 1)),
    "torch.nn.functional.unfold": lambda: (image, F.unfold(image, 1)),
    "gaussian_nll_loss": lambda: (x, F.gaussian_nll_loss(x, y, torch.ones_like(x), reduction="none")),
    "lp_pool1d": lambda: (x, F.lp_pool1d(x, 1.0, 1)),
    "lp_pool2d": lambda: (image, F.lp_pool2d(image, 1.0, 1)),
    "lp_pool3d": lambda: (volume, F.lp_pool3d(volume, 1.0, 1)),
    "max_unpool1d": lambda: (x, F.max_unpool1d(x, torch.zeros_like(x, dtype=torch.int64), 1)),
    "multi_head_attention_forward": lambda: (x, nn.MultiheadAttention(4, 1)(x, x, x)),
    "multilabel_soft_margin_loss": lambda: (x, F.multilabel_soft_margin_loss(x, y, reduction="none")),
    "triplet_margin_with_distance_loss": lambda: (x, F.triplet_margin_with_distance_loss(x, y, x, reduction="none")),
    "upsample_bilinear": lambda: (image, F.upsample_bilinear(image, size=(4, 4))),
    "upsample_nearest": lambda: (image, F.upsample_nearest(image, size=(4, 4))),
    **{f"torch.signal.windows.{name}": lambda name=name: (x, window(name)) for name in WINDOWS},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WRITTEN_IN_PYTHON)
def test_no_function_written_in_python_that_is_non_aliasing_returns_storage_that_it_was_given(name):
    given, result = WRITTEN_IN_PYTHON[name]()

    assert "non_aliasing" in facts_of_name(name.split()[0])
    assert not storages(given) & storages(result)


def test_all_functions_written_in_python_have_an_example():
    by_name = {name for name in BY_HAND["non_aliasing"] if "." not in name}

    assert by_name <= {name.split()[0] for name in WRITTEN_IN_PYTHON}


MODULE_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    **{f"{kind}{n}d": (2, 2, 1) for kind in ("Conv", "ConvTranspose") for n in (1, 2, 3)},
    **{f"{kind}Norm{n}d": (2,) for kind in ("Batch", "Instance") for n in (1, 2, 3)},
    **{f"{kind}Pool{n}d": (1,) for kind in ("Max", "Avg", "AdaptiveAvg", "AdaptiveMax") for n in (1, 2, 3)},
    "Linear": (4, 4),
    "Bilinear": (4, 4, 4),
    "Embedding": (3, 2),
    "EmbeddingBag": (3, 2),
    "LayerNorm": (4,),
    "GroupNorm": (2, 2),
    "RMSNorm": (4,),
    "LocalResponseNorm": (1,),
    "CrossMapLRN2d": (1,),
    "SyncBatchNorm": (2,),
    "Threshold": (-1.0, 0.0),
    "LPPool1d": (2, 1),
    "LPPool2d": (2, 1),
    "LPPool3d": (2, 1),
    **{f"{kind}Pad{n}d": (0,) for kind in ("Circular", "Reflection", "Replication", "Zero") for n in (1, 2, 3)},
    **{f"ConstantPad{n}d": (0, 1.0) for n in (1, 2, 3)},
    "Fold": ((2, 2), 1),
    "Unfold": (1,),
    **{f"MaxUnpool{n}d": (1,) for n in (1, 2, 3)},
    **dict.fromkeys(("GRUCell", "LSTMCell", "RNNCell"), (4, 4)),
    "MultiheadAttention": (4, 1),
    **dict.fromkeys(("Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d"), (None, 1)),
}


# Of modules that take none of the arguments that others take.
sign = torch.ones(2)
MODULE_INPUTS: dict[str, tuple[Any, ...]] = {
    "CTCLoss": (torch.rand(4, 2, 4), labels + 1, torch.tensor([4, 4]), torch.tensor([4, 4])),
    "CosineEmbeddingLoss": (x[0, :2], y[0, :2], sign),
    "GaussianNLLLoss": (x, y, torch.ones_like(x)),
    "MarginRankingLoss": (x[0, 0, :2], y[0, 0, :2], sign),
    "MultiLabelMarginLoss": (x[0], labels[:1].expand(4, 4)),
    "MultiMarginLoss": (x[0], labels[0]),
    "TripletMarginLoss": (x, y, x),
    "TripletMarginWithDistanceLoss": (x, y, x),
    "MultiheadAttention": (x, x, x),
    "Fold": (x[:, :, :4],),
    **{
        f"MaxUnpool{n}d": (each, torch.zeros_like(each, dtype=torch.int64))
        for n, each in ((1, x), (2, image), (3, volume))
    },
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", sorted(name for name in BY_HAND["non_aliasing"] if re.fullmatch(r"torch\.nn\.\w+", name))
)
def test_no_module_that_is_non_aliasing_returns_storage_that_it_was_given(name):
    kind = name.removeprefix("torch.nn.")
    module = getattr(nn, kind)(*MODULE_ARGUMENTS.get(kind, ())).eval()
    ran = False
    alone = (x, image[:, :, 0], image, volume, labels)
    several = ((x, y), (x, labels), (x[0], labels[:, 0]), (x[0],), MODULE_INPUTS.get(kind, ()))
    for given in (*((each,) for each in alone), *several):
        try:
            result = module(*given)
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AssertionError):
            continue
        ran = True
        assert not storages(result) & storages([*given, *module.parameters()])
    assert ran


SHARING = {
    "einsum": lambda: (x, torch.einsum("abc->acb", x)),
    "meshgrid": lambda: (x[0, 0], torch.meshgrid(x[0, 0], x[0, 0], indexing="ij")),
    "broadcast_tensors": lambda: (x, torch.broadcast_tensors(x, y)),
    "type_as": lambda: (x, x.type_as(y)),
    "to_dense": lambda: (x, x.to_dense()),
    "dequantize": lambda: (x, x.dequantize()),
    "sum_to_size": lambda: (x, x.sum_to_size(2, 4, 4)),
    "unsafe_split": lambda: (x, torch.unsafe_split(x, 1)),
    "unsafe_split_with_sizes": lambda: (x, torch.unsafe_split_with_sizes(x, [1, 1])),
    "dropout": lambda: (x, F.dropout(x, training=False)),
    "contiguous": lambda: (x, x.contiguous()),
    "flatten": lambda: (x, torch.flatten(x)),
    "conj_physical": lambda: (x, torch.conj_physical(x)),
    "atleast_1d": lambda: (x, torch.atleast_1d(x)),
}


@pytest.mark.parametrize("name", SHARING)
def test_what_may_return_its_argument_is_not_called_non_aliasing_whatever_its_schema_says(name):
    given, result = SHARING[name]()

    assert storages(given) & storages(result)
    assert "non_aliasing" not in facts_of_name(name)


VIEW_ARGUMENTS: tuple[tuple[Any, ...], ...] = (
    (),
    (0,),
    (0, 1),
    (0, 0, 1),
    (1, 0),
    ([1, 1],),
    (1, (2, 2)),
    ((2, 4, 4),),
    ((1, 2, 0),),
    ((2, 4, 4), (1, 4, 4)),
    (y,),
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in BY_HAND["view"] if "." not in name])
def test_a_view_shares_storage_with_its_first_argument_only(name):
    method = getattr(torch.Tensor, name, None)
    view = method if callable(method) else getattr(torch, name)
    complex_numbers = torch.zeros(2, 2, dtype=torch.complex64)
    shared = set()
    for tensor, arguments in itertools.product((x, x[0], x[:1], x[..., :2], complex_numbers), VIEW_ARGUMENTS):
        with contextlib.suppress(RuntimeError, TypeError, IndexError, ValueError):
            result = view(tensor, *arguments)
            shared.add(bool(storages(tensor) & storages(result)))
            assert not storages(y) & storages(result)

    assert True in shared


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("name", [name for name in BY_HAND["quantizes"] if "." not in name])
def test_what_quantizes_gives_a_quantized_tensor_and_dequantize_a_new_one(name):
    further = {
        "quantize_per_tensor": (0.1, 0, torch.qint8),
        "quantize_per_channel": (torch.ones(4), torch.zeros(4, dtype=torch.int64), 0, torch.qint8),
        "quantize_per_tensor_dynamic": (torch.qint8, False),
    }
    quantized = getattr(torch, name)(x[0], *further[name])

    assert quantized.is_quantized
    assert not storages(quantized) & storages(x)
    assert not storages(quantized) & storages(quantized.dequantize())


def test_operators_of_torch_ops_are_known_by_their_schema_and_those_of_aten_by_name():
    aten = torch.ops.aten

    assert "non_aliasing" in facts_of_operator(aten.mul.Tensor)
    assert "non_aliasing" in facts_of_operator(aten.relu)
    assert "non_aliasing" not in facts_of_operator(aten.dequantize.self)
    assert "non_aliasing" not in facts_of_operator(aten.view.default)
    assert "non_aliasing" not in facts_of_operator(aten.detach)
    assert "non_aliasing" in facts_of_operator(torch.ops.quantized.linear)
    assert "non_aliasing" in facts_of_operator(torch.ops.quantized.add.default)
    assert "non_aliasing" not in facts_of_operator(torch.ops.quantized.add)  # one overload writes a third argument
    assert "non_aliasing" in facts_of_operator(torch.ops.prims.sin.default)
    assert "non_aliasing" not in facts_of_operator(torch.ops.prims.transpose.default)


INPLACE_ARGUMENTS: tuple[tuple[Any, ...], ...] = ((), (x,), (2,), (1, 1), (0, torch.zeros(1, dtype=torch.int64), 3.0))


@pytest.mark.filterwarnings("ignore")
def test_methods_whose_names_say_so_write_their_tensor():
    names = [name for name in dir(torch.Tensor) if names_mutation(name) and not name.startswith("_")]
    no_writes = {"requires_grad_", "rename_", "share_memory_", "apply_", "map_", "map2_", "retain_grad_"}
    ran, silent = 0, []
    for name, arguments in itertools.product(sorted({*names} - no_writes), INPLACE_ARGUMENTS):
        tensor = torch.rand(2, 4, 4)
        version = tensor._version
        try:
            getattr(tensor, name)(*arguments)
        except (RuntimeError, TypeError, IndexError, ValueError):
            continue
        ran += 1
        if tensor._version == version:
            silent.append(name)

    assert set(silent) <= {"resize_", "resize_as_", "detach_", "coalesce_"}
    assert ran > 100


CHANGED_BY_CALLS = {
    "append": ([], (1,)),
    "extend": ([], ([1],)),
    "insert": ([], (0, 1)),
    "pop": ([1], ()),
    "popitem": ({1: 1}, ()),
    "remove": ([1], (1,)),
    "clear": ([1], ()),
    "reverse": ([1, 2], ()),
    "update": ({}, ({1: 1},)),
    "setdefault": ({}, (1, 1)),
    "discard": ({1}, (1,)),
    "operator.setitem": ([1], (0, 2)),
    "operator.delitem": ([1], (0,)),
    "operator.iconcat": ([1], ([2],)),
}


@pytest.mark.parametrize("name", CHANGED_BY_CALLS)
def test_what_mutates_changes_its_first_argument(name):
    thing, arguments = CHANGED_BY_CALLS[name]
    before = repr(thing)

    if name.startswith("operator."):
        getattr(operator, name.partition(".")[2])(thing, *arguments)
    else:
        getattr(thing, name)(*arguments)

    assert "mutates" in facts_of_name(name)
    assert repr(thing) != before


@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"])
def test_operators_that_python_writes_with_an_equals_sign_write_their_tensor(name):
    tensor = torch.ones(2)

    getattr(operator, name)(tensor, 2)

    assert tensor._version == 1
    assert "mutates" in facts_of_name(f"operator.{name}")
    assert "mutates" in facts_of_name(f"__{name}__")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(BY_HAND["commutative"]))
def test_operands_of_what_is_commutative_may_change_places(name):
    module, _, short = name.rpartition(".")
    function = getattr(operator if module == "operator" else torch, short)
    integers = torch.tensor([3, 4, 6]), torch.tensor([2, 4, 9])
    floats = torch.tensor([0.1, 2.0, 3.0]), torch.tensor([3.0, 2.0, -1.0])
    for one, other in (integers, floats):
        try:
            expected = function(one, other)
        except (RuntimeError, TypeError):
            continue
        assert torch.equal(expected, function(other, one))


def test_every_name_written_by_hand_is_one_of_torch_or_python():
    of_torch = [
        torch,
        torch.autograd.forward_ad,
        eager_transforms,
        torch.Tensor,
        F,
        torch.fft,
        torch.autograd.grad_mode,
        torch.amp.autocast_mode,
        nn.init,
        torch._C,
    ]
    owners = {"": [*of_torch, torch._C._nn, list, dict, set], "operator": [operator], "builtins": [builtins]}
    names = {name for fact, names in BY_HAND.items() if fact != "internal" for name in names}

    for module, _, name in (name.rpartition(".") for name in names):
        if module in owners and not name.startswith("__"):
            assert any(hasattr(owner, name) for owner in owners[module]), name


def test_norms_write_their_statistics_where_their_own_signature_has_them():
    mean, variance = torch.zeros(4), torch.ones(4)
    torch.batch_norm(x, None, None, mean, variance, True, 0.1, 1e-5, False)
    assert mean.any()

    (places, condition) = facts_of_name("torch.batch_norm")["writes_if"]
    assert places == [[3, "running_mean"], [4, "running_var"]]
    assert condition == [5, ["training"], False]
    assert facts_of_name("torch.nn.functional.batch_norm")["writes_if"][0] == [[1, "running_mean"], [2, "running_var"]]
    assert facts_of_name("torch.instance_norm")["writes_if"][0] == places


def test_layers_of_recurrent_networks_draw_random_numbers_for_their_dropout():
    weights = [torch.rand(*shape) for shape in ((4, 2), (4, 4), (4,), (4,), (4, 4), (4, 4), (4,), (4,))]

    def run():
        return torch.rnn_tanh(torch.ones(3, 1, 2), torch.zeros(2, 1, 4), weights, True, 2, 0.5, True, False, False)[0]

    assert not torch.equal(run(), run())
    assert "random" in facts_of_name("torch.rnn_tanh")


def facts_of_function(function: Any) -> Any:
    return effects_of("call_function", function).facts


def test_a_function_is_known_by_the_name_that_it_carries():
    assert facts_of_function(torch.linalg.inv) == facts_of_name("torch.linalg.inv") == {"non_aliasing": True}
    assert "non_aliasing" in facts_of_function(operator.add)
    assert facts_of_function(F.relu)["parameters"] == {"input": None, "inplace": "False"}
    assert facts_of_function(torch.relu)["parameters"] == {"input": None}
    assert facts_of_function(print) == {"side_effect": True}
    assert "random" in facts_of_function(nn.init.normal_)
    assert "non_aliasing" not in facts_of_function(nn.init.eye_)


def test_nothing_is_known_of_functions_of_the_user():
    def add(x):
        return x

    assert facts_of_function(add) == {}
    assert facts_of_function(object()) == {}
    assert facts_of_name("mine.add") == {}


def test_the_argument_that_makes_a_function_work_in_place_is_found():
    assert inplace_argument(F.relu) == (1, "inplace")
    assert inplace_argument(F.hardtanh) == (3, "inplace")
    assert inplace_argument(F.softmax) is None
    assert inplace_argument(torch.relu) is None


def names_in_frozensets(path):
    """Yield the texts in each frozenset of a file that is written out."""
    for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "frozenset":
            yield [each.value for each in ast.walk(call) if isinstance(each, ast.Constant) and type(each.value) is str]


def test_no_file_lists_facts_about_operators_beside_the_table():
    known = {name.rpartition(".")[2] for name in operator_table()}
    folder = Path(fxcore.__file__).parent
    files = [file for part in ("guard_checks", "guided", "node_data", "nodes") for file in (folder / part).glob("*.py")]
    lists = {(file.name, names[0]): names for file in files for names in names_in_frozensets(file) if names}
    # Functions that give a truth; the generated checks ask about the spelling, not about the operator.
    del lists["check_code.py", "bool"]

    assert len(files) > 40
    assert {place for place, names in lists.items() if len(known.intersection(names)) > 5} == set()


def test_an_old_name_of_an_initialiser_has_the_facts_of_the_new_one():
    assert facts_of_name("torch.nn.init.normal") == facts_of_name("torch.nn.init.normal_") != {}


def test_a_collective_names_its_group_and_a_wait_is_none():
    native = torch.ops._c10d_functional

    assert facts_of_operator(native.wait_tensor.default) == facts_of_operator(native.wait_tensor) == {"waits": True}
    assert facts_of_operator(native.all_reduce.default)["collective"]
    assert facts_of_operator(native.all_reduce)["collective"]
    assert "collective" not in facts_of_operator(torch.ops.prims.sin.default)


def test_the_name_of_a_function_is_its_module_s_and_its_own():
    def unnamed():
        return None

    assert name_of_function(torch.relu) == "torch.relu"
    assert name_of_function(operator.add) == "operator.add"
    assert name_of_function(torch.Tensor.add_) == "torch.Tensor.add_"
    unnamed.__module__ = None
    assert name_of_function(unnamed) == ""
    assert name_of_function(3) == ""
    named = type("Named", (), {"__name__": 3})()
    assert name_of_function(named) == ""

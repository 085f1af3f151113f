from __future__ import annotations

import pytest
import torch
from torch import nn

from fixtures.process_groups import fake_group, needs_fake_group
from fixtures.quantized_tensors import Activations, BlockedTensor, with_blocked_weights, with_wrapped_weights
from pytest_fxgraph.document.argument_texts import ArgumentTexts
from pytest_fxgraph.document.tensor_forms import form_text


def weight_of(model: nn.Module) -> torch.Tensor:
    return next(model.parameters())


def model() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Linear(8, 4)


def form(tensor: torch.Tensor) -> str:
    return form_text(tensor, ArgumentTexts(None).text)


@pytest.mark.parametrize(
    "tensor",
    [torch.zeros(2), nn.Parameter(torch.zeros(2)), torch.zeros(2, device="meta"), torch.zeros(2).to_sparse()],
    ids=["tensor", "parameter", "meta", "sparse"],
)
def test_an_ordinary_tensor_has_no_form(tensor):
    assert form(tensor) == ""


def test_a_fake_tensor_has_the_form_of_its_tensor():
    with torch._subclasses.fake_tensor.FakeTensorMode() as mode:
        assert form(torch.zeros(2)) == ""
        assert form(mode.from_tensor(torch.zeros(2))) == ""


@pytest.mark.parametrize(
    ("quantized", "words"),
    [
        (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), " per tensor, symmetric"),
        (lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.quint8), " per tensor"),
        (
            lambda x: torch.quantize_per_channel(x, torch.ones(4), torch.zeros(4), 1, torch.qint8),
            " per channel, axis 1, symmetric",
        ),
        (
            lambda x: torch.quantize_per_channel(x, torch.ones(2), torch.tensor([0, 1]), 0, torch.quint8),
            " per channel, axis 0",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:torch.quantize_per")
def test_a_tensor_that_torch_quantized_says_how(quantized, words):
    assert form(quantized(torch.rand(2, 4))) == words


def test_a_wrapping_tensor_says_its_class_its_parts_and_its_attributes():
    weight = weight_of(with_blocked_weights(model(), activations=Activations(per_row=False)))

    assert form(weight) == (
        " as int8 per channel, axis 0, symmetric: fixtures.quantized_tensors.BlockedTensor(whole=int8[4, 8], "
        "scale=float32[4, 1], zero_point=int8[4, 1], block_size=[1, 8], "
        "activations=fixtures.quantized_tensors.Activations(per_row=False))"
    )


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (with_wrapped_weights, "int8 per tensor: "),
        (with_blocked_weights, "int8 per channel, axis 0, symmetric: "),
        (lambda each: with_blocked_weights(each, group=2), "int8 in groups of 2, axis 1, symmetric: "),
        (lambda each: with_blocked_weights(each, offset=1), "int8 per channel, axis 0: "),
    ],
)
def test_words_come_before_the_class(made, words):
    assert form(weight_of(made(model()))).startswith(f" as {words}fixtures.quantized_tensors.")


def test_numbers_in_less_than_a_byte_are_counted_in_bits():
    weight = weight_of(with_blocked_weights(model()))
    packed = BlockedTensor(weight.whole, weight.scale, weight.zero_point, [1, 8])
    packed.whole = weight.whole[:, ::2].contiguous()

    assert form(packed).startswith(" as 4 bits in int8 per channel, axis 0, symmetric: ")


class Kept(nn.Parameter):
    """A parameter with a setting, and without tensors inside."""


def test_the_plain_attributes_of_a_parameter_of_its_own_class_count():
    plain, four = Kept(torch.zeros(2)), Kept(torch.zeros(2))
    four.kind, four._cache = "nf4", 3

    assert form(plain) == ""
    assert form(four) == f' as {Kept.__module__}.Kept(kind="nf4")'


@needs_fake_group
def test_a_distributed_tensor_says_its_mesh_and_placements():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    with fake_group(0, size=4):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        forms = [form(distribute_tensor(torch.ones(4, 4), mesh, placed)) for placed in
                 ([Replicate(), Shard(0)], [Replicate(), Shard(1)])]  # fmt: skip

    assert forms[0].startswith(" as torch.distributed.tensor.DTensor(mesh=[[0, 1], [2, 3]], ")
    assert forms[0].endswith('names=("dp", "tp"), placements=["R", "S(0)"])')
    assert forms[1].endswith('placements=["R", "S(1)"])')


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((4, 1), "int8 per channel, axis 0, symmetric: "),
        ((2, 2), "int8 in groups of 8, axis 1, symmetric: "),
        ((2,), "int8 in groups of 16, axis 0, symmetric: "),
        ((), "int8 per tensor, symmetric: "),
        ((3, 2), "int8, symmetric: "),
        ((4, 1, 1), "int8, symmetric: "),
    ],
)
def test_blocks_that_the_class_does_not_name_follow_from_the_scales(shape, words):
    weight = weight_of(with_blocked_weights(model()))
    made = BlockedTensor(weight.whole, torch.ones(shape), weight.zero_point, None)

    assert form(made).startswith(f" as {words}fixtures.quantized_tensors.")


class NarrowTensor(BlockedTensor):
    def __tensor_flatten__(self):
        return ["whole"], {"target": self.target, "kept": Kept}


def test_the_narrow_type_that_a_class_names_is_told_and_blocks_need_a_scale():
    weight = weight_of(with_blocked_weights(model()))
    made = NarrowTensor(weight.whole, weight.scale, weight.zero_point, None)
    made.target = torch.uint4

    assert form(made) == (
        f" as uint4 in int8: {NarrowTensor.__module__}.NarrowTensor(whole=int8[4, 8], target=torch.uint4, "
        f"kept={Kept.__module__}.Kept)"
    )


def test_an_attribute_without_a_text_is_told_by_its_class():
    made = Kept(torch.zeros(2))
    made.setting = object()

    assert form(made) == f" as {Kept.__module__}.Kept(setting=builtins.object)"


class Unknown(torch.Tensor):
    """A quantized tensor whose class does not answer how."""

    @staticmethod
    def __new__(cls):
        return torch.Tensor._make_wrapper_subclass(cls, (2,), dtype=torch.qint8)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise NotImplementedError(function)


def test_a_quantized_tensor_that_does_not_know_its_scheme_has_no_words_for_it():
    assert Unknown().is_quantized
    assert form(Unknown()) == ""


@pytest.mark.parametrize(
    ("whole", "dtype", "words"),
    [
        (torch.ones(4, 8, dtype=torch.int8), torch.float32, "int8 per channel, axis 0, symmetric: "),
        (torch.ones(4, 8, dtype=torch.int8), torch.float16, "int8 per channel, axis 0, symmetric: "),
        (torch.ones(4, 8, dtype=torch.int8), torch.int8, ""),
        (torch.ones(4, 8, dtype=torch.bool), torch.float32, ""),
        (torch.ones(4, 8, dtype=torch.int16), torch.float32, ""),
        (torch.ones(0, 8, dtype=torch.int8), torch.float32, ""),
    ],
)
def test_a_tensor_with_a_part_of_small_numbers_is_told_by_it(whole, dtype, words):
    made = BlockedTensor(whole, torch.ones(4, 1, dtype=dtype), torch.zeros(4, 1), [1, 8])

    assert form(made).startswith(f" as {words}fixtures.quantized_tensors.BlockedTensor(")


@pytest.mark.parametrize(
    ("block_size", "words"),
    [
        ([2, 8], "int8 in groups of 16, axis 0: "),
        ((1, 8), "int8 per channel, axis 0: "),
        ([2], "int8 per channel, axis 0: "),
        ("28", "int8 per channel, axis 0: "),
    ],
)
def test_the_blocks_that_a_class_names_count_before_the_scales(block_size, words):
    made = BlockedTensor(torch.ones(4, 8, dtype=torch.int8), torch.ones(4, 1), torch.ones(4, 1), block_size)

    assert form(made).startswith(f" as {words}fixtures.quantized_tensors.BlockedTensor(")

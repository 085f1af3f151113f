from __future__ import annotations

import dataclasses
import math
import struct

import pytest
import torch
from torch import nn
from torch.export import Dim, export
from torch.fx.experimental.proxy_tensor import make_fx

from fxcore import Graph, GraphModule
from fxcore.passes.shape_prop import ShapeProp
from pytest_fxgraph.captures.shapes import shapes_recorded
from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.tensor_texts import (
    computed_text,
    constant_text,
    digest,
    inline_tensor_text,
    known_text_and_bytes,
    tensor_text,
    text_and_bytes,
    value_of,
)


def test_dtypes_have_one_name():
    assert tensor_text(torch.zeros(2, 3, dtype=torch.float)) == "float32[2, 3]"
    assert tensor_text(torch.zeros((), dtype=torch.long)) == "int64[]"
    assert tensor_text(torch.zeros(1, dtype=torch.half)) == "float16[1]"


@pytest.mark.parametrize("key", ["tensor_meta", "val", "example_value"])
def test_a_value_is_found_wherever_a_frontend_leaves_it(key):
    assert value_of({key: torch.zeros(2), "other": 1}) == "float32[2]"


def test_nested_values_keep_their_structure():
    x = torch.zeros(2)

    text = value_of({"val": ((x,), [x, None], {"k": x, 1: 3}, torch.finfo(torch.float32))})

    assert text == '((float32[2],), [float32[2], None], {"k": float32[2], 1: int}, finfo)'


def test_a_node_that_nothing_is_known_of_has_no_value():
    assert value_of({"nn_module_stack": {}}) is None


@dataclasses.dataclass
class Kept:
    """No container that torch knows, so that a graph keeps what is in it."""

    value: torch.Tensor


def test_small_tensors_are_written_value_by_value():
    assert constant_text(torch.tensor([[1, -2], [3, 4]]), "exact") == "[[1, -2], [3, 4]]"
    assert constant_text(torch.tensor(True), "exact") == "True"
    assert constant_text(torch.zeros(2, 0), "exact") == "[[], []]"
    assert constant_text(torch.tensor([0.1, -0.0, math.nan, -math.inf]), "exact") == "[0.1, -0.0, nan, -inf]"
    assert constant_text(torch.tensor([1 + 2j]), "exact") == "[complex(1.0, 2.0)]"


@pytest.mark.parametrize("text", ["0.1", "0.8599797", "0.47851443", "0.122185014"])
def test_a_float_has_as_many_digits_as_its_format_needs(text):
    assert constant_text(torch.tensor([float(text)]), "exact") == f"[{text}]"


def test_a_number_of_sixteen_bits_has_four_digits_or_as_many_as_single_precision_needs():
    numbers = torch.tensor([0.1, 3.1416])

    assert constant_text(numbers.half(), "exact") == "[0.09998, 3.141]"
    assert constant_text(numbers.bfloat16(), "exact") == "[0.100097656, 3.140625]"


def test_both_parts_of_a_complex_number_are_rounded_at_level_close():
    tensor = torch.tensor([1.23456 - 2.00001j], dtype=torch.complex128)

    assert constant_text(tensor, "exact") == "[complex(1.23456, -2.00001)]"
    assert constant_text(tensor, "close") == "close([complex(1.235, -2.0)])"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_float_tensors_come_back_bit_for_bit_from_their_text(dtype):
    torch.manual_seed(0)
    edges = torch.tensor([torch.finfo(dtype).max, torch.finfo(dtype).tiny, 0.1], dtype=dtype)
    tensor = torch.cat([torch.randn(50, dtype=dtype), edges])

    text = constant_text(tensor, "exact")

    assert torch.equal(torch.tensor(eval(text, {}), dtype=dtype), tensor)


def test_one_ulp_changes_the_text():
    bits = struct.unpack("I", struct.pack("f", 0.3))[0]
    following = struct.unpack("f", struct.pack("I", bits + 1))[0]

    assert constant_text(torch.tensor([0.3]), "exact") != constant_text(torch.tensor([following]), "exact")


def test_sixty_four_values_are_written_and_sixty_five_are_summed_up():
    assert constant_text(torch.zeros(64), "exact") == f"[{', '.join(['0.0'] * 64)}]"

    text = constant_text(torch.arange(65.0), "exact")

    assert text == f"sha256={digest(torch.arange(65.0))}, min=0.0, max=64.0, mean=32.0, norm=299.1"


def test_statistics_leave_out_what_is_not_finite_and_count_it():
    tensor = torch.ones(70)
    tensor[0], tensor[1] = math.nan, math.inf

    assert constant_text(tensor, "exact").endswith(", nonfinite=2, min=1.0, max=1.0, mean=1.0, norm=8.246")


def test_the_norm_of_huge_values_does_not_overflow():
    tensor = torch.full((100,), 1e308, dtype=torch.float64)

    assert constant_text(tensor, "exact").endswith("mean=1e+308, norm=inf")
    assert constant_text(tensor / 10, "exact").endswith("mean=1e+307, norm=1e+308")


def test_a_large_integer_tensor_is_told_apart_bit_by_bit():
    tensor = torch.zeros(100, dtype=torch.int64)
    changed = tensor.clone()
    changed[57] = 1

    assert constant_text(tensor, "exact").endswith(", min=0, max=0")
    assert constant_text(tensor, "exact") != constant_text(changed, "exact")
    assert constant_text(tensor, "close") != constant_text(changed, "close")


def test_the_digest_follows_the_values_and_not_the_layout():
    tensor = torch.arange(100.0).reshape(10, 10)

    assert digest(tensor.t().contiguous().t()) == digest(tensor)
    assert digest(tensor.t()) != digest(tensor)


def test_close_forgets_the_last_digits_of_floats():
    assert constant_text(torch.tensor([1.00001, -0.0]), "close") == "close([1.0, 0.0])"
    assert constant_text(torch.tensor([1]), "close") == "[1]"
    assert "sha256" not in constant_text(torch.ones(100), "close")


def test_shape_and_tensors_without_values_have_no_content():
    assert constant_text(torch.ones(2), "shape") is None
    assert constant_text(torch.ones(2, device="meta"), "exact") is None


def test_other_layouts_and_quantized_tensors_are_described_by_what_they_hold():
    sparse = torch.tensor([0.0, 2.0]).to_sparse()

    assert constant_text(sparse, "exact") == "sparse_coo([0.0, 2.0])"
    assert constant_text(torch.tensor([1j]).conj(), "exact") == "[complex(0.0, -1.0)]"


def test_tensors_that_are_arguments_say_what_they_are():
    assert inline_tensor_text(torch.tensor([1.5]), "exact") == "tensor(float32[1], [1.5])"
    assert inline_tensor_text(torch.nn.Parameter(torch.tensor(2.0)), "shape") == "parameter(float32[])"


def test_a_tensor_that_a_functional_graph_holds_in_place_of_a_result_has_no_content():
    graph_module = make_fx(torch.func.functionalize(lambda x: Kept(torch.neg(x))))(torch.ones(2))
    (kept,) = graph_module._buffers.values()

    assert constant_text(kept, "exact") is None
    assert constant_text(kept.detach(), "exact") is None


def test_scales_of_channels_and_eight_bit_floats_are_written_as_numbers():
    scales, zero_points = torch.tensor([0.5, 0.25], dtype=torch.float64), torch.tensor([0, 1])
    quantized = torch.quantize_per_channel(torch.ones(2, 1), scales, zero_points, 0, torch.qint8)

    assert constant_text(quantized, "exact") == "scale=[0.5, 0.25], zero_point=[0, 1], [[2], [5]]"
    assert constant_text(quantized, "close") == "scale=close([0.5, 0.25]), zero_point=[0, 1], [[2], [5]]"
    assert constant_text(torch.tensor([0.5, -2.0]).to(torch.float8_e5m2), "exact") == "[0.5, -2.0]"


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_the_largest_number_of_a_format_comes_back(dtype):
    largest = torch.tensor(torch.finfo(dtype).max, dtype=dtype)

    assert torch.equal(torch.tensor(float(constant_text(largest, "exact")), dtype=dtype), largest)


def test_large_complex_tensors_and_tensors_without_finite_numbers_are_summed_up():
    numbers = torch.complex(torch.full((65,), 2.0), torch.full((65,), -1.0))

    assert "min=-1.0, max=2.0, mean=0.5" in constant_text(numbers, "exact")
    text = constant_text(torch.full((65,), math.inf), "exact")
    assert text.endswith("nonfinite=65")


def test_the_places_of_huge_numbers_are_summed_up_as_those_of_small_ones():
    numbers = torch.arange(1.0, 101.0, dtype=torch.float64)
    sketches = [constant_text(numbers * size, "close").rpartition("sketch=")[2] for size in (1.0, 1e200, 1e-200)]

    assert len(set(sketches)) == 1
    assert constant_text(numbers.flip(0), "close").rpartition("sketch=")[2] != sketches[0]


@pytest.mark.parametrize("value", [math.inf, -math.inf, 0.1, 65504.0, 3e38])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_odd_numbers_come_back_from_their_text(value, dtype):
    tensor = torch.tensor([value]).to(dtype)
    text = constant_text(tensor, "exact")

    assert torch.equal(torch.tensor(eval(text, {"inf": math.inf}), dtype=dtype), tensor)


def test_texts_of_large_tables_alone_are_kept():
    known: dict = {}
    small, large, sparse = torch.arange(64.0), torch.arange(65.0), torch.eye(9).to_sparse()

    texts = [computed_text(each, "exact", known) for each in (small, large, large.clone(), sparse)]

    assert texts == [constant_text(each, "close") for each in (small, large, large, sparse)]
    assert list(known.values()) == [constant_text(large, "close")]
    assert computed_text(large, "shape", known) is None
    assert computed_text(large.to("meta"), "exact", known) is None


IMAGES = torch.ones(2, 3, 4, 5)


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (torch.ones(2, 3), "float32[2, 3]"),
        (torch.ones(()), "float32[]"),
        (torch.ones(2, 3).t(), "float32[3, 2] strides=(1, 3)"),
        (torch.ones(6)[::2], "float32[3] strides=(2,)"),
        (torch.ones(1, 3).expand(2, 3), "float32[2, 3] strides=(0, 1)"),
        (torch.ones(2, 1, 3).transpose(0, 2), "float32[3, 1, 2] strides=(1, *, 3)"),
        (torch.ones(3, 2, 1).transpose(0, 1), "float32[2, 3, 1] strides=(1, 2, *)"),
        (torch.ones(1, 3).t(), "float32[3, 1]"),
        (torch.ones(0, 3).t(), "float32[3, 0]"),
        (IMAGES.to(memory_format=torch.channels_last), "float32[2, 3, 4, 5] channels_last"),
        (torch.ones(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d), "float32[2, 3, 4, 5, 6] channels_last_3d"),
        (nn.Parameter(torch.ones(2, 3).t()), "float32[3, 2] strides=(1, 3)"),
        (torch.eye(2).to_sparse(), "float32[2, 2]"),
    ],
)
def test_a_layout_is_written_where_a_tensor_is_not_contiguous(tensor, text):
    assert tensor_text(tensor) == text


def test_metadata_of_shape_propagation_tells_the_layout_too():
    gm = to_graph_module(lambda x: x.t())

    ShapeProp(gm).propagate(torch.ones(2, 3))

    assert [value_of(node.meta) for node in gm.graph.nodes][1] == "float32[3, 2] strides=(1, 3)"


def test_symbolic_layouts_are_written_without_guards():
    program = export(Transposed(), (torch.ones(8, 2),), dynamic_shapes=({0: Dim("rows")},), strict=False)
    (node,) = [node for node in program.graph.nodes if node.op == "call_function"]
    guards = len(node.meta["val"].fake_mode.shape_env.guards)

    _, rows = tensor_text(node.meta["val"]).split("[")[1].split("]")[0].split(", ")

    assert text_and_bytes(node.meta["val"]) == (f"float32[2, {rows}] strides=(1, 2)", 0)
    assert not rows.isdigit()
    assert len(node.meta["val"].fake_mode.shape_env.guards) == guards


class Transposed(nn.Module):
    def forward(self, x):
        return x.t()


def test_captured_values_go_before_older_notes_on_shapes_and_example_inputs_before_both():
    gm = to_graph_module(make_fx(lambda x: x.sin())(torch.ones(2)))
    (node,) = [node for node in gm.graph.nodes if node.op == "call_function"]
    node.meta["val"] = torch.ones(3, device="meta")

    assert value_of(node.meta) == "float32[3]"
    with shapes_recorded(gm, torch.ones(5)):
        assert value_of(node.meta) == "float32[5]"
    assert value_of(node.meta) == "float32[3]"


def test_inputs_outputs_and_state_tell_their_layouts_in_a_golden():
    root = nn.ModuleDict({"conv": nn.Conv2d(3, 3, 3).to(memory_format=torch.channels_last)})
    graph = Graph()
    graph.output(graph.call_module("conv", (graph.placeholder("x"),)))
    gm = GraphModule(root, graph)

    with shapes_recorded(gm, IMAGES.to(memory_format=torch.channels_last)):
        document = build_document(gm)

    assert [node.value.partition("]")[2] for node in document.nodes[:2]] == [" channels_last", " channels_last"]
    assert [record.value for record in document.state] == ["float32[3, 3, 3, 3] channels_last", "float32[3]"]


@pytest.mark.parametrize(
    ("tensor", "elements"),
    [
        (torch.ones(2, 3), 6),
        (torch.ones(()), 1),
        (torch.ones(6)[::2], 5),
        (torch.ones(1, 3).expand(2, 3), 3),
        (torch.ones(0, 3), 0),
    ],
)
def test_the_bytes_of_a_tensor_are_the_memory_between_its_first_and_last_element(tensor, elements):
    _, size = known_text_and_bytes(tensor.dtype, tensor.shape, tensor.stride())

    assert size == 4 * elements

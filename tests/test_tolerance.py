"""The program that measures the default tolerance over models."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.tolerance import measure, table_of
from benchmarks.tolerance_models import family_of


def small() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5))


def test_right_variants_pass_and_another_activation_does_not():
    image = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(1))

    found = [measure(small, (image,), is_random=is_random) for is_random in (False, True)]

    for each in found:
        assert set(each["right"]) == {"batch norm folded", "channels last", "other kernels", "in double"}
        assert not any(variant["refused"] or variant["refused_gradients"] for variant in each["right"].values())
        (wrong,) = each["wrong"]
        assert wrong["activation"] == "relu 1 of 1"
        assert wrong["effect"] > 1e-4
        assert wrong["refused"]
        assert wrong["refused_gradients"]
    assert found[0]["M"] != found[1]["M"]


def test_the_table_sums_up_families():
    right = {"in double": {"error": 1e-7, "refused": 0, "refused_gradients": 2}}
    wrong = [
        {"effect": 1e-3, "refused": 1, "refused_gradients": 0},
        {"effect": 1e-9, "refused": 0, "refused_gradients": 0},
    ]
    rows = [
        {"name": f"torchvision/{name}", "weights": "fresh", "M": size, "right": right, "wrong": wrong}
        for name, size in (("vgg11", 0.5), ("alexnet", 2.0))
    ]

    table = table_of(rows)

    assert table.rows == [
        ["alexnet, vgg, squeezenet, fresh", 2, "5e-01 to 2e+00", 1e-7, 0, 2, "2 of 4", "2 of 4", 1e-9],
    ]


def test_models_are_grouped_by_what_they_are():
    assert family_of("zoo/resnet10") == "the zoo, real models"
    assert family_of("zoo/buffer_mutated") == "the zoo, small models"
    assert family_of("torchvision/resnet50_fpn") == "segmentation, flow, backbones of detection"
    assert family_of("torchvision/vit_b_16") == "convnext, swin, vit, maxvit"
    assert family_of("pytorchcv/darts") == "pytorchcv"

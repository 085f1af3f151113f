"""The models over which the default tolerance is measured: the zoo, and those of torchvision and pytorchcv."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fixtures.catalog import CATALOG

# Of several hundred, one or two of each idea.
_PYTORCHCV = re.findall(r"\w+", """
    alexnet vgg11 bn_vgg11 resnet18 preresnet18 resnext14_16x4d seresnet18 senet16 ibn_resnet50 airnet50_1x64d_r2
    bamresnet18 cbamresnet18 resattnet56 sknet50 diaresnet18 pyramidnet101_a360 diracnet18v2 sharesnet18 densenet121
    condensenet74_c4_g4 sparsenet121 peleenet wrn50_2 drnc26 dpn68 darknet53 xdensenet121_2 vovnet27s
    hrnet_w18_small_v1 hardnet39ds selecsls42 squeezenet_v1_0 sqnxt23_w1 shufflenet_g1_w1 shufflenetv2_w1
    menet108_8x1_g3 mobilenet_w1 fdmobilenet_w1 mobilenetv2_w1 mobilenetv3_large_w1 igcv3_w1 ghostnet mnasnet_b1
    darts proxylessnas_cpu fbnet_cb xception inceptionv4 polynet nasnet_4a1056 efficientnet_b0 efficientnetv2_s_tf2
    mixnet_s regnetx002 resneta10 isqrtcovresnet50 spnasnet dla34 fishnet99 espnetv2_wd2 bisenet_resnet18
    rir_cifar10 nin_cifar10 wrn16_10_cifar10 ror3_56_cifar10 sepreresnet20_cifar10 shakeshakeresnet20_2x16d_cifar10
""")  # fmt: skip

# Models of fixed size, or too large for a small image; 96 x 96 for all others.
_SIZES = {"maxvit": 224, "vit_h_14": 98, "mvit": 224}
_LARGE_IN_PYTORCHCV = ("inceptionv4", "polynet", "xception")
# The rows of the table, by how names of torchvision begin; the first that fits counts.
_FAMILIES = {
    "resnet50_fpn|mobilenet_v3_large_fpn|fcn|deeplab|lraspp|raft": "segmentation, flow, backbones of detection",
    "r3d|mc3|r2plus1d|s3d|mvit|swin3d": "video",
    "alexnet|vgg|squeezenet": "alexnet, vgg, squeezenet",
    "resnet|resnext|wide_resnet|regnet|densenet": "resnet, resnext, regnet, densenet",
    "mobilenet|mnasnet|efficientnet": "mobilenet, mnasnet, efficientnet",
    "googlenet|inception|shufflenet": "googlenet, inception, shufflenet",
    "": "convnext, swin, vit, maxvit",
}


@dataclass(frozen=True)
class Subject:
    """One model, how it is built, and what it is called with."""

    name: str  # "torchvision/resnet18"
    build: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Any, ...]]


def subjects() -> Iterator[Subject]:
    """Yield all models, the zoo's first."""
    for entry in CATALOG.values():
        yield Subject(f"zoo/{entry.name}", entry.build, entry.example_inputs)
    yield from _of_torchvision()
    yield from _of_pytorchcv()


def _of_torchvision() -> Iterator[Subject]:
    try:
        models = importlib.import_module("torchvision.models")
    except ImportError:
        return
    kinds = (models, models.segmentation, models.video, models.optical_flow)
    for kind in kinds:
        # By their length, so that the largest of a family come late.
        for name in sorted(models.list_models(module=kind), key=lambda name: (_is_huge(name), name)):
            build, inputs = _builder(models, name), _inputs(kind, name)
            yield Subject(f"torchvision/{name}", build, inputs)
    backbones = importlib.import_module("torchvision.models.detection.backbone_utils")
    for name in ("resnet50", "mobilenet_v3_large"):
        make = backbones.mobilenet_backbone if "mobile" in name else backbones.resnet_fpn_backbone
        options = {"backbone_name": name, "weights": None, **({"fpn": True} if "mobile" in name else {})}
        yield Subject(f"torchvision/{name}_fpn", lambda make=make, options=options: make(**options), _image(96))


def _is_huge(name: str) -> bool:
    return name in ("vit_h_14", "regnet_y_128gf")


def family_of(name: str) -> str:
    """Return the row of the table that a model counts for."""
    package, _, model = name.partition("/")
    if package == "zoo":
        return "the zoo, real models" if CATALOG[model].is_real else "the zoo, small models"
    if package == "torchvision":
        return next(family for start, family in _FAMILIES.items() if re.match(start, model))
    return package


def _builder(models: Any, name: str) -> Callable[[], nn.Module]:
    options: dict[str, Any] = {"weights": None}
    if name in ("googlenet", "inception_v3"):
        options["init_weights"] = False  # initialising takes a minute
    if name.startswith("vit_"):
        options["image_size"] = _size(name)
    if name in ("fcn_resnet50", "fcn_resnet101") or name.startswith(("deeplab", "lraspp")):
        options["weights_backbone"] = None
    return lambda: models.get_model(name, **options)  # type: ignore[no-any-return]


def _inputs(kind: Any, name: str) -> Callable[[], tuple[Any, ...]]:
    if kind.__name__.endswith("video"):
        frames = {"mvit": 16, "s3d": 16}.get(name.split("_")[0], 8)
        return lambda: (_drawn(1, 3, frames, _size(name), _size(name)),)
    if kind.__name__.endswith("optical_flow"):
        return lambda: (_drawn(1, 3, 128, 128), _drawn(1, 3, 128, 128, seed=2))
    return _image(_size(name))


def _of_pytorchcv() -> Iterator[Subject]:
    try:
        provider = importlib.import_module("pytorchcv.model_provider")
    except ImportError:
        return
    for name in _PYTORCHCV:
        # They pool over windows of fixed size.
        size = 32 if name.endswith("cifar10") else 299 if name in _LARGE_IN_PYTORCHCV else 224
        yield Subject(f"pytorchcv/{name}", lambda name=name: provider.get_model(name), _image(size))


def _size(name: str) -> int:
    return next((size for start, size in _SIZES.items() if name.startswith(start)), 96)


def _image(size: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: (_drawn(1, 3, size, size),)


def _drawn(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))

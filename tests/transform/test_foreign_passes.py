"""Passes that other people wrote, for torch.fx and for exported programs, run unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn
from torch._export.passes.functionalize_side_effectful_ops_pass import _FunctionalizeSideEffectfulOpsPass
from torch._export.passes.remove_runtime_assertions import _RemoveRuntimeAssertionsPass
from torch._export.passes.replace_view_ops_with_view_copy_ops_pass import ReplaceViewOpsWithViewCopyOpsPass
from torch._inductor.constant_folding import constant_fold
from torch.export.passes import move_to_device_pass
from torch.fx.experimental.const_fold import split_const_subgraphs
from torch.fx.experimental.merge_matmul import merge_matmul
from torch.fx.experimental.normalize import NormalizeArgs, NormalizeOperators
from torch.fx.experimental.optimization import fuse, remove_dropout
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.annotate_getitem_nodes import annotate_getitem_nodes
from torch.fx.passes.dialect.common.cse_pass import CSEPass
from torch.fx.passes.infra.pass_manager import PassManager
from torch.fx.passes.reinplace import reinplace
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.passes.split_module import split_module

from fixtures.torch_versions import TORCH
from pytest_fxgraph.transform.fixture import FxTransform


class Net(nn.Module):
    """Something for each pass: batch norm, dropout, a part without inputs, one value computed twice, a view."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.drop = nn.Dropout()
        self.fc = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.bn(self.conv(x)))
        y = self.drop(y).mean((2, 3)).view(-1, 4)
        return self.fc(y) + torch.cos(self.fc.bias) + torch.add(y.exp().sum(), y.exp().sum())


def image() -> torch.Tensor:
    return torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def net() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Net().eval()


def traced() -> torch.fx.GraphModule:
    return torch.fx.symbolic_trace(net())


def at_aten() -> torch.fx.GraphModule:
    return make_fx(net())(image())


def exported() -> torch.export.ExportedProgram:
    return torch.export.export(net(), (image(),), strict=False)


def exported_module() -> torch.fx.GraphModule:
    return exported().module()


def functional() -> torch.fx.GraphModule:
    return make_fx(torch.func.functionalize(lambda x: x.clone().add_(1).mul_(2)))(image())


def with_folded_constants(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    folded = split_const_subgraphs(gm)
    folded.run_folding()  # else the first call does it, and writes a parameter
    return folded


def in_two_parts(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    first = {"x", "conv", "bn", "relu"}
    return split_module(gm, gm, lambda node: 0 if node.name in first else 1)


@dataclass(frozen=True)
class Foreign:
    """One pass, what it is tried on, and whether its graph differs from the one before."""

    transform: Any
    subject: Callable[[], Any]
    changes: bool
    options: Mapping[str, Any] = field(default_factory=dict)


PASSES = {
    "fuse": Foreign(fuse, traced, True),
    "fuse a module": Foreign(fuse, net, True, {"trace": "torch"}),
    "remove_dropout": Foreign(remove_dropout, traced, True),
    "split_const_subgraphs": Foreign(with_folded_constants, traced, True),
    "split_module": Foreign(in_two_parts, traced, True),
    "NormalizeArgs": Foreign(NormalizeArgs, traced, True),
    "NormalizeOperators": Foreign(NormalizeOperators, traced, True),
    "merge_matmul": Foreign(merge_matmul, traced, False),
    "annotate_getitem_nodes, of a graph": Foreign(annotate_getitem_nodes, lambda: traced().graph, False),
    "ShapeProp": Foreign(ShapeProp, traced, False),
    "Transformer": Foreign(torch.fx.Transformer, traced, False),
    "CSEPass": Foreign(CSEPass(), at_aten, True, {"idempotent": True, "keeps_meta": True}),
    "PassManager": Foreign(PassManager([CSEPass()], steps=3), at_aten, True),
    "reinplace": Foreign(lambda gm: reinplace(gm, image()), functional, True),
    "run_decompositions": Foreign(torch.export.ExportedProgram.run_decompositions, exported, True),
    "run_decompositions of a module": Foreign(lambda ep: ep.run_decompositions(), net, True, {"trace": "export"}),
    "move_to_device_pass": Foreign(lambda ep: move_to_device_pass(ep, "cpu"), exported, False),
    "CSEPass, of a program": Foreign(CSEPass(), exported, True, {"idempotent": True}),
    "_RemoveRuntimeAssertionsPass": Foreign(_RemoveRuntimeAssertionsPass(), exported, False),
    "_FunctionalizeSideEffectfulOpsPass": Foreign(_FunctionalizeSideEffectfulOpsPass(), exported, False),
    "ReplaceViewOpsWithViewCopyOpsPass": Foreign(ReplaceViewOpsWithViewCopyOpsPass(), exported, True),
    "constant_fold": Foreign(constant_fold, exported_module, True),
    "two in a row": Foreign([torch.export.ExportedProgram.run_decompositions, CSEPass()], exported, True),
}


def graph_text(subject: Any) -> str:
    graph = subject if isinstance(subject, torch.fx.Graph) else getattr(subject, "graph", None)
    return str(graph)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("entry", PASSES.values(), ids=PASSES)
def test_a_pass_of_torchs_runs_unchanged_and_leaves_its_subject_alone(entry):
    subject = entry.subject()
    owner = getattr(subject, "owning_module", subject)
    text, state = graph_text(subject), {name: value.clone() for name, value in _state(owner).items()}

    result = FxTransform()(entry.transform, subject, image(), allow_vacuous=not entry.changes, **entry.options)

    assert result.difference.is_empty != entry.changes
    assert graph_text(subject) == text
    assert list(_state(owner)) == list(state)
    assert all(torch.equal(value, state[name]) for name, value in _state(owner).items())


def _state(owner: Any) -> Mapping[str, torch.Tensor]:
    state = owner.state_dict
    return state() if callable(state) else state


class Quantized:
    """torch.ao's quantization of exported models: prepare, calibrate, convert."""

    def __call__(self, graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
        from torch.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e
        from torch.ao.quantization.quantizer import xnnpack_quantizer

        quantizer = xnnpack_quantizer.XNNPACKQuantizer()
        quantizer.set_global(xnnpack_quantizer.get_symmetric_quantization_config())
        prepared = prepare_pt2e(graph_module, quantizer)
        prepared(image())
        return convert_pt2e(prepared)


def test_a_model_is_quantized_by_torch_ao():
    subject = exported_module()

    # The conversion of torch 2.6 drops the checks of inputs.
    may_change = () if TORCH >= (2, 13) else "refusals"
    result = FxTransform()(Quantized(), subject, image(), rtol=0.1, atol=0.1, may_change=may_change)

    result.assert_ops(added="*quantize_per_tensor*")


@pytest.mark.parametrize("name", ["duplicate_dq_pass.DuplicateDQPass", "port_metadata_pass.PortNodeMetaForQDQ"])
def test_a_pass_of_torch_ao_runs_on_a_quantized_model(name):
    import importlib

    home, _, kind = name.partition(".")
    module = importlib.import_module(f"torch.ao.quantization.pt2e.{home}")
    converted = Quantized()(exported_module())

    # Under torch 2.6 the passes find nothing to do here.
    result = FxTransform()(getattr(module, kind)(), converted, image(), allow_vacuous=TORCH < (2, 13))

    assert result.before is converted
    assert result.after is not converted

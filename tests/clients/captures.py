"""Captures and lowerings: executorch's edge dialect and delegates, models of transformers, timm and torch_geometric."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.clients.case import GAP_OF_MASKS, OUTSIDE, equivalence, golden, operators
from tests.clients.dialects import graph_in
from tests.clients.harm import argument, dropped, scaled, swapped

IDS = torch.arange(12).reshape(2, 6)


def bert(**settings: Any) -> tuple[nn.Module, tuple[Any, ...]]:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, **settings
    )
    return BertModel(config), (IDS,)


def llama(**settings: Any) -> tuple[nn.Module, tuple[Any, ...]]:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=32,
        use_cache=False,
        **settings,
    )
    return LlamaForCausalLM(config), (IDS,)


def repvgg() -> tuple[nn.Module, tuple[Any, ...]]:
    from timm.models.byobnet import ByoBlockCfg, ByobNet, ByoModelCfg

    blocks = tuple(ByoBlockCfg(type="rep", d=1, c=width, s=2, gs=0) for width in (8, 8, 16, 16))
    return ByobNet(ByoModelCfg(blocks=blocks, stem_type="rep", stem_chs=8), num_classes=4), (torch.randn(1, 3, 32, 32),)


OUTSIDE.update({"bert": bert, "llama": llama, "repvgg": repvgg})


def exported(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
    return graph_in("export", model, inputs)


def exported_with(build: Any, **settings: Any) -> Any:
    """Return a recipe that exports a model of another configuration, with weights of the same seed."""

    def recipe(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            other, _ = build(**settings)
        return exported(other.eval(), inputs)

    return recipe


def reparameterized(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
    from timm.utils import reparameterize_model

    return reparameterize_model(model)


def as_it_is(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
    return model


def edge(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
    return graph_in("edge", model, inputs)


def edge_program(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
    return edge(model, inputs).exported_program()


def lowered(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    return to_edge_transform_and_lower(exported(model, inputs), partitioner=[XnnpackPartitioner()])


def lowered_program(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
    return lowered(model, inputs).exported_program()


def parts_are_delegated(query: Any) -> None:
    query.in_order("higher_order.executorch_call_delegate", "edge.aten.mean*", "higher_order.executorch_call_delegate")


XNN, HF = "executorch", "transformers"

equivalence(XNN, "to_edge", "attention", edge_program, dropped("softmax"), "softmax", "edge")
golden(XNN, "to_edge", "attention", edge, swapped("bmm"), "bmm", "edge")
golden(XNN, "to_edge", "long short-term", edge, dropped("tanh"), "tanh", "edge")
operators(
    XNN,
    "XnnpackPartitioner",
    "conv norm",
    lowered_program,
    parts_are_delegated,
    "no backend takes a part",
    "executorch_call_delegate",
    "edge",
    spoilt=edge_program,
)
golden(XNN, "XnnpackPartitioner", "conv norm", lowered, "no backend takes a part", "delegate", "edge", spoilt=edge)

equivalence(HF, "BertModel", "bert", exported, dropped("gelu"), "eager ran gelu", "export")
golden(
    HF,
    "BertModel",
    "bert",
    exported,
    "another eps of layer norm",
    "layer_norm",
    "export",
    spoilt=exported_with(bert, layer_norm_eps=1e-5),
)
golden(
    HF,
    "BertModel",
    "bert",
    exported,
    "relu in place of gelu",
    "gelu",
    "export",
    spoilt=exported_with(bert, hidden_act="relu"),
)
equivalence(HF, "LlamaForCausalLM", "llama", exported, dropped("neg"), "neg.default", "export", gap=GAP_OF_MASKS)
equivalence(HF, "LlamaForCausalLM", "llama", exported, scaled("up_proj"), "up_proj", "export", gap=GAP_OF_MASKS)
golden(
    HF,
    "LlamaForCausalLM",
    "llama",
    exported,
    "another base of the rotary embedding",
    "inv_freq",
    "export",
    spoilt=exported_with(llama, rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
)
golden(HF, "LlamaForCausalLM", "llama", exported, argument("mean", 2, False), "mean", "export")

equivalence(
    "timm", "reparameterize_model", "repvgg", reparameterized, scaled("reparam_conv.weight"), "conv2d", "torch.fx"
)
golden(
    "timm",
    "reparameterize_model",
    "repvgg",
    reparameterized,
    "a model that is not reparameterized",
    "reparam",
    "torch.fx",
    spoilt=as_it_is,
)

"""Model and graph run in the same mode, and lazy modules are compared on a copy that was called once."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import fxcore
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.equivalence.preparation import checked_modes, follow_mode, set_mode, training_kept
from pytest_fxgraph.errors import ChoiceError
from pytest_fxgraph.transform.fixture import FxTransform


class Half(nn.Module):
    """Keeps one part in eval mode for good."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Dropout()
        self.free = nn.Dropout()

    def train(self, mode: bool = True) -> nn.Module:
        super().train(mode)
        self.frozen.eval()
        return self


def test_a_graph_takes_the_models_flags_by_path_and_the_mode_for_parts_of_its_own():
    model = Half()
    graph = nn.Module()
    graph.frozen, graph.free, graph.fused = copy.deepcopy(model.frozen), model.free, nn.Dropout().eval()

    set_mode(model, "train")
    follow_mode(graph, model, "train")

    assert (graph.frozen.training, graph.free.training, graph.fused.training) == (False, True, True)


@pytest.mark.parametrize("wrong", [(), [], "test", ("eval", "test"), ("test", "eval"), None, {"eval"}])
def test_modes_are_one_name_or_several(wrong):
    assert checked_modes("eval") == ("eval",)
    assert checked_modes(["train", "eval"]) == ("train", "eval")
    with pytest.raises(ChoiceError, match="modes must name at least one of 'eval', 'train', got "):
        checked_modes(wrong)


class Noting(nn.Module):
    """Notes the calls of train()."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def train(self, mode=True):
        self.calls.append(mode)
        return super().train(mode)


def test_a_model_in_its_mode_is_not_set_again_unless_it_has_a_train_of_its_own(monkeypatch):
    calls = []
    monkeypatch.setattr(nn.Sequential, "train", nn.Module.train)
    plain, noting = nn.Sequential(nn.Dropout()), nn.Sequential(Noting())
    for model in (plain, noting):
        object.__setattr__(model, "children", lambda model=model: calls.append(model) or iter(model._modules.values()))

    assert [set_mode(plain, mode) for mode in ("train", "eval", "eval")] == ["train", "eval", "eval"]
    assert calls == [plain]
    assert set_mode(noting, "train") == "train"
    assert noting[0].calls == [True]
    assert set_mode(len, "train") == "train"


def test_flags_are_put_back_as_they_were_each():
    model = nn.Sequential(nn.Dropout(), nn.Dropout().eval())

    with training_kept(model, lambda x: x):
        model.eval()

    assert [part.training for part in model.modules()] == [True, True, False]


def exported_module(model: nn.Module) -> nn.Module:
    return torch.export.export(model, (matrix(),), strict=False).module()


def test_a_model_that_refuses_modes_keeps_the_one_that_it_was_captured_in():
    module = exported_module(nn.Sequential(nn.Linear(3, 2)))

    assert set_mode(module, "eval", ("eval",)) is None
    assert set_mode(nn.Sequential(nn.ReLU()), "eval", ("eval", "train")) == "eval"
    with pytest.raises(
        ChoiceError, match=r"asks for more than one, and the GraphModule refuses train\(\) and eval\(\)"
    ):
        set_mode(module, "train", ("train", "eval"))


def test_parts_that_refuse_modes_are_left_out():
    part = exported_module(nn.Sequential(nn.Linear(3, 2)))
    was = part.training
    model = nn.Sequential(part, nn.Dropout(), nn.Sequential(nn.Dropout()))

    for mode in ("eval", "train", "eval"):
        assert set_mode(model, mode, ("eval", "train")) == mode
        assert {model.training, model[1].training, model[2][0].training} == {mode == "train"}
    assert part.training is was


def test_a_graph_of_a_model_without_modes_keeps_its_flags():
    graph = nn.Sequential(nn.Dropout().eval())

    follow_mode(graph, exported_module(nn.Sequential(nn.Linear(3, 2))), None)

    assert not graph[0].training


def test_a_model_whose_train_rewrites_its_graph_is_checked_in_both_modes():
    from torch.ao.quantization import allow_exported_model_train_eval

    module = exported_module(nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5)).eval())
    allow_exported_model_train_eval(module)

    graph = FxEquivalence()(module, matrix(), modes=("train", "eval"), grads=True)

    assert "0.5, True)" in graph.code
    assert "0.5, False)" in module.code


LAZY = {
    "linear": lambda: nn.LazyLinear(3),
    "batch norm, whose buffers have no shapes": lambda: nn.Sequential(nn.LazyBatchNorm1d(), nn.LazyLinear(2)),
}


def matrix() -> torch.Tensor:
    return torch.rand(4, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("make", LAZY.values(), ids=LAZY)
def test_a_lazy_model_is_compared_in_both_modes_and_stays_as_it_is(make):
    model, before = make(), torch.get_rng_state()

    graph = FxEquivalence()(model, matrix(), modes=("eval", "train"), grads=True)
    result = FxTransform()(lambda graph_module: graph_module, model, matrix(), allow_vacuous=True)

    assert all(nn.parameter.is_lazy(parameter) for parameter in model.parameters())
    assert all(module.training for module in model.modules())
    assert torch.equal(torch.get_rng_state(), before)
    assert graph(matrix()).shape == result.after(matrix()).shape


def test_a_lazy_model_with_a_given_graph_is_to_be_called_first():
    model = nn.Sequential(nn.LazyLinear(3))
    graph = fxcore.symbolic_trace(model)

    with pytest.raises(TypeError, match=r"has no shape before the first call.*call the model once before the check"):
        FxEquivalence()(model, matrix(), graph=graph)

    model(matrix())
    FxEquivalence()(model, matrix(), graph=graph)


def test_a_wrong_transform_of_a_lazy_model_is_found():
    def bypassed(graph_module: fxcore.GraphModule) -> fxcore.GraphModule:
        *_, relu, _ = graph_module.graph.nodes
        relu.replace_all_uses_with(relu.args[0])
        graph_module.graph.erase_node(relu)
        graph_module.recompile()
        return graph_module

    with pytest.raises(AssertionError, match="eager ran relu and the graph ran nothing"):
        FxTransform()(bypassed, nn.Sequential(nn.LazyLinear(8), nn.ReLU()), matrix())


class Exported(nn.Linear):
    """Has a train() of its own, as torch's quantization gives one to an exported model, and notes its calls."""

    def __init__(self) -> None:
        super().__init__(1, 1)
        self.calls = []
        self.train = self._rewrite

    def _rewrite(self, mode: bool = True) -> nn.Module:
        self.calls.append(mode)
        self._exported_training = mode
        return self


def test_an_exported_model_is_moved_back_to_the_mode_that_it_had():
    model, plain = Exported(), nn.Linear(1, 1)

    with training_kept(nn.Sequential(model, plain)):
        model.train()
        plain.eval()
    with training_kept(model):
        pass

    assert (model.calls, plain.training) == ([True, False], True)
    model.train()
    with training_kept(model):
        model.train(False)
    assert model.calls == [True, False, True, False, True]

"""Model and graph are switched alike and put back part by part."""

from __future__ import annotations

import copy

from torch import nn

from pytest_fxgraph.equivalence.state.training_mode import TrainingFlags, follow_mode, set_mode


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


def test_flags_are_put_back_as_they_were_each():
    model = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
    flags = TrainingFlags(model, lambda x: x)

    model.eval()
    flags.restore()

    assert [part.training for part in model.modules()] == [True, True, False]

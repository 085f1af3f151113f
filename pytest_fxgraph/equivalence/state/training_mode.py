"""Switching model and graph between eval and train."""

from __future__ import annotations

from torch import nn

from pytest_fxgraph.equivalence.state.module_state import modules_by_path

MODES = ("eval", "train")


def checked_modes(modes: object) -> tuple[str, ...]:
    """Read the modes to run in; refuse unknown and missing ones."""
    wanted = (modes,) if isinstance(modes, str) else tuple(modes) if isinstance(modes, (tuple, list)) else ()
    if not wanted or any(mode not in MODES for mode in wanted):
        raise ValueError(f"modes must name at least one of {', '.join(map(repr, MODES))}, got {modes!r}")
    return wanted


def set_mode(model: object, mode: str) -> None:
    """Switch a model; a train() of the model's own, which may keep parts frozen, is respected."""
    if isinstance(model, nn.Module) and not _is_in_mode(model, mode):
        model.train(mode == "train")


def _is_in_mode(model: nn.Module, mode: str) -> bool:
    """Tell whether switching would do nothing, for it takes as long as a small forward."""
    modules = [module for _, module in modules_by_path(model)]
    return all(module.training is (mode == "train") and type(module).train is nn.Module.train for module in modules)


def follow_mode(graph: object, model: object, mode: str) -> None:
    """Switch a graph, giving every module that the model has, itself or under the same path, the model's own flag."""
    of_model = modules_by_path(model)
    by_path = {path: module.training for path, module in of_model}
    by_identity = {id(module): module.training for _, module in of_model}
    for path, module in modules_by_path(graph):
        training = by_identity.get(id(module), by_path.get(path, mode == "train"))
        if module.training is not training:
            module.training = training


class TrainingFlags:
    """The training flags of some modules as they were, each part's own."""

    def __init__(self, *roots: object) -> None:
        modules = {id(part): part for root in roots for _, part in modules_by_path(root)}
        self._flags = [(module, module.training) for module in modules.values()]

    def restore(self) -> None:
        """Set them back."""
        for module, training in self._flags:
            if module.training is not training:
                module.training = training

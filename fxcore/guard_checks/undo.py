"""The state that a graph writes before its last check, kept so that a refused call leaves everything as it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from fxcore import torch_fx_registry
from fxcore.guard_checks.plan import ENTRY, Plan
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.node_data.purity import called_module, effects_of_node
from fxcore.nodes.shared_storage import SharedStorage
from fxcore.operators.layers import draws_randomly, layer_traits, updates_state
from fxcore.state.snapshot import Snapshot


class WrittenState(NamedTuple):
    """The state that nodes of a graph may write up to one position. Most graphs write nothing there."""

    modules: tuple[str, ...] = ()  # paths of called modules that may change themselves, in training or always
    attributes: tuple[str, ...] = ()  # paths of tensors that calls write
    inputs: tuple[int, ...] = ()
    draws: bool = False  # random numbers, outside of modules
    modes: bool = False  # grad mode, autocast

    def keep(self, module: Any, inputs: Sequence[Any]) -> list[Snapshot] | None:
        """Return the present state; None if this call writes nothing, or is compiled or traced."""
        if torch.compiler.is_compiling() or torch_fx_registry.is_tracing():
            return None
        layers = [layer for path in self.modules if _changes_itself(layer := get_attribute(module, path))]
        draws = self.draws or bool(layers)
        named = [(path, get_attribute(module, path)) for path in self.attributes]
        named += [(f"input {index}", inputs[index]) for index in self.inputs]
        snapshots = [Snapshot.of_values(named)] if named else []
        if draws or self.modes:
            snapshots.append(Snapshot.of_globals(generators=draws, settings=self.modes))
        if layers:
            snapshots.append(snapshot := Snapshot())
            for layer in layers:
                snapshot.include(layer, parameters=False)
        return snapshots or None


def state_written_by(plan: Plan, module: nn.Module | None) -> WrittenState:
    """Return the state that a graph may write before its last check."""
    last = plan.last
    computed = [node for work in plan.checks.values() for node in work if isinstance(node, Node)]
    draws = any("random" in effects_of_node(node, module).kinds for node in computed)
    if last == ENTRY:
        return WrittenState(draws=draws)
    nodes = plan.nodes[: last + 1]
    effects = {node: effects_of_node(node, module) for node in nodes}
    calls = [node for node in nodes if node.op == "call_module"]
    called = {str(node.target): called_module(node, module) for node in calls}
    states = [node for node in nodes if node.op == "get_attr"]
    storage = SharedStorage(plan.nodes, module)
    others = [node for node in nodes if node.op != "call_module"]
    draws = draws or any("random" in effects[node].kinds_of_call(node.args, node.kwargs) for node in others)

    def is_written(node: Node) -> bool:
        return any(writer in effects and not _is_layer(writer, module) for writer in storage.writers(node))

    return WrittenState(
        modules=tuple(path for path, layer in called.items() if _may_change_itself(layer)),
        attributes=tuple(dict.fromkeys(str(node.target) for node in states if is_written(node))),
        inputs=tuple(index for index, node in enumerate(plan.placeholders) if is_written(node)),
        draws=draws,
        modes=any(each.changes_global_state for each in effects.values()),
    )


def _is_layer(node: Node, module: nn.Module | None) -> bool:
    """Return whether a node calls a layer of torch that does not write its input."""
    layer = called_module(node, module) if node.op == "call_module" else None
    is_of_torch = isinstance(layer, nn.Module) and layer_traits(type(layer)).is_layer
    return is_of_torch and not effects_of_node(node, module).writes


def _may_change_itself(layer: Any) -> bool:
    return isinstance(layer, nn.Module) and any(not _is_inert(part) for part in layer.modules())


def _is_inert(part: nn.Module) -> bool:
    traits = layer_traits(type(part))
    if traits.is_batch_norm:
        return not (part.track_running_stats or part.running_mean is not None)
    if traits.probability is not None:
        return not getattr(part, traits.probability) > 0
    return traits.is_inert or (traits.is_embedding and not updates_state(part))


def _changes_itself(layer: nn.Module) -> bool:
    """Return whether a call of a module may change it now. A module of the user may do anything in both modes."""
    return any(
        draws_randomly(part) or updates_state(part) or not layer_traits(type(part)).is_of_torch
        for part in layer.modules()
    )

"""Frontend "aot": Dynamo's graphs as AOT autograd lowers them, to operators, forward and backward."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

import fxcore
from fxcore import interop
from pytest_fxgraph.captures.capture import Capture
from pytest_fxgraph.captures.dynamo import DynamoRecording
from pytest_fxgraph.captures.request import CaptureRequest
from pytest_fxgraph.captures.state_names import with_named_state
from pytest_fxgraph.captures.torch_internals import compile_with_aot, core_decompositions

_NUMBERED = re.compile(r"primals_(\d+)\Z")


def capture_by_aot(request: CaptureRequest) -> Capture:
    """Capture the graphs that AOT autograd makes in some calls of a model; in train mode those of backward, too.

    Raises CaptureError, with the user's line, if the model itself fails.
    """
    recording = DynamoRecording(request)
    made: dict[str, list[fxcore.GraphModule]] = {"joint": [], "forward": [], "backward": []}
    table = core_decompositions() if request.decompositions == "core" else request.decompositions

    def lower(graph_module: Any, examples: Sequence[Any], state: Mapping[int, str]) -> Callable[..., Any]:
        def take(kind: str, graph: Any) -> None:
            taken = interop.from_torch(graph)
            made[kind].append(with_named_state(taken, _named(taken, kind, state), request.model))

        return compile_with_aot(graph_module, examples, take=take, decompositions=table)

    is_training = request.mode == "train" or (request.mode is None and getattr(request.model, "training", False))
    with torch.set_grad_enabled(is_training):
        recording.run(lower, is_backward_run=is_training)
    return recording.capture(made["forward"], backward_graphs=made["backward"], joint_graphs=made["joint"])


def _named(graph_module: fxcore.GraphModule, kind: str, state: Mapping[int, str]) -> dict[str, str]:
    """Map inputs of a lowered graph to the state that they are: AOT autograd numbers what Dynamo's graph takes."""
    named = {}
    placeholders = [node.name for node in graph_module.graph.nodes if node.op == "placeholder"]
    for place, name in enumerate(placeholders):
        numbered = _NUMBERED.match(name)
        # Without gradients all inputs stand in their order; a backward graph takes some of them, by number.
        position = int(numbered[1]) - 1 if numbered else place if kind == "forward" else -1
        if position in state and (numbered or not any(map(_NUMBERED.match, placeholders))):
            named[name] = state[position]
    return named

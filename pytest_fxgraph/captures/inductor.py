"""The way of frontend "inductor": Dynamo's graphs on their way through Inductor's passes to kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import fxcore
from fxcore import interop
from pytest_fxgraph.captures.capture import Capture
from pytest_fxgraph.captures.dynamo import DynamoRecording
from pytest_fxgraph.captures.inductor_internals import compile_with_inductor, in_order, inductor_watched
from pytest_fxgraph.captures.kernels import Kernel, KernelPlan, refuse_unfused
from pytest_fxgraph.captures.pattern_uses import PatternUse, check_fired, patterns_watched
from pytest_fxgraph.captures.request import CaptureRequest
from pytest_fxgraph.captures.state_names import named_inputs_of_aot, state_of_flattened, with_named_state
from pytest_fxgraph.captures.torch_internals import Unavailable
from pytest_fxgraph.document.capture_notes import kernel_notes, key_of_refusal
from pytest_fxgraph.errors import CaptureError


@dataclass(frozen=True)
class PassStep:
    """A pass of Inductor that ran on a graph, or the beginning ("") or end ("end") of a phase."""

    phase: str  # "pre-grad", "joint" or "post-grad"
    name: str  # as torch calls the pass
    graph: fxcore.GraphModule  # after the pass
    is_change: bool  # whether the pass changed the graph

    @property
    def title(self) -> str:
        """The phase and the pass: "post-grad", "joint: remove_noop_ops"."""
        return f"{self.phase}: {self.name}" if self.name not in ("", "end") else self.phase


@dataclass(frozen=True)
class InductorGraph:
    """One graph that Inductor compiled, with the passes on its way and the kernels made of it."""

    kind: str  # "forward" or "backward"
    steps: tuple[PassStep, ...]  # of the phase post-grad; with those of pre-grad and joint for a forward graph
    plan: KernelPlan | Unavailable

    @property
    def graph(self) -> fxcore.GraphModule:
        """The graph after all passes."""
        return self.steps[-1].graph


class InductorCapture(Capture):
    """The graphs and kernels that Inductor made of a model."""

    def __init__(self, compiled: Sequence[InductorGraph], patterns: Sequence[PatternUse] = (), **options: Any) -> None:
        self.compiled, self.patterns = list(compiled), list(patterns)
        super().__init__(**options)

    def fired(self, name: str, times: int | None = None) -> int:
        """Return how many matches of a pattern of Inductor were replaced, as `check_fired` does."""
        __tracebackhide__ = True
        return check_fired(self.patterns, name, times)

    @property
    def plans(self) -> list[KernelPlan]:
        """The kernels, reused buffers and refused fusions of each graph, forward graphs first.

        Raises CaptureError with Inductor's reason if the code generation of a graph failed.
        """
        return [self._plan(each) for each in self.compiled]

    def _plan(self, each: InductorGraph) -> KernelPlan:
        if isinstance(each.plan, Unavailable):
            raise CaptureError(f"{self.model_name} has no kernels: {each.plan.reason}")
        return each.plan

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels of all graphs, those of forward graphs first, in the order in which they run."""
        return [kernel for plan in self.plans for kernel in plan.kernels]

    @property
    def kernel_notes(self) -> list[str]:
        """The golden's lines about kernels. A line tells why a graph has none, so that the graphs can be compared."""
        made = [(each.kind, each.plan) for each in self.compiled]
        texts = [text for kind, plan in made if isinstance(plan, KernelPlan) for text in _texts(kind, plan)]
        return kernel_notes(texts, [plan.reason for _, plan in made if isinstance(plan, Unavailable)])

    @property
    def refusals(self) -> dict[str, str]:
        """Inductor's reasons to keep two kernels apart, by the texts of both kernels; the last reason of each pair."""
        found = {}
        for each in self.compiled:
            if isinstance(each.plan, KernelPlan):
                texts = _texts(each.kind, each.plan)
                for one, other, reason in each.plan.refused_pairs():
                    found[key_of_refusal(texts[one], texts[other])] = reason
        return found

    def assert_fused(self, operator: object, *others: object) -> None:
        """Check that each kernel that computes the operator computes the others, too."""
        __tracebackhide__ = True
        plans = [(f"{each.kind} graph", plan) for each, plan in zip(self.compiled, self.plans, strict=True)]
        refuse_unfused(plans, str(operator), [str(other) for other in others])

    @property
    def steps(self) -> list[PassStep]:
        """The passes that changed the first forward graph, from Dynamo's graph to the kernels' graph."""
        own = next((each.steps for each in self.compiled if each.kind == "forward"), ())
        return [step for place, step in enumerate(own) if step.is_change or not place]


def _texts(kind: str, plan: KernelPlan) -> list[str]:
    return [kernel.line("backward " * (kind == "backward")).text for kernel in plan.kernels]


class _Recording:
    """What Inductor tells while it compiles the graphs of one capture."""

    def __init__(self, request: CaptureRequest) -> None:
        self.request = request
        self.compiled: list[InductorGraph] = []
        self._steps: list[PassStep] = []
        self._state: Mapping[int, str] = {}
        self._seen: list[tuple[Any, ...]] = []

    def lower(self, graph_module: Any, examples: Sequence[Any], state: Mapping[int, str]) -> Callable[..., Any]:
        """Compile one of Dynamo's graphs. A backward graph comes later, when the backward runs."""
        own = state_of_flattened(examples, state)
        self._steps, self._state = [], own

        def on_graph() -> None:
            self._state = own  # a backward is compiled after the forwards of other graphs

        def on_kernels(kind: str, graph: Any, plan: KernelPlan | Unavailable) -> None:
            # Torch runs no pass on a graph without calls, such as the backward of a sum, and generates no program.
            if isinstance(plan, Unavailable) and not any(node.op.startswith("call") for node in graph.graph.nodes):
                plan = KernelPlan(())
            if not self._steps:
                self.on_pass("post-grad", "", graph)
            self.compiled.append(InductorGraph(kind, tuple(self._steps), plan))
            self._steps = []

        table = self.request.decomposition_table
        return compile_with_inductor(graph_module, examples, on_graph, on_kernels, table)

    def on_pass(self, phase: str, name: str, graph_module: Any) -> None:
        """Keep the graph after a pass that changed it."""
        facts = [(node, node.args, node.kwargs, node.target) for node in graph_module.graph.nodes]
        is_change = len(facts) != len(self._seen) or any(
            now is not before for one, other in zip(facts, self._seen, strict=True)
            for now, before in zip(one, other, strict=True)
        )  # fmt: skip
        self._seen = facts
        if is_change or not self._steps:
            graph = interop.from_torch(in_order(graph_module))
            with_named_state(graph, self._names(graph, phase), self.request.model)
        else:
            graph = self._steps[-1].graph
        self._steps.append(PassStep(phase, name, graph, is_change))

    def _names(self, graph: fxcore.GraphModule, phase: str) -> dict[str, str]:
        if phase == "pre-grad":
            inputs = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
            return {inputs[place]: name for place, name in self._state.items() if place < len(inputs)}
        kind = "joint" if phase == "joint" else "backward" if _is_backward(graph) else "forward"
        return named_inputs_of_aot(graph, kind, self._state)


def _is_backward(graph: fxcore.GraphModule) -> bool:
    return any(node.name.startswith("tangents_") for node in graph.graph.nodes if node.op == "placeholder")


def capture_by_inductor(request: CaptureRequest) -> Capture:
    """Capture the graphs that Inductor makes of a model, in train mode also of its backward, and their kernels."""
    recording, made = DynamoRecording(request), _Recording(request)
    is_training = request.mode == "train" or (request.mode is None and getattr(request.model, "training", False))
    with inductor_watched(made.on_pass), patterns_watched() as patterns, torch.set_grad_enabled(is_training):
        recording.run(made.lower, is_backward_run=is_training)
    compiled = sorted(made.compiled, key=lambda each: each.kind, reverse=True)  # forward graphs first
    return recording.capture(
        [each.graph for each in compiled if each.kind == "forward"],
        make=lambda **options: InductorCapture(compiled, patterns, **options),
        backward_graphs=[each.graph for each in compiled if each.kind == "backward"],
    )

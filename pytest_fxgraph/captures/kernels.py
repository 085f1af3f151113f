"""What Inductor made of a graph: kernels, reused buffers, refused fusions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from pytest_fxgraph.document.kernel_lines import KernelLine

# The kinds of kernels. A copy only loads and stores. A fallback runs an operator as eager does, because Inductor has no
# lowering of it.
POINTWISE, COPY, REDUCTION, TEMPLATE = "pointwise", "copy", "reduction", "template"
EXTERN, FALLBACK, FOREACH = "extern", "fallback", "foreach"
KERNEL_KINDS = (POINTWISE, COPY, REDUCTION, TEMPLATE, EXTERN, FALLBACK, FOREACH)
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|\Z)|\A\d+(?=\.|\Z)")


@dataclass(frozen=True)
class FusedNode:
    """A node of the post-grad graph that a kernel computes, wholly or in part."""

    name: str  # in the post-grad graph
    operator: str  # "aten.relu.default"
    module: str  # the path of the user's module; "" if torch lost it


@dataclass(frozen=True)
class Kernel:
    """One kernel: a loop nest that Inductor generates, a template, or a call of a library."""

    kind: str  # one of KERNEL_KINDS
    nodes: tuple[FusedNode, ...]  # in the order of the post-grad graph
    target: str = ""  # the function that an extern kernel or a fallback calls: "extern_kernels.addmm"
    bytes_read: int = 0  # of tensors from outside of the kernel, each counted once
    bytes_written: int = 0  # of tensors that live on after the kernel
    updates: tuple[str, ...] = field(default=(), compare=False)  # buffers and inputs that the kernel writes in place

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators of the fused nodes, in the order of the graph."""
        return tuple(node.operator for node in self.nodes)

    def computes(self, operator: str) -> bool:
        """Return whether a fused node calls an operator: "aten.relu", "aten.add.Tensor" or a glob."""
        return any(
            fnmatchcase(name, operator) or fnmatchcase(_without_overload(name), operator) for name in self.operators
        )

    @property
    def bytes(self) -> int:
        """The bytes that the kernel reads and writes."""
        return self.bytes_read + self.bytes_written

    def line(self, phase: str = "") -> KernelLine:
        """Return the golden's line: kind, called function, modules, operators and bytes, without generated names.

        Operators and modules stand in alphabetical order, and numbers in paths of modules are stars: equal kernels of
        repeated blocks have equal lines.
        """
        modules = ", ".join(sorted({_NUMBER.sub("*", node.module) for node in self.nodes if node.module}))
        counted = tuple(sorted(Counter(map(_without_overload, self.operators)).items()))
        return KernelLine(phase, self.kind, self.target, modules, counted, self.bytes_read, self.bytes_written)

    @property
    def text(self) -> str:
        """The text of the golden's line."""
        return self.line().text

    def __repr__(self) -> str:
        called = f" {self.target}" if self.target else ""
        return f"<{self.kind} kernel{called} of {', '.join(self.operators) or 'no operator'}>"


def _without_overload(name: str) -> str:
    return name.rpartition(".")[0] if name.count(".") > 1 else name


@dataclass(frozen=True)
class RefusedFusion:
    """A pair of kernels that Inductor's scheduler did not fuse, with torch's reason."""

    first: tuple[str, ...]  # names of nodes in the post-grad graph
    second: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class KernelPlan:
    """The kernels of one graph, in the order in which they run."""

    kernels: tuple[Kernel, ...]
    refused: tuple[RefusedFusion, ...] = ()
    reused: tuple[tuple[str, str], ...] = ()  # pairs of buffers: the second takes the storage of the first
    partitions: int = 0  # of the graph, where Inductor parts it for CUDA graphs
    code: str = ""  # the generated program, with generated names

    def refused_pairs(self) -> Iterator[tuple[int, int, str]]:
        """Yield the places of two kernels that Inductor kept apart, with its reason."""
        nodes = [{node.name for node in kernel.nodes} for kernel in self.kernels]
        for refused in self.refused:
            first, second = (
                [place for place, own in enumerate(nodes) if names and own.issuperset(names)]
                for names in (refused.first, refused.second)
            )
            yield from ((one, other, refused.reason) for one in first for other in second if one != other)


def refuse_unfused(plans: Sequence[tuple[str, KernelPlan]], operator: str, others: Sequence[str]) -> None:
    """Raise AssertionError unless each kernel that computes an operator computes the others, too.

    A plan comes with the name of its graph for the error.
    """
    __tracebackhide__ = True
    kernels = [kernel for _, plan in plans for kernel in plan.kernels]
    for wanted in (operator, *others):
        if not any(kernel.computes(wanted) for kernel in kernels):
            raise AssertionError(f"no kernel computes {wanted}; the kernels are: {_listed(kernels)}")
    for graph, plan in plans:
        for place, kernel in enumerate(plan.kernels):
            lost = [other for other in others if not kernel.computes(other)]
            if kernel.computes(operator) and lost:
                raise AssertionError(
                    f"{operator} is not fused with {', '.join(lost)} in the {graph}: {_reason(plan, place, lost)}"
                )


def _reason(plan: KernelPlan, place: int, lost: Sequence[str]) -> str:
    """Name the kernels of the lost operators, and tell why Inductor kept a kernel apart from them."""
    own = plan.kernels[place]
    apart = [kernel for kernel in plan.kernels if any(map(kernel.computes, lost))]
    if not apart:
        return f"{own!r}; another graph computes {', '.join(lost)}"
    refused = [
        reason
        for one, other, reason in plan.refused_pairs()
        if place in (one, other) and (plan.kernels[one] in apart or plan.kernels[other] in apart)
    ]
    told = f"because {refused[-1]}" if refused else "and Inductor did not try to fuse these"
    return f"{_listed([own, *apart])}, {told}"


def _listed(kernels: Sequence[Kernel]) -> str:
    return "; ".join(map(repr, kernels)) or "none"

"""What Inductor made of a graph: kernels, reused buffers, refused fusions."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

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

    @property
    def bytes(self) -> int:
        """The bytes that the kernel reads and writes."""
        return self.bytes_read + self.bytes_written

    @property
    def text(self) -> str:
        """Return the golden's text: kind, called function, modules, operators and bytes, without generated names.

        Operators and modules stand in alphabetical order, and numbers in paths of modules are stars: equal kernels of
        repeated blocks have equal texts.
        """
        called = f" {self.target}" if self.target else ""
        paths = sorted({_NUMBER.sub("*", node.module) for node in self.nodes if node.module})
        modules = f" in {', '.join(paths)}" if paths else ""
        counted = sorted(Counter(map(_without_overload, self.operators)).items())
        told = ", ".join(f"{name} x{times}" if times > 1 else name for name, times in counted) or "no operator"
        return f"{self.kind}{called}{modules}: {told}; {self.bytes_read:,} B read, {self.bytes_written:,} B written"

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

"""The line about one kernel in a golden: its parts, its text, and the reading of that text."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

_LINE = re.compile(
    r"(?P<phase>backward )?(?P<kind>\w+)(?: (?P<target>\S+))??(?: in (?P<modules>.+?))?: (?P<operators>.*); "
    r"(?P<read>[\d,]+) B read, (?P<written>[\d,]+) B written\Z"
)


class KernelLine(NamedTuple):
    """The parts of a line about a kernel. The modules tell a reader where, and are not compared."""

    phase: str  # "backward " or ""
    kind: str
    target: str  # the called function; "" for a loop
    modules: str  # "encoder.*.mlp, head"; "" if torch lost them
    operators: tuple[tuple[str, int], ...]  # with their numbers, by name
    read: int  # bytes
    written: int

    @classmethod
    def from_text(cls, text: str) -> KernelLine:
        """Read a line. The text of another release is the kind of a kernel without other parts."""
        parts = _LINE.match(text)
        if parts is None:
            return cls("", text, "", "", (), 0, 0)
        named = [each.partition(" x") for each in parts["operators"].split(", ") if each != "no operator"]
        operators = tuple([(name, int(times or 1)) for name, _, times in named])
        phase, kind, target, modules = (parts[name] or "" for name in ("phase", "kind", "target", "modules"))
        read, written = (int(parts[name].replace(",", "")) for name in ("read", "written"))
        return cls(phase, kind, target, modules, operators, read, written)

    @property
    def text(self) -> str:
        """The line: "pointwise in up: aten.add x2, aten.relu; 64 B read, 64 B written"."""
        modules = f" in {self.modules}" if self.modules else ""
        sizes = f"{self.read:,} B read, {self.written:,} B written"
        return f"{self.phase}{self.kind}{self._called}{modules}: {self.told}; {sizes}"

    @property
    def bytes(self) -> int:
        """The bytes that the kernel reads and writes."""
        return self.read + self.written

    @property
    def counted(self) -> Counter[str]:
        """The numbers of the operators."""
        return Counter(dict(self.operators))

    @property
    def told(self) -> str:
        """The operators with their numbers: "aten.add x2, aten.relu"."""
        names = ", ".join(f"{name} x{times}" if times > 1 else name for name, times in self.operators)
        return names or "no operator"

    @property
    def kernel(self) -> str:
        """The kind and the called function: "backward extern kernel extern_kernels.mm"."""
        return f"{self.phase}{self.kind} kernel{self._called}"

    @property
    def named(self) -> str:
        """The kernel with its operators, without modules and bytes."""
        return f"{self.kernel} of {self.told}"

    @property
    def _called(self) -> str:
        return f" {self.target}" if self.target else ""

"""torch's words for a graph break: the kind of break, its operator or builtin, and its cure.

The words change between versions of torch. Because of that, goldens hold the kind and never torch's sentence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SCALARS = "set torch._dynamo.config.capture_scalar_outputs = True, or keep the number in a tensor"
_SHAPES = "set torch._dynamo.config.capture_dynamic_output_shape_ops = True, or use torch.where with fixed sizes"
_IF = "write it as torch.cond or torch.where, or decide by a value that is no tensor"

# Kind, words of torch 2.6 to 2.14 (the group is the operator), the operator for words without one, the cure.
_KINDS: tuple[tuple[str, str, str, str | None], ...] = (
    ("branch on a tensor", r"generic_jump|[Dd]ata-dependent (?:branching|assertion)|Dynamic control flow", "if", _IF),
    ("number out of a tensor", r"Tensor\.(item|tolist|numpy)\b(?!.*numpy\(\) on)", "", _SCALARS),
    (
        "graph_break()",
        r"Call to `torch\._dynamo\.graph_break\(\)`|skip function graph_break\b",
        "torch._dynamo.graph_break",
        "remove the call of torch._dynamo.graph_break()",
    ),
    (
        "disabled function",
        r"(?:disable\(\) wrapped function|`torch\.compiler\.disable(?:\(\))?`)[^<]*(?:<function (\S+) at)?"
        r"|inline in skipfiles: (\S+) \| _fn \S*eval_frame",
        "",
        "remove torch.compiler.disable from the function",
    ),
    ("operator of unknown shape", r"[Dd]ynamic shape operator\D*?(\w+\.\w+(?:\.\w+)?)", "", _SHAPES),
    ("builtin", r"(?:builtin operator `|builtin: )(\w+)", "", None),
    ("skipped function", r"skip function (\w+)|marked as skipped.*?(?:qualname: |function `)([\w.<>]+)", "", None),
    ("C function", r"(?:C/C\+\+ builtin|builtin function|Unsupported function call).*?([\w.]+)", "", None),
    ("context manager", r"[Cc]ontext manager", "with", None),
    ("exception", r"[Oo]bserved exception|raise", "raise", None),
    ("generator", r"[Gg]enerator|YIELD", "yield", None),
)
_CURES_OF_BUILTINS = {
    "print": "remove the print, or add it to torch._dynamo.config.reorderable_logging_functions",
    "input": "read what is needed before the model is called",
    "open": "read the file before the model is called",
}
_HINT = re.compile(r"^ *Hint: (.*(?:\n(?!\s*(?:Hint|Developer|For more)).*\S)*)", re.MULTILINE)
_NO_CURE = re.compile(r"report an issue|is fundamental|may be fixed|not expected|may result in an error", re.IGNORECASE)
_FUNDAMENTAL = re.compile(r"is fundamental", re.IGNORECASE)


@dataclass(frozen=True)
class Reason:
    """The meaning of torch's words for one break."""

    kind: str
    operator: str  # "" if torch does not name it
    cure: str | None
    is_avoidable: bool | None  # None if torch does not say


def read_reason(text: str, source: str = "") -> Reason:
    """Read torch's words for a break. If torch does not name the operator, `source`, the user's line, names it."""
    kind, operator, cure = _kind_of(text, source)
    hints = [" ".join(hint.split()) for hint in _HINT.findall(text)]
    told = next((hint for hint in hints if not _NO_CURE.search(hint)), None)
    cure = cure or told
    if cure is not None:
        return Reason(kind, operator, cure, True)
    return Reason(kind, operator, None, False if any(map(_FUNDAMENTAL.search, hints)) else None)


def _kind_of(text: str, source: str) -> tuple[str, str, str | None]:
    for kind, words, operator, cure in _KINDS:
        found = re.search(words, text)
        if found is None:
            continue
        named = next((group for group in found.groups() if group), operator)
        return kind, named, cure or _CURES_OF_BUILTINS.get(named)
    return "not supported", _called_in(source), None


def _called_in(source: str) -> str:
    """Return the function of the only call in a line, because torch stopped there; "" for no call or several."""
    calls = re.findall(r"([A-Za-z_][\w.]*)\(", source)
    return calls[0] if len(calls) == 1 else ""


def first_line(text: str) -> str:
    """Return the first line of torch's words."""
    return text.strip().partition("\n")[0]

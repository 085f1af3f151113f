"""Reads one line of a golden: a node, a module, a tensor or a cost. Each reader raises YamlDataError without a line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from pytest_fxgraph.document.costs import COUNTS, CostRecord
from pytest_fxgraph.document.model import ModuleRecord, NodeRecord, StateRecord, YamlDataError
from pytest_fxgraph.document.spelling import KEYWORD, plain_text, split_at, tidy_text

SECTIONS = ("modules", "state", "notes", "symbols", "cost", "code")
OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")
STATE_KINDS = ("parameter", "buffer", "constant")

_NODE = re.compile(r"%(\w+) *= *(.+)\Z")
_CALLED = re.compile(r"(?:(self)\.|%(\w+)\.(?=\w+\()|(\.)(?=\w+\())?([\w.<>-]+)")
_GENERAL = re.compile(rf"({'|'.join(OPS)}) +(\"(?:[^\"\\]|\\.)*\")")
_INPUT = re.compile(r"input +(\*{0,2}\w+)(?: +as +%(\w+))?")
_MODULE = re.compile(r"([\w.<>#]+|\"(?:[^\"\\]|\\.)*\") *(?=\()")
_STATE = re.compile(rf"({'|'.join(STATE_KINDS)}) +")
_PATH = re.compile(r"([\w.-]+|\"(?:[^\"\\]|\\.)*\") *: *")


class LocalNode(NamedTuple):
    """A node as a line tells it, with the names and paths of its block."""

    record: NodeRecord
    is_relative: bool  # whether its target is a path in the block
    is_general: bool


@lru_cache(maxsize=16_384)
def read_node(line: str) -> LocalNode:
    """Read the line of a node."""
    head, facts = _with_facts(line)
    told = _told(facts, ("effects:", "meta:", "named by", "in"))
    is_relative = is_general = False
    kwargs: tuple[tuple[str, str], ...] = ()
    if head == "return" or head.startswith("return "):
        args, kwargs = _arguments(head.removeprefix("return").strip())
        name, op, target = "output", "output", "output"
    elif (found := _INPUT.match(head)) is not None:
        name, op, target = found[2] or found[1], "placeholder", found[1]
        args = _default(head[found.end() :].strip())
    elif (made := _NODE.match(head)) is not None:
        name, (op, target, args, kwargs, is_relative) = made[1], _called(made[2].strip())
        is_general = op == "output"
    else:
        raise YamlDataError(
            "it is none of: input NAME, %NAME = TARGET(...), return ..., block PATH:, or a title "
            f"({', '.join(SECTIONS)}) with a colon behind it"
        )
    effects = tuple(map(tidy_text, split_at(told["effects:"], ","))) if "effects:" in told else ()
    meta_args, meta = _arguments(told.get("meta:", ""))
    if meta_args:
        raise YamlDataError(f"the metadata {meta_args[0]!r} has no name, as in `meta: tag=1`")
    value, scope, name_from = _optional(told, ""), _optional(told, "in"), _optional(told, "named by")
    record = NodeRecord(name, op, target, args, kwargs, value, effects, scope, None, meta, name_from)
    return LocalNode(record, is_relative, is_general)


def _with_facts(line: str) -> tuple[str, str]:
    head, *facts = split_at(line, "#")
    if len(facts) > 1:
        raise YamlDataError("a second `#` stands in it; put a text with this character in quotes")
    return head.strip(), facts[0].strip() if facts else ""


def _told(facts: str, words: Sequence[str]) -> dict[str, str]:
    """Read facts with semicolons between them, by the word that begins each; the value has none."""
    told: dict[str, str] = {}
    for place, fact in enumerate(split_at(facts, ";") if facts else []):
        text = fact.strip()
        word = next((each for each in words if text == each or text.startswith(f"{each} ")), "")
        rest = text[len(word) :].strip()
        if word in told or (not word and place):
            raise YamlDataError(f"{text[:60]!r} stands there twice, or is none of: {', '.join(words)}")
        told[word] = rest
    return told


def _optional(told: Mapping[str, str], word: str) -> str | None:
    return tidy_text(told[word]) if word in told else None


def _called(text: str) -> tuple[str, str, tuple[str, ...], tuple[tuple[str, str], ...], bool]:
    """Read the call of a node: opcode, target, arguments, and whether the target is a path in the block."""
    if general := _GENERAL.match(text):
        target = plain_text(general[2])
        args, kwargs = _call_arguments(text[general.end() :].strip(), target)
        return general[1], target, args, kwargs, False
    found = _CALLED.match(text)
    if found is None:
        raise YamlDataError(f"{text[:60]!r} calls nothing: a call is TARGET(...), self.PATH(...) or %NAME.METHOD(...)")
    own, receiver, dot, target = found.groups()
    rest = text[found.end() :].strip()
    if not rest and own:
        return "get_attr", target, (), (), True
    args, kwargs = _call_arguments(rest, text[: found.end()])
    if own:
        return "call_module", target, args, kwargs, True
    if receiver:
        return "call_method", target, (f"%{receiver}", *args), kwargs, False
    return "call_method" if dot else "call_function", target, args, kwargs, False


def _call_arguments(rest: str, called: str) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    if not (rest.startswith("(") and rest.endswith(")")):
        raise YamlDataError(f"expected (...) behind {called!r}, got {rest[:60]!r}")
    return _arguments(rest[1:-1])


def _default(text: str) -> tuple[str, ...]:
    if not text:
        return ()
    if not text.startswith("=") or not text[1:].strip():
        raise YamlDataError(f"expected `= DEFAULT`, `# VALUE` or nothing behind the input, got {text[:60]!r}")
    return (tidy_text(text[1:]),)


def _arguments(text: str) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    args: list[str] = []
    kwargs: dict[str, str] = {}
    for item in split_at(text, ",") if text.strip() else []:
        keyword = KEYWORD.match(item.strip())
        if not item.strip():
            raise YamlDataError("an argument is missing at a comma")
        if keyword is None and kwargs:
            raise YamlDataError(f"the argument {item.strip()!r} stands behind one with a keyword")
        if keyword is None:
            args.append(tidy_text(item))
            continue
        key = plain_text(keyword[1])
        if key in kwargs:
            raise YamlDataError(f"the keyword {key!r} stands there twice")
        kwargs[key] = tidy_text(item.strip()[keyword.end() :])
    return tuple(args), tuple(kwargs.items())


# Modules, tensors and costs.


def _with_path(line: str, base: str) -> tuple[str, str]:
    found = _PATH.match(line)
    if found is None or found.end() == len(line):
        raise YamlDataError("it is no line of this section, such as `PATH: torch.nn.ReLU()` or `PATH: buffer int64[]`")
    is_odd = found[1].startswith('"')
    return plain_text(found[1]) if is_odd else base + found[1], line[found.end() :]


def read_module(line: str, base: str) -> ModuleRecord:
    path, rest = _with_path(line, base)
    head, *facts = split_at(rest, ";")
    found = _MODULE.match(head)
    if found is None or not head.rstrip().endswith(")"):
        raise YamlDataError("a module is written as `PATH: CLASS(name=value, ...)`")
    args, config = _arguments(head.rstrip()[found.end() + 1 : -1])
    if args:
        raise YamlDataError(f"the value {args[0]!r} of the module has no name, as in `bias=True`")
    told = _told_records(facts, ("training", "not training", "is", "named by"))
    training = True if "training" in told else False if "not training" in told else None
    return ModuleRecord(
        path, plain_text(found[1]), config, training, _other_path(told, base), None, _optional(told, "named by")
    )


def _told_records(facts: Sequence[str], words: Sequence[str]) -> dict[str, str]:
    told: dict[str, str] = {}
    for fact in facts:
        text = fact.strip()
        word = next((each for each in words if text == each or text.startswith(f"{each} ")), None)
        rest = text[len(word or "") :].strip()
        if word is None or (word in _WITH_A_TEXT) != bool(rest):
            raise YamlDataError(f"{text[:60]!r} is none of: {', '.join(words)}")
        if word in told:
            raise YamlDataError(f"{word!r} stands there twice")
        told[word] = rest
    return told


_WITH_A_TEXT = ("is", "named by", "storage", "=")


def _other_path(told: Mapping[str, str], base: str) -> str | None:
    text = told.get("is")
    if text is None:
        return None
    is_inside = base and text.startswith("self.")
    return base + tidy_text(text.removeprefix("self.")) if is_inside else tidy_text(text)


def read_state(line: str, base: str) -> StateRecord:
    path, rest = _with_path(line, base)
    head, *facts = split_at(rest, ";")
    found = _STATE.match(head)
    if found is None:
        raise YamlDataError("a tensor is written as `PATH: parameter float32[2, 4]`, or buffer, or constant")
    told = _told_records(facts, ("=", "requires grad", "no grad", "not persistent", "storage", "named by", "is"))
    is_parameter = found[1] == "parameter"
    return StateRecord(
        path,
        found[1],
        tidy_text(head[found.end() :]),
        "requires grad" in told or (is_parameter and "no grad" not in told),
        "not persistent" not in told,
        _other_path(told, base),
        _optional(told, "="),
        _optional(told, "storage"),
        _optional(told, "named by"),
    )


def is_count(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) < 40


def read_cost_line(line: str) -> tuple[str, dict[str, str]]:
    path, rest = _with_path(line, "")
    args, counts = _arguments(rest)
    if args:
        raise YamlDataError(f"the number {args[0]!r} has no name, as in `flops=1`")
    return path, dict(counts)


def read_cost_record(_: str, counts: Mapping[str, str]) -> CostRecord:
    if counts.keys() != set(COUNTS) or not all(map(is_count, counts.values())):
        raise YamlDataError(f"costs are whole numbers of {', '.join(COUNTS)}")
    return CostRecord(*(int(counts[name]) for name in COUNTS))

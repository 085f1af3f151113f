"""Patterns of Inductor: the places where each was tried, and the reason at the place that is nearest to a match."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any
from unittest import mock

import torch

from fxcore.errors import FxError
from fxcore.node_data.targets import readable_target
from pytest_fxgraph.captures.inductor_patterns import closure_of, entries_of, name_of
from pytest_fxgraph.captures.torch_internals import part_of_torch
from pytest_fxgraph.document.origins import Origins
from pytest_fxgraph.errors import GateError
from pytest_fxgraph.report.printable import counted, first_lines, listed

_NEEDED_FOR = "the use of Inductor's patterns"
_MATCHER = "torch._inductor.pattern_matcher"
_MOST_REASONS = 3
_MOST_NAMED = 5
_BARRIER = "an operation between the nodes changes a tensor in place, or they run on several streams"


@dataclass(frozen=True)
class PatternMiss:
    """A place that is almost a match of a pattern."""

    place: str  # the name of the pattern's last node, with its module and the line of the model
    agreed: int  # operations of the pattern that are there
    reasons: tuple[str, ...]

    @property
    def rank(self) -> tuple[int, int]:
        """The nearness: more agreeing operations first, then fewer reasons."""
        return self.agreed, -len(self.reasons)


@dataclass
class PatternUse:
    """One pattern of a PatternMatcherPass, with its use in one capture."""

    name: str  # of the pattern's search function or handler
    pass_name: str
    candidates: int = 0  # nodes that call the operator of the pattern's last node
    rejected: int = 0  # matches that the pattern's extra_check refused
    fired: list[str] = field(default_factory=list)  # the places of the matches that were replaced
    nearest: PatternMiss | None = None

    def note_miss(self, miss: PatternMiss) -> None:
        """Keep the nearest miss."""
        if self.nearest is None or miss.rank > self.nearest.rank:
            self.nearest = miss

    def text(self) -> str:
        """Describe the use: the numbers, then the nearest miss."""
        where = f" of pass {self.pass_name!r}" if self.pass_name else ""
        lines = [
            f"{self.name}{where}: {counted(self.candidates, 'candidate')}, {len(self.fired)} replaced, "
            f"{self.rejected} rejected by extra_check"
        ]
        if self.fired:
            lines.append(f"  replaced at {listed(self.fired, _MOST_NAMED, '; ')}")
        if self.nearest is not None:
            agreed = counted(self.nearest.agreed, "operation")
            lines.append(f"  nearest miss at {self.nearest.place}: {agreed} agreed, but")
            reasons = [f"    {reason}" for reason in self.nearest.reasons]
            lines += first_lines(reasons, _MOST_REASONS, "    and {} more reasons")
        return "\n".join(lines)


def check_fired(patterns: Sequence[PatternUse], name: str, times: int | None = None) -> int:
    """Return how many matches of a pattern were replaced; `name` is of a pattern or its pass, and may hold "*".

    Raises AssertionError, with the nearest miss, for another number than `times`; without `times`, for none.
    Raises GateError, with the known names, for a pattern that no pass tried.
    """
    __tracebackhide__ = True
    uses = [use for use in patterns if fnmatchcase(use.name, name) or fnmatchcase(use.pass_name, name)]
    if not uses:
        # Passes of users have names; Inductor's own passes have hundreds of patterns.
        ordered = sorted(patterns, key=lambda use: (not use.pass_name, use.name))
        known = listed(dict.fromkeys(use.name for use in ordered), 40) or "no pattern at all"
        raise GateError(f"no pass of Inductor tried a pattern {name!r}; it tried {known}")
    fired = sum(len(use.fired) for use in uses)
    if fired == times or (times is None and fired):
        return fired
    wanted = counted(times, "time") if times is not None else "at least once"
    # Patterns of one name are variants of one another, and the one that came nearest tells the most.
    uses.sort(key=lambda use: (len(use.fired), use.nearest.rank if use.nearest else (-1, 0)), reverse=True)
    told = first_lines([use.text() for use in uses], _MOST_REASONS, "and {} more patterns of this name")
    raise AssertionError("\n".join([f"pattern {name!r} fired {counted(fired, 'time')}, expected {wanted}", *told]))


# Watching.


@contextlib.contextmanager
def patterns_watched() -> Iterator[list[PatternUse]]:
    """Return a list that fills with the patterns of each PatternMatcherPass that runs in a with block."""
    kind = part_of_torch(_MATCHER, "PatternMatcherPass", _NEEDED_FOR)
    found: dict[int, tuple[Any, PatternUse]] = {}  # the entries are kept, so that no other gets their id
    uses: list[PatternUse] = []
    apply = kind.apply

    def watched(self: Any, graph: Any) -> Any:
        inner = getattr(graph, "graph", graph)
        with contextlib.ExitStack() as stack:
            for entry, _ in entries_of(self):
                if isinstance(entry.pattern, _WatchedPattern):  # a pass that applies itself to an inner graph
                    continue
                if id(entry) not in found:
                    use = PatternUse(name_of(entry), getattr(self, "pass_name", None) or "")
                    found[id(entry)] = entry, use
                    uses.append(use)
                use = found[id(entry)][1]
                attempt = _WatchedPattern(entry.pattern, entry, use)
                stack.enter_context(mock.patch.object(entry, "pattern", attempt))
                stack.enter_context(mock.patch.object(entry, "extra_check", attempt.checked))
                stack.enter_context(mock.patch.object(entry, "apply", attempt.applied))
                stack.callback(attempt.finish)
                if not use.candidates:
                    _note_absent(use, attempt.pattern, inner)
            return apply(self, graph)

    with mock.patch.object(kind, "apply", watched):
        yield uses


class _WatchedPattern:
    """Stands for the pattern of an entry while its pass runs, and notes each attempt."""

    def __init__(self, pattern: Any, entry: Any, use: PatternUse) -> None:
        self.pattern, self._use = pattern, use
        self._check, self._apply = entry.extra_check, entry.apply
        self._open: PatternMiss | None = None  # of a match that nobody has judged yet

    def __getattr__(self, name: str) -> Any:
        return getattr(self.pattern, name)

    def __repr__(self) -> str:
        return repr(self.pattern)

    def match(self, node: Any) -> Any:
        """Match the pattern at a node, and note a miss with its reasons."""
        self.finish()
        self._use.candidates += 1
        matched = self.pattern.match(node)
        if matched:
            self._open = PatternMiss(_place(node), len(matched.nodes), (_BARRIER,))
        else:
            self._use.note_miss(_miss(self.pattern, node, matched))
        return matched

    def checked(self, matched: Any) -> Any:
        """Ask the entry's extra_check, and note the reason of a refusal."""
        node, self._open = matched.output_nodes()[0], None
        specific: list[Any] = []
        matcher = importlib.import_module(_MATCHER)
        convert = part_of_torch(_MATCHER, "fx_to_pattern", _NEEDED_FOR)

        def converted(*args: Any, **kwargs: Any) -> Any:
            specific.append(convert(*args, **kwargs))
            return specific[-1]

        with mock.patch.object(matcher, "fx_to_pattern", converted):
            is_accepted = self._check(matched)
        if not is_accepted:
            self._use.rejected += 1
            self._use.note_miss(self._refusal(specific, node, len(matched.nodes)))
        return is_accepted

    def _refusal(self, specific: Sequence[Any], node: Any, total: int) -> PatternMiss:
        """Return why extra_check refused: register_replacement compares with a pattern of the model's own shapes."""
        outer = closure_of(self._check)
        if "search_fn" in outer:
            pattern = specific[0] if specific else outer.get("search_fn_pattern")
            if pattern is None:
                return PatternMiss(_place(node), total, ("the search function cannot be traced with the inputs here",))
            again = pattern.match(node)
            if not again:
                return _miss(pattern, node, again)
        own = outer.get("extra_check", self._check)
        name = getattr(getattr(own, "func", own), "__name__", type(own).__name__)
        code = getattr(own, "__code__", None)
        line = f" ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})" if code is not None else ""
        return PatternMiss(_place(node), total, (f"extra_check {name}{line} refused the match",))

    def applied(self, matched: Any, graph: Any, node: Any) -> Any:
        """Replace the match."""
        self._use.fired.append(_place(node))
        return self._apply(matched, graph, node)

    def finish(self) -> None:
        """Note a match that the pass dropped before it asked extra_check."""
        if self._open is not None:
            self._use.note_miss(self._open)
        self._open = None


def _note_absent(use: PatternUse, pattern: Any, graph: Any) -> None:
    """Note the operator that a pattern ends with, if the graph has nowhere a call of it."""
    wanted = {id(target) for target in pattern.fns}
    calls = [node for node in graph.nodes if node.op == pattern.op]
    if any(id(node.target) in wanted for node in calls):
        return
    names = {_plain_name(target) for target in pattern.fns}
    similar = [node for node in calls if _plain_name(node.target) in names]
    told = f"the graph has nowhere {listed(map(_told_target, pattern.fns), _MOST_NAMED)}"
    for node in similar:
        use.note_miss(PatternMiss(_place(node), 0, (f"{told}, and here is {_told_target(node.target)}",)))


def _place(node: Any) -> str:
    origins = Origins(sources=True)
    scope, source = origins.scope(node), origins.source(node)
    parts = [part for part in (f"in module {scope}" if scope else "", source) if part]
    return f"{node.name} ({'; '.join(parts)})" if parts else str(node.name)


def _told_target(target: Any) -> str:
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    try:
        return readable_target(target)
    except (FxError, AttributeError):
        return repr(target)


def _plain_name(target: Any) -> str:
    target = getattr(target, "overloadpacket", target)
    return str(getattr(target, "__name__", target)).strip("_")


# A near match, by the rules of torch's pattern expressions.


def _miss(pattern: Any, node: Any, failed: Any) -> PatternMiss:
    compared = _Comparison(pattern, node.graph)
    compared.compare(pattern, node, node, None)
    return PatternMiss(_place(node), compared.agreed, tuple(compared.reasons) or (_words_of_torch(failed),))


def _words_of_torch(failed: Any) -> str:
    try:
        return f"torch says: {failed}"
    except (KeyError, IndexError):  # torch 2.6 leaves out a value that some of its sentences need
        return f"torch says: {failed!r}"


class _Comparison:
    """The comparison of a place with a pattern; unlike torch's, it goes on after a difference."""

    def __init__(self, pattern: Any, graph: Any) -> None:
        self._outputs = getattr(pattern, "outputs", [pattern])
        self._graph = graph
        self._stands_for: dict[Any, Any] = {}  # expression -> node or constant
        self.reasons: list[str] = []
        self.agreed = 0

    def compare(self, pattern: Any, obtained: Any, reader: Any, argument: str | None) -> None:
        """Compare an expression or a constant with an argument of the node `reader`; keep the reasons."""
        kinds = importlib.import_module(_MATCHER)
        if not isinstance(pattern, kinds.PatternExpr):
            if isinstance(obtained, torch.fx.Node) or obtained != pattern:
                self._tell(reader, f"{argument} is {_text(pattern)} in the pattern, and {_text(obtained)} here")
        elif pattern in self._stands_for:
            if self._stands_for[pattern] is not obtained and self._stands_for[pattern] != obtained:
                both = f"{_text(self._stands_for[pattern])} and {_text(obtained)}"
                self._tell(reader, f"the pattern reads {pattern} twice, and here these are two values, {both}")
        else:
            self._stands_for[pattern] = obtained
            if isinstance(pattern, kinds.MultiOutputPattern):
                self._compare_outputs(pattern, obtained)
            elif isinstance(pattern, kinds.ListOf):
                self._compare_list(pattern, obtained, reader, argument)
            elif isinstance(pattern, kinds.RepeatedExpr):
                self.compare(pattern.inner_pattern, obtained, reader, argument)
            elif isinstance(pattern, kinds._TargetExpr):
                self._compare_call(pattern, obtained, reader)

    def _compare_outputs(self, pattern: Any, node: Any) -> None:
        first, *others = pattern.outputs
        self.compare(first, node, node, None)
        context = part_of_torch(_MATCHER, "MatchContext", _NEEDED_FOR)
        for each in others:
            if each is None or each in self._stands_for:
                continue
            found = context(self._outputs, dict(self._stands_for), graph=self._graph)
            below = next(iter(each.find_anchor_nodes(found, set())), None)
            if below is None:
                told = listed(map(_told_target, each.fns), 1)
                self._tell(node, f"nothing that reads the same values is {told}, which the pattern returns too")
            else:
                self.compare(each, below, below, None)

    def _compare_list(self, pattern: Any, obtained: Any, reader: Any, argument: str | None) -> None:
        if not isinstance(obtained, (list, tuple)) or not obtained:
            self._tell(reader, f"{argument} is a list in the pattern, and {_text(obtained)} here")
        elif not pattern.partial:
            for each in obtained:
                inner = _Comparison(pattern.pattern, self._graph)
                inner.compare(pattern.pattern, each, reader, argument)
                self.agreed += inner.agreed
                self.reasons += inner.reasons

    def _compare_call(self, pattern: Any, node: Any, reader: Any) -> None:
        wanted = listed(map(_told_target, pattern.fns), 1, " or ")
        if not pattern._match_fns(node):
            is_call = isinstance(node, torch.fx.Node)
            here = _told_target(node.target) if is_call and node.op.startswith("call") else f"the value {_text(node)}"
            self._tell(node if is_call else reader, f"the pattern has {wanted}, and here is {here}")
            return
        self.agreed += 1
        is_output = any(pattern is output for output in self._outputs)
        if not is_output and isinstance(pattern.users, int) and len(node.users) != pattern.users:
            readers = ", ".join(user.name for user in node.users)
            times = counted(len(node.users), "node")
            self._tell(node, f"{wanted} is read by {times} here ({readers}), and by {pattern.users} in the pattern")
        if hasattr(pattern, "flat_args_kwargs"):
            self._compare_arguments(pattern, node, wanted)

    def _compare_arguments(self, pattern: Any, node: Any, wanted: str) -> None:
        args, kwargs = node.args, {name: node.kwargs[name] for name in pattern.kwargs if name in node.kwargs}
        values, spec = pattern.flatten(args, kwargs)
        expected, expected_spec = pattern.flat_args_kwargs
        if spec != expected_spec:
            here = f"({', '.join([*map(_text, args), *(f'{name}={_text(each)}' for name, each in kwargs.items())])})"
            self._tell(node, f"{wanted} is called with {_text(pattern)} in the pattern, with {here} here")
            return
        schema = getattr(node.target, "_schema", None)
        names = [argument.name for argument in schema.arguments] if schema is not None else []
        names = [*names[: len(args)], *kwargs] if len(args) + len(kwargs) == len(values) else []
        before = len(self.reasons)
        for place, (one, other) in enumerate(zip(expected, values, strict=True)):
            argument = f"argument {names[place]}" if place < len(names) else f"argument {place}"
            self.compare(one, other, node, f"{argument} of {wanted}")
        if len(self.reasons) > before and self._is_swapped(expected, values):
            self.reasons[before:] = []
            self._tell(node, f"the operands of {wanted} are swapped: torch's patterns keep their order")

    def _is_swapped(self, expected: Sequence[Any], values: Sequence[Any]) -> bool:
        if len(values) < 2 or not all(isinstance(value, torch.fx.Node) for value in values[:2]):
            return False
        swapped = _Comparison(None, self._graph)
        swapped._outputs = self._outputs
        for one, other in zip(expected, [values[1], values[0], *values[2:]], strict=True):
            swapped.compare(one, other, values[0], "")
        return not swapped.reasons

    def _tell(self, node: Any, reason: str) -> None:
        self.reasons.append(f"{_place(node)}: {reason}")


def _text(value: Any) -> str:
    text = f"%{value.name}" if isinstance(value, torch.fx.Node) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

"""YAML as plain data, read from the event stream, so that nothing is built that was not checked before.

PyYAML's own constructors are not used: they follow aliases and tags, keep the last of two equal keys, and the fast
one crashes the process on deep nesting.
"""

from __future__ import annotations

from typing import Any, NoReturn

import yaml

from pytest_fxgraph.document.model import MOST_RECORDS, YamlDataError

MOST_DEPTH = 256  # a graph nested in a graph takes four
MOST_EVENTS = 30 * MOST_RECORDS  # a node takes 12 to 20

_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the fast one is missing where PyYAML was built without C
_RESOLVERS = yaml.SafeLoader.yaml_implicit_resolvers
_TRUTH = {"true": True, "false": False}
_TOO_DEEP = f"it is nested deeper than {MOST_DEPTH} levels"


class Record(dict[str, Any]):
    """A mapping that knows its line, and those of its keys."""

    line: int

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, int] = {}


class Items(list[Any]):
    """A sequence that knows its line."""

    line: int


def read_yaml(text: str) -> Any:
    """Read one YAML document of texts, whole numbers, truth values, sequences and mappings with texts as keys.

    Raises YamlDataError if there is anything else: anchors, aliases, tags, equal keys, deep nesting, other types; and
    for what would take minutes to read.
    """
    records = text.count("\n- {") + text.count(" - {")
    if records > MOST_RECORDS:
        raise YamlDataError(f"it has {records:,} nodes, modules and tensors, and {MOST_RECORDS:,} are the most")
    reader = _Reader()
    try:
        for number, event in enumerate(yaml.parse(text, Loader=_PARSER)):
            if number > MOST_EVENTS:
                raise YamlDataError(f"it holds more than {MOST_EVENTS:,} texts, lists and mappings")
            reader.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context
        # libyaml scans ahead of its events, and from 0.2.6 on it refuses 1,000 levels before we can count 256.
        reason = _TOO_DEEP if problem == "exceeded maximum nesting depth" else f"it is not YAML: {problem}"
        raise YamlDataError(reason, mark.line + 1 if mark else None) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlDataError(f"it is not YAML: {error.reason}", line) from None
    return reader.result()


class _Reader:
    """Builds the data from events, one at a time, with a stack of open containers."""

    def __init__(self) -> None:
        self._open: list[Record | Items] = []
        self._keys: list[str | None] = []  # for each open mapping the key whose value comes next
        self._documents: list[Any] = []

    def take(self, event: Any) -> None:
        """Check an event and add what it says."""
        kind = type(event)
        if kind is yaml.ScalarEvent:
            self._check(event)
            self._scalar(event)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            self._check(event)
            self._start(event, Record() if kind is yaml.MappingStartEvent else Items())
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self._open.pop()
            self._keys.pop()
        elif kind is yaml.AliasEvent:
            _refuse(event, f"it has an alias (*{event.anchor}), which golden files never have")
        elif kind is yaml.DocumentStartEvent:
            self._start_document(event)

    def result(self) -> Any:
        """Return what was read. Raises YamlDataError if nothing was."""
        if not self._documents:
            raise YamlDataError("it is empty")
        return self._documents[0]

    def _check(self, event: Any) -> None:
        if event.anchor is not None:
            _refuse(event, f"it has an anchor (&{event.anchor}), which golden files never have")
        if event.tag is not None:
            _refuse(event, f"it has a tag ({event.tag[:80]}), which golden files never have")

    def _start_document(self, event: Any) -> None:
        if event.tags:
            _refuse(event, "it declares tags, which golden files never have")
        if self._documents:
            _refuse(event, "it holds more than one YAML document")

    def _scalar(self, event: Any) -> None:
        if self._open and type(self._open[-1]) is Record and self._keys[-1] is None:
            self._key(event)
        else:
            self._add(_scalar_value(event))

    def _key(self, event: Any) -> None:
        key = _scalar_value(event)
        record = self._open[-1]
        if not isinstance(key, str):
            _refuse(event, f"the key {event.value} is not quoted, so YAML does not read it as text")
        if key in record:
            _refuse(event, f"the key {key!r} stands there twice")
        self._keys[-1] = key
        if isinstance(record, Record):
            record.lines[key] = event.start_mark.line + 1

    def _start(self, event: Any, container: Record | Items) -> None:
        if len(self._open) >= MOST_DEPTH:
            _refuse(event, _TOO_DEEP)
        if self._open and type(self._open[-1]) is Record and self._keys[-1] is None:
            _refuse(event, "a key is not text")
        container.line = event.start_mark.line + 1
        self._add(container)
        self._open.append(container)
        self._keys.append(None)

    def _add(self, value: Any) -> None:
        if not self._open:
            self._documents.append(value)
            return
        container = self._open[-1]
        if isinstance(container, Items):
            container.append(value)
        else:
            container[str(self._keys[-1])] = value
            self._keys[-1] = None


def _scalar_value(event: Any) -> str | bool | int:
    """Give a text where YAML reads a text; of what it reads as something else, truth values and whole numbers only."""
    value: str = event.value
    if event.style:  # quoted, or a literal block; the fast parser says "" for plain, the other None
        return value
    for tag, pattern in _RESOLVERS.get(value[:1], ()):
        if pattern.match(value):
            return _other_value(event, tag)
    return value


def _other_value(event: Any, tag: str) -> bool | int:
    if event.value in _TRUTH:
        return _TRUTH[event.value]
    if not (event.value.isdecimal() and event.value.isascii() and len(event.value) < 19):
        _refuse(event, f"{event.value[:40]!r} is not quoted, and YAML reads it as {tag.rpartition(':')[2]}")
    return int(event.value)


def _refuse(event: Any, reason: str) -> NoReturn:
    raise YamlDataError(reason, event.start_mark.line + 1)

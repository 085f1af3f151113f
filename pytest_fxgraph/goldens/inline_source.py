"""The source of a file that holds inline goldens: finds the text of a call, and replaces it; all other bytes stay.

A call is known by where it ends in the tree of the very bytes that are rewritten, so that it does not matter how a
formatter has laid it out.
"""

from __future__ import annotations

import ast
import codecs
import functools
import hashlib
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

from pytest_fxgraph.document.literals import escaped
from pytest_fxgraph.errors import GoldenWriteError
from pytest_fxgraph.goldens.inline_text import dedented

Place = tuple[int, int]  # a line, and a column in bytes of UTF-8, as Python's trees count them

_LINE_END = re.compile(r"\r\n|\r|\n")
_TRIPLE = ('"""', "'''")
# One literal, and no second one behind it.
_ONE_LITERAL = re.compile(
    r"""(?P<prefix>[rRuU]?)(?:(?P<triple>'{3}|"{3})(?:(?!(?P=triple))[^\\]|\\.)*(?P=triple)"""
    r"""|(?P<single>['"])(?:(?!(?P=single))[^\\]|\\.)*(?P=single))""",
    re.DOTALL,
)
_REMEDY = 'write one text in quotes where fx_golden.inline is called: fx_golden.inline("""...""")'


@dataclass(frozen=True)
class Literal:
    """The text of one call: its characters in the source, its quotes and its value."""

    start: int
    end: int
    value: str | None = None  # None where the call has no text yet
    prefix: str = ""
    quotes: str = ""  # three characters, or one
    behind: str = ""  # goes between a new text and the rest of the call


class InlineSource:
    """The source of one file with the calls in it; `shown_as` names it in errors.

    Raises GoldenWriteError for a file that is no Python source.
    """

    def __init__(self, content: bytes, shown_as: str) -> None:
        self._shown_as = shown_as
        self._mark = codecs.BOM_UTF8 if content.startswith(codecs.BOM_UTF8) else b""
        self._content = content
        try:
            lines = io.BytesIO(content.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
            encoding = tokenize.detect_encoding(lines.readline)[0]
            self._encoding = "utf-8" if encoding == "utf-8-sig" else encoding
            self._text = content[len(self._mark) :].decode(self._encoding)
            self._tree = ast.parse(content)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise GoldenWriteError(
                f"cannot write the inline goldens of {shown_as}: it cannot be read as Python "
                f"({' '.join(str(error).split()) or type(error).__name__}); mend the file"
            ) from None
        self._starts = [0, *(found.end() for found in _LINE_END.finditer(self._text))]
        self._calls = {_end_of(call): call for call in _calls_of(self._tree)}

    def find(self, end: Place | None, line: int, text: str | None) -> Place:
        """Return the end of a call. The running code knows the end and the text; Python 3.10 knows only the line.

        Raises GoldenWriteError if that call is not there, or its text is not a literal of its own.
        """
        if end is None or end not in self._calls:
            end = self._only_call_at(line, text)
        if self._literal(end).value != text:
            self._refuse(
                line, "the text that fx_golden.inline was given is not the one that stands there", "run the tests again"
            )
        return end

    @functools.cached_property
    def program(self) -> str:
        """A digest of the program without the texts of inline goldens: a run that writes texts leaves it as it is."""
        calls = [call for call in self._calls.values() if _may_give(call, None) or _has_plain_text(call)]
        texts = [call.args for call in calls]
        for call in calls:
            call.args = []
        try:
            return hashlib.sha256(ast.dump(self._tree).encode("utf-8", "surrogatepass")).hexdigest()
        finally:
            for call, given in zip(calls, texts, strict=True):
                call.args = given

    def number_of(self, end: Place) -> int:
        """Return the position of a call among all calls. All files with this `program` share it."""
        return [*self._calls].index(end)

    def call_of(self, number: int) -> tuple[Place, str]:
        """Return the end of the call at a position, and its text as `dedented` gives it."""
        end = [*self._calls][number]
        return end, dedented(self._literal(end).value or "")

    def first_line(self, end: Place) -> int | None:
        """Return the line in which the text of a call begins; None where its lines are not those of the source."""
        literal = self._literal(end)
        written = self._text[literal.start : literal.end]
        if literal.quotes not in _TRIPLE or ("\\" in written and literal.prefix not in ("r", "R")):
            return None
        return self._line_of(literal.start)

    def rewritten(self, texts: Mapping[Place, str]) -> bytes:
        """Return the bytes of the file with new texts, by the ends of their calls; every other byte is as it was.

        A text is as `write_inline` gives it. Raises GoldenWriteError if that cannot be done.
        """
        pieces: list[bytes] = []
        done = 0
        literals = sorted(((self._literal(end), text) for end, text in texts.items()), key=lambda each: each[0].start)
        for literal, text in literals:
            pieces += [self._content[done : self._byte(literal.start)], self._replacement(literal, text)]
            done = self._byte(literal.end)
        content = b"".join([*pieces, self._content[done:]])
        self._check(content, texts)
        return content

    # Where a call is.

    def _only_call_at(self, line: int, text: str | None) -> Place:
        """Return the innermost call with this text at a line, for Python 3.10."""
        nearby = [end for end, call in self._calls.items() if call.lineno <= line <= end[0] and _may_give(call, text)]
        latest = max((self._calls[end].lineno for end in nearby), default=0)
        found = [end for end in nearby if self._calls[end].lineno == latest]
        if not found:
            self._refuse(line, "no call of fx_golden.inline with a text of its own stands there", _REMEDY)
        if len(found) > 1:
            remedy = "put each on a line of its own"
            self._refuse(line, "more than one call of fx_golden.inline with the same text stands there", remedy)
        return found[0]

    def _literal(self, end: Place) -> Literal:
        call = self._calls.get(end)
        if call is None:  # the tests ran under another Python, on another machine
            self._refuse(end[0], "no call ends where the tests have found one", "run the tests on this machine")
        if not call.args:
            return self._place_for_text(call)
        first = call.args[0]
        if isinstance(first, ast.JoinedStr):
            self._refuse(first.lineno, "its text is an f-string, which may say something else in each run", _REMEDY)
        if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
            self._refuse(first.lineno, "its text is not a literal, but made or kept elsewhere", _REMEDY)
        start, last = self._index((first.lineno, first.col_offset)), self._index(_end_of(first))
        found = _ONE_LITERAL.fullmatch(self._text, start, last)
        if found is None:
            self._refuse(first.lineno, "its text is made of several literals side by side", "make them one text")
        return Literal(start, last, first.value, found["prefix"], found["triple"] or found["single"])

    def _place_for_text(self, call: ast.Call) -> Literal:
        """Return the place behind the bracket that opens a call without a text."""
        position, end = self._index(_end_of(call.func)), self._index(_end_of(call))
        # Comments and brackets around the function may stand before it.
        while self._text[position] != "(":
            is_comment = self._text[position] == "#"
            position = _LINE_END.search(self._text, position).end() if is_comment else position + 1  # type: ignore[union-attr]  # a comment before the bracket ends with its line
        position += 1
        rest = self._text[position : end - 1]
        return Literal(
            position, position, behind=", " if call.keywords and not rest[:1].isspace() else "," * bool(call.keywords)
        )

    def _index(self, place: Place) -> int:
        line, column = place
        start = self._starts[line - 1]
        stop = self._starts[line] if line < len(self._starts) else len(self._text)
        return start + len(self._text[start:stop].encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore"))

    def _line_of(self, index: int) -> int:
        return len(_LINE_END.findall(self._text, 0, index)) + 1

    def _byte(self, index: int) -> int:
        before = self._mark + self._text[:index].encode(self._encoding)
        if not self._content.startswith(before):
            raise GoldenWriteError(
                f"cannot write the inline goldens of {self._shown_as}: its encoding, {self._encoding}, does not say in "
                "one way which bytes a text is; convert the file to UTF-8"
            )
        return len(before)

    # Writing.

    def _replacement(self, literal: Literal, text: str) -> bytes:
        line = self._line_of(literal.start)
        start = self._starts[line - 1]
        blanks = re.compile(r"[ \t]*")
        base = blanks.match(self._text, start)[0]  # type: ignore[index]  # matches anything
        margin, closing = _layout(literal.value or "", base)
        lines = [f"{margin}{each}" if each else "" for each in text.removesuffix("\n").split("\n")]
        body = "\n".join(["", *lines, closing])
        quoted = _quoted(body, literal, self._encoding)
        ends = _LINE_END.search(self._text, start) or _LINE_END.search(self._text)
        return (quoted.replace("\n", ends[0] if ends else "\n") + literal.behind).encode(self._encoding)

    def _check(self, content: bytes, texts: Mapping[Place, str]) -> None:
        """Refuse a result that is another program, apart from the texts."""
        written = InlineSource(content, self._shown_as)
        calls, new_calls = list(_calls_of(self._tree)), list(_calls_of(written._tree))
        is_same = len(calls) == len(new_calls)
        kept: list[tuple[ast.Call, list[ast.expr]]] = []
        for call, new in zip(calls, new_calls, strict=False):
            if _end_of(call) in texts:
                first = new.args[0] if new.args else None
                value = first.value if isinstance(first, ast.Constant) else None
                is_same &= isinstance(value, str) and dedented(value) == texts[_end_of(call)]
                kept.append((new, new.args))
                new.args = call.args
        is_same = is_same and ast.dump(self._tree) == ast.dump(written._tree)
        if not is_same:
            raise GoldenWriteError(
                f"cannot write the inline goldens of {self._shown_as}: the file would not be the same program with "
                "other texts; nothing was written, please report this with the file"
            )

    def _refuse(self, line: int, reason: str, remedy: str) -> NoReturn:
        raise GoldenWriteError(f"cannot write the inline golden {self._shown_as}:{line}: {reason}; {remedy}")


def _calls_of(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield all calls outside of f-strings. Python 3.10 and 3.11 do not know the places inside f-strings."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call):
            yield node
        if not isinstance(node, ast.JoinedStr):
            pending.extend(ast.iter_child_nodes(node))


def _end_of(node: ast.expr) -> Place:
    return node.end_lineno or 0, node.end_col_offset or 0  # parsed trees have both


def _has_plain_text(call: ast.Call) -> bool:
    """Tell whether a call of `inline` has a text, and nothing else, between its brackets."""
    first = call.args[0] if len(call.args) == 1 else None
    return isinstance(first, ast.Constant) and isinstance(first.value, str) and _may_give(call, first.value)


def _may_give(call: ast.Call, text: str | None) -> bool:
    """Tell whether a call may be the one of `inline` that gave a text."""
    is_named = isinstance(call.func, ast.Attribute) and call.func.attr == "inline"
    if not call.args:
        return text is None and is_named
    return text is not None and isinstance(call.args[0], ast.Constant) and call.args[0].value == text


def _layout(text: str, base: str) -> tuple[str, str]:
    """Return how lines of a text are indented, and its closing quotes: as before, else by one step below the call."""
    first, *lines = text.split("\n")
    filled = [line for line in lines if line.strip()]
    if first.strip() or not filled:
        return base + ("\t" if "\t" in base else "    "), base
    dedented_line = textwrap.dedent("\n".join(filled)).partition("\n")[0]
    margin = filled[0][: len(filled[0]) - len(dedented_line)]
    return margin, base if lines[-1].strip() else lines[-1]


def _quoted(body: str, literal: Literal, encoding: str) -> str:
    """Quote a text in three quotes: raw if it has backslashes, else with escapes where a character needs one."""
    can_be_encoded = _can_encode(body, encoding)
    quotes = literal.quotes if literal.quotes in _TRIPLE else '"""'
    if quotes in body:
        quotes = next((each for each in _TRIPLE if each not in body), quotes)
    if quotes not in body and can_be_encoded:
        is_raw = "\\" in body or literal.prefix in ("r", "R")
        return f"{(literal.prefix if literal.prefix in ('r', 'R') else 'r') if is_raw else ''}{quotes}{body}{quotes}"
    masked = body.replace("\\", "\\\\").replace(quotes, "".join(f"\\{quote}" for quote in quotes))
    return f"{quotes}{''.join(each if _can_encode(each, encoding) else escaped(each) for each in masked)}{quotes}"


def _can_encode(text: str, encoding: str) -> bool:
    try:
        return text.encode(encoding).decode(encoding) == text
    except UnicodeError:
        return False

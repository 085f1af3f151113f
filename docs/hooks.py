"""What mkdocs is told: tables made from the parsers, which cannot go stale, and links that lead out of this folder."""

from __future__ import annotations

import argparse
import html
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
REPOSITORY = "https://github.com/pytest-fxgraph/pytest-fxgraph/blob/main/"
# Code first, so that nothing in it is taken for a comment or a link.
_CODE = r"^(?P<indent> *)(?P<fence>`{3,})[^\n]*\n.*?^(?P=indent)(?P=fence)$|(?P<tick>`+)(?!`)[^\n]*?(?P=tick)"
_ITEM = re.compile(rf"{_CODE}|<!--(?P<comment>.*?)-->\n?|(?P<link>(?<=\]\()\.\./[^)\s]+)", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Rewrite a page before mkdocs reads it."""
    return rewritten(markdown, page.file.src_uri)


def rewritten(markdown: str, place: str) -> str:
    """Put in what is generated, leave comments out, and let links to files of the repository lead there."""

    def replace(found: re.Match[str]) -> str:
        if found["comment"] is not None:
            kind, _, name = found["comment"].strip().partition(": ")
            return GENERATED[name]() if kind == "generated" else ""
        if found["link"]:
            target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(place), found["link"]))
            return found["link"] if target.startswith("docs/") else REPOSITORY + target
        return found[0]

    return _ITEM.sub(replace, markdown)


def options_table() -> str:
    """Make the table of pytest's options from the parser that registers them."""
    from _pytest.config.argparsing import Parser

    from pytest_fxgraph import settings

    parser = Parser(_ispytest=True)
    settings.add_options(parser)
    rows = ["| command line | ini | meaning |", "|---|---|---|"]
    for option in parser.getgroup("fxgraph").options:
        attributes = option.attrs()
        choices = ",".join(attributes.get("choices") or ())
        words = attributes.get("metavar") or (choices and f"{{{choices}}}")
        key = attributes["dest"] if attributes["dest"] in parser._inidict else ""
        rows.append(_row(_code(f"{option.names()[0]} {words}".strip()), _code(key), _cell(attributes["help"])))
    return "\n".join(rows) + "\n"


def marker_text() -> str:
    """Show the marker as pytest --markers does."""
    from pytest_fxgraph import settings

    head, _, meaning = settings.MARKER.partition("): ")
    arguments = head.partition("(")[2].replace(", ", ",\n    ")
    return f"```text\n@pytest.mark.fx(\n    {arguments},\n)\n```\n\n{meaning[0].upper()}{meaning[1:]}\n"


def command_sections() -> str:
    """Describe the command and each of its commands, from argparse."""
    from pytest_fxgraph.command.main import _parser

    parser = _parser()
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    helps = {choice.dest: choice.help or "" for choice in commands._choices_actions}
    sections = [f"```text\n{parser.epilog}```\n" if parser.epilog else ""]
    for name, command in commands.choices.items():
        sections.append(f"## `fxgraph {name}`\n\n{_sentence(command.description or helps.get(name, ''))}\n")
        usage = " ".join(command.format_usage().removeprefix("usage: ").split())
        sections.append(f"```text\n{usage}\n```\n")
        sections.append("\n".join(["| argument | meaning |", "|---|---|", *_arguments_of(command)]) + "\n")
        if command.epilog:
            sections.append(f"```text\n{command.epilog.strip()}\n```\n")
    return "\n".join(sections)


def _arguments_of(command: argparse.ArgumentParser) -> Iterator[str]:
    for action in command._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
        metavar = action.metavar if isinstance(action.metavar, str) else choices or action.dest.upper()
        takes_value = action.nargs != 0
        names = [f"{name} {metavar}" if takes_value else name for name in action.option_strings] or [metavar]
        text = (action.help or "") % {**vars(action), "prog": command.prog}
        yield _row(", ".join(map(_code, names)), _cell(text))


def report_sections() -> str:
    """Describe the objects of the JSON report, from its schema."""
    schema = json.loads((DOCS / "report.schema.json").read_text(encoding="utf-8"))
    objects = {"The report": schema, **{f"`{name}`": each for name, each in schema["$defs"].items()}}
    sections = []
    for name, each in objects.items():
        rows = ["| key | type | meaning |", "|---|---|---|"]
        rows += [
            _row(_code(key), _type_of(value), _cell(value.get("description", "")))
            for key, value in each.get("properties", {}).items()
        ]
        description = each.get("description", "")
        sections.append(f"## {name}\n\n{_sentence(description)}\n\n" + "\n".join(rows) + "\n")
    return "\n".join(sections)


def _type_of(value: dict[str, Any]) -> str:
    if "$ref" in value:
        return _code(value["$ref"].rpartition("/")[2])
    if "enum" in value:
        return " or ".join(_code(json.dumps(each)) for each in value["enum"])
    if value.get("type") == "array":
        return "list of " + _type_of(value["items"])
    if value.get("type") == "object" and isinstance(value.get("additionalProperties"), dict):
        return "object of " + _type_of(value["additionalProperties"])
    kinds = value.get("type", "any")
    return " or ".join([kinds] if isinstance(kinds, str) else kinds)


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text and text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _code(text: str) -> str:
    return f"<code>{_cell(text)}</code>" if text else ""


def _cell(text: str) -> str:
    """Escape what HTML, a table or Markdown would take for its own."""
    escaped = html.escape(" ".join(text.split()), quote=False)
    return re.sub(r"[|*_]", lambda found: f"&#{ord(found[0])};", escaped)


GENERATED = {
    "options": options_table,
    "marker": marker_text,
    "command": command_sections,
    "report": report_sections,
}

"""The pages of the site as Markdown: `python docs/pages.py FOLDER` writes them for the site's builder.

Tables come from the parsers and the source, so they cannot go stale. Links out of this folder lead to the repository.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import html
import inspect
import json
import posixpath
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
REPOSITORY = "https://github.com/pytest-fxgraph/pytest-fxgraph/blob/main/"
# Code first, so that nothing in it is taken for a comment or a link.
_CODE = (
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<info>[^\n]*)\n(?P<code>.*?)^(?P=indent)(?P=fence)$"
    r"|(?P<tick>`+)(?!`)[^\n]*?(?P=tick)"
)
_ITEM = re.compile(rf"{_CODE}|<!--(?P<comment>.*?)-->\n?|(?P<link>(?<=\]\()\.\./[^)\s]+)", re.MULTILINE | re.DOTALL)


def write_pages(folder: Path) -> int:
    """Write all pages, and the files beside them, into an empty or new folder; return the number of pages.

    Raises FileExistsError if something is in the folder, because an old page would stay in the site.
    """
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"cannot write the pages to {folder}: something is in it; delete the folder first")
    pages = 0
    for file in sorted(DOCS.rglob("*")):
        if file.is_dir() or file.suffix in (".py", ".pyc"):
            continue
        copy = folder / file.relative_to(DOCS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            pages += 1
            markdown = rewritten(file.read_text(encoding="utf-8"), file.relative_to(DOCS).as_posix())
            copy.write_text(markdown, encoding="utf-8", newline="\n")
        else:
            shutil.copyfile(file, copy)
    return pages


def rewritten(markdown: str, place: str) -> str:
    """Put in what is generated, leave comments out, and let links to files of the repository lead there."""

    def replace(found: re.Match[str]) -> str:
        if found["comment"] is not None:
            kind, _, name = found["comment"].strip().partition(": ")
            return GENERATED[name]() if kind == "generated" else ""
        if found["link"]:
            target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(place), found["link"]))
            return found["link"] if target.startswith("docs/") else REPOSITORY + target
        if found["info"] == "mermaid":
            return _picture_of(found["code"], place) or found[0]
        return found[0]

    return _ITEM.sub(replace, markdown)


def _picture_of(diagram: str, place: str) -> str:
    """Link the picture of a mermaid diagram, as mermaid itself would have to be fetched; "" if there is none."""
    name = f"images/mermaid-{hashlib.sha256(diagram.encode()).hexdigest()[:12]}.svg"
    return f"![diagram]({posixpath.relpath(name, posixpath.dirname(place))})" if (DOCS / name).exists() else ""


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
    on_command_line = {option.attrs()["dest"] for option in parser.getgroup("fxgraph").options}
    for key, (meaning, *_) in parser._inidict.items():
        if key not in on_command_line:
            rows.append(_row("", _code(key), _cell(meaning)))
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
        if command.epilog:  # its examples
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


def hook_sections() -> str:
    """Show each hook with its manual, and with its example as code."""
    from pytest_fxgraph import hookspecs

    sections = []
    for name, hook in vars(hookspecs).items():
        if not name.startswith("pytest_fxgraph_"):
            continue
        text, _, example = inspect.cleandoc(hook.__doc__ or "").partition("\n\nExample")
        title, _, code = example.partition("::\n\n")
        signature = str(inspect.signature(hook)).replace("'", "")
        description, *fields = re.split(r"\n:(?=param|returns)", text)
        sections.append(f"## `{name}`\n\n```python\ndef {name}{signature}\n```\n\n{description}\n")
        for field in fields:
            key, _, meaning = field.partition(": ")
            heading = f"`{key.removeprefix('param ')}`" if key.startswith("param") else "Returns"
            sections.append(f"- {heading}: {' '.join(meaning.split())}")
        sections.append(f"\nExample{title}:\n\n```python\n{textwrap.dedent(code)}\n```\n")
    return "\n".join(sections)


def error_table(file: str) -> str:
    """List the errors of a file, and what builtin class each is; the file is read and not imported."""
    classes = [node for node in ast.parse(_source(file)).body if isinstance(node, ast.ClassDef) and node.bases]
    own = {each.name for each in classes} | {"Exception"}
    rows = ["| error | is also | raised because |", "|---|---|---|"]
    for each in classes:
        bases = [ast.unparse(base) for base in each.bases]
        above = [base for base in bases if base in own - {"Exception"}]
        builtin = [base for base in bases if base not in own]
        names = ", ".join(map(_code, [*above, *builtin]))
        meaning = (ast.get_docstring(each) or "").partition("\n\n")[0]
        rows.append(_row(_code(each.name), names, _cell(meaning)))
    return "\n".join(rows) + "\n"


def format_sections() -> str:
    """List the fields of a golden's records, with the comments that stand beside them in the source."""
    file = "pytest_fxgraph/document/model.py"
    lines = _source(file).splitlines()
    sections = []
    for record in ast.parse("\n".join(lines)).body:
        if not isinstance(record, ast.ClassDef):
            continue
        rows = ["| field | type | meaning |", "|---|---|---|"]
        for field in record.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                meaning = _comment_of(field.lineno - 1, lines)
                rows.append(_row(_code(field.target.id), _code(ast.unparse(field.annotation)), _cell(meaning)))
        description = (ast.get_docstring(record) or "").partition("\n\n")[0]
        sections.append(f"## `{record.name}`\n\n{description}\n\n" + "\n".join(rows) + "\n")
    return "\n".join(sections)


def _comment_of(number: int, lines: list[str]) -> str:
    """Return the comment at the end of a line, or the lines of comment above it."""
    _, _, beside = lines[number].partition("  # ")
    if beside:
        return beside
    above: list[str] = []
    while lines[number - 1].lstrip().startswith("# "):
        number -= 1
        above.insert(0, lines[number].strip()[2:])
    return " ".join(above)


def choices_table() -> str:
    """List the words that options and arguments take."""
    from pytest_fxgraph import arguments, choices

    words = {
        "level": choices.LEVELS,
        "constants": choices.CONSTANT_FORMS,
        "code": choices.CODE_FORMS,
        "frontend": choices.FRONTENDS,
        "checks": choices.CHECKS,
        "modes": arguments.MODES,
        "trace": arguments.TRACES,
    }
    rows = [_row(_code(name), ", ".join(map(_code, allowed))) for name, allowed in words.items()]
    return "\n".join(["| argument | words |", "|---|---|", *rows]) + "\n"


def _source(file: str) -> str:
    return (DOCS.parent / file).read_text(encoding="utf-8")


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
    """Escape what HTML, a table or Markdown would take for its own; words in backticks stay code."""
    escaped = html.escape(" ".join(text.split()), quote=False)
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    return re.sub(r"[|*_]", lambda found: f"&#{ord(found[0])};", escaped)


GENERATED = {
    "options": options_table,
    "marker": marker_text,
    "command": command_sections,
    "report": report_sections,
    "hooks": hook_sections,
    "format": format_sections,
    "choices": choices_table,
    "errors of pytest_fxgraph": lambda: error_table("pytest_fxgraph/errors.py"),
    "errors of fxcore": lambda: error_table("fxcore/errors.py"),
}


if __name__ == "__main__":
    print(f"wrote {write_pages(Path(sys.argv[1]))} pages to {sys.argv[1]}")

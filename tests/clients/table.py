"""The table of all cases, and the page that a run writes: `python -m tests.clients.table --write`."""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.clients import brevitas_passes, captures, executorch_passes, quantizers, symbolic_passes
from tests.clients.case import CASES, Case
from tests.clients.verdict import CAUGHT, MISSED, UNNAMED, Verdict, judge

LIBRARIES = (brevitas_passes, captures, executorch_passes, quantizers, symbolic_passes)
DOCUMENT = Path(__file__).parents[2] / "docs/clients.md"
START, END = "<!-- cases: start -->\n", "<!-- cases: end -->\n"
_LONGEST_MESSAGE = 150  # of a cell


def libraries() -> list[str]:
    """List the libraries in the order of the page."""
    return sorted({case.library for case in CASES}, key=str.lower)


def rows_of(library: str) -> list[Case]:
    return [case for case in CASES if case.library == library]


def facts(case: Case) -> str:
    """Return the columns of a row that no run decides."""
    return f"| `{case.name}` | {case.dialect} | {case.model} | `{case.check}` | {case.harm} |"


def table(verdicts: dict[str, Verdict]) -> Iterator[str]:
    """Yield the lines between the marks of the page; a known gap has its reason in place of a message."""
    kinds = Counter(verdict.kind for verdict in verdicts.values())
    yield (
        f"{len({(case.library, case.name) for case in CASES})} passes, captures and recipes of {len(libraries())} "
        f"libraries, {len(CASES)} cases with their dialects: every right one is accepted, {kinds[CAUGHT]} spoilt ones "
        f"are refused by name. Known gaps: {kinds[UNNAMED]} refused without the name, {kinds[MISSED]} not seen."
    )
    for library in libraries():
        yield f"\n### {library} {importlib.metadata.version(library)}\n"
        yield "| pass or recipe | dialect | model | check | harm | line of the message |"
        yield "|---|---|---|---|---|---|"
        for case in rows_of(library):
            verdict = verdicts[case.identity]
            last = f"`{shortened(verdict.message)}`" if verdict.kind == CAUGHT else f"gap: {case.gap}"
            yield f"{facts(case)} {last} |"


def shortened(message: str) -> str:
    """Return a message for a cell: without places in files, without bars, cut to a readable length."""
    text = re.sub(r"(,| \()\s*\w+\.py:\d+(: [^;]*)?", "", message).replace("|", "/").replace("`", "'")
    text = re.sub(r"\S*[/\\](golden(\.\w+)?\.yaml)", r"\1", text)  # the run's temporary folder
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 3] + "..."


def between_marks() -> str:
    """Return the table of the page."""
    return DOCUMENT.read_text(encoding="utf-8").partition(START)[2].partition(END)[0]


def write(lines: Sequence[str]) -> None:
    """Replace the table of the page."""
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(START)
    DOCUMENT.write_text(before + START + "\n".join(lines) + "\n" + END + rest.partition(END)[2], encoding="utf-8")


def _is_expected(case: Case, verdict: Verdict) -> bool:
    return verdict.kind in (MISSED, UNNAMED) if case.gap else verdict.kind == CAUGHT


def main() -> None:
    """Judge every case, and show or write the table; exit with 1 for a wrong case or a missing wheel."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/clients.md")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    verdicts = {case.identity: judge(case) for case in CASES}
    wrong = [case for case in CASES if not _is_expected(case, verdicts[case.identity])]
    for case in wrong:
        verdict = verdicts[case.identity]
        print(f"{case.identity}: {verdict.kind}\n    {verdict.message}", file=sys.stderr)
    if wrong:
        sys.exit(f"{len(wrong)} of {len(CASES)} cases are not as expected; the page is not written")
    lines = list(table(verdicts))
    if chosen.write:
        write(lines)
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()

"""Turn results into the tables of docs/reach.md: `python -m benchmarks.reach.table RESULTS... [docs/reach.md]`."""

from __future__ import annotations

import json
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.reach.free_sizes import SIZE_WAYS
from benchmarks.reach.outcome import VARIES
from benchmarks.reach.ways import WAYS

Data = dict[str, Any]
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
SIZES_BEGIN, SIZES_END = "<!-- sizes: begin -->", "<!-- sizes: end -->"
SMALL_PACKAGE = 6  # packages with fewer models share a line


def write_tables(names: Sequence[str]) -> None:
    """Print the tables of files of results, or write them between the marks of a page, if one is among the names.

    Tables without results, such as the one of sizes, stay as they are on the page.
    """
    pages = [name for name in names if name.endswith(".md")]
    results = read([Path(name) for name in names if name not in pages])
    texts = {}
    if any(result.get("ways") for result in results):
        texts[BEGIN, END] = "\n".join(part(results) for part in PARTS)
    if any("sizes" in result for result in results):
        texts[SIZES_BEGIN, SIZES_END] = free_sizes(results)
    if not pages:
        print("\n".join(texts.values()))
        return
    page = Path(pages[0])
    for (begin, end), text in texts.items():
        before, _, rest = page.read_text(encoding="utf-8").partition(begin)
        page.write_text(f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def read(files: Sequence[Path]) -> list[Data]:
    """Read results; of a model measured twice, the later line counts for the ways that it holds."""
    found: dict[str, Data] = {}
    for line in [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]:
        new = json.loads(line)
        old = found.get(new["model"], {})
        if "ways" in old and "ways" not in new:
            continue  # it runs, and hung or crashed in a later measurement
        merged = {**old, **new}
        for key in ("ways", "train_ways"):
            if key in old or key in new:
                merged[key] = {**old.get(key, {}), **new.get(key, {})}
        found[new["model"]] = merged
    return [found[name] for name in sorted(found)]


def verdict(result: Data | None) -> str:
    """Sort a capture: right, refused on another size, wrong without an error, not compared, failed, not measured.

    It is not comparable where eager itself gives other results in another run.
    """
    if result is None or result["status"] == "not there":
        return "not measured"
    if result["status"] != "captured":
        return "failed"
    if "example" not in result:
        return "not compared"  # measured in brief
    outcomes = {name: result.get(name) for name in ("example", "fresh", "second")}
    if any(found is not None and str(found).startswith("raises") for found in (outcomes["example"], outcomes["fresh"])):
        return "failed"
    if any(str(found).startswith(VARIES) for found in outcomes.values()):
        return "not comparable"
    if any(found is not None and not str(found).startswith("raises") for found in outcomes.values()):
        return "wrong"
    return "right" if outcomes["second"] is None else "one size"


def way_of(result: Data, way: str, part: str = "ways") -> Data | None:
    """Return what was found of a model in one way."""
    found: Data | None = result.get(part, {}).get(way)
    return found


def is_graph(result: Data | None) -> bool:
    """Tell whether a graph gives the model's results on the example and on fresh inputs of its size."""
    return verdict(result) in ("right", "one size")


def line(cells: Iterable[object]) -> str:
    """Write a row of a table."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def table(head: list[str], rows: Iterable[Iterable[object]]) -> str:
    """Write a table of markdown."""
    return "\n".join([line(head), line(["---"] * len(head)), *(line(row) for row in rows), ""])


def measured_ways(results: list[Data]) -> list[str]:
    """Return the ways that were measured, in the order of the tables' columns."""
    return [way for way in WAYS if any(way_of(result, way) for result in results)]


def main_ways(results: list[Data]) -> list[str]:
    """Return the ways in which most models were measured."""
    running = [result for result in results if result["status"] == "runs"]
    return [way for way in WAYS if 2 * sum(is_measured(result, way) for result in running) > len(running)]


def is_measured(result: Data, way: str) -> bool:
    """Tell whether a model was measured in one way."""
    return verdict(way_of(result, way)) != "not measured"


def by_package(results: list[Data]) -> str:
    """Count, for each package and way, the models whose graph computes what the model does."""
    groups: dict[str, list[Data]] = defaultdict(list)
    for result in results:
        groups[result["model"].partition("/")[0]].append(result)
    small = [name for name, members in groups.items() if len(members) < SMALL_PACKAGE]
    rest = [member for name in small for member in groups.pop(name)]
    ways = main_ways(results)
    rows = [row_of(name, members, ways) for name, members in sorted(groups.items(), key=lambda item: -len(item[1]))]
    rows += [row_of(f"{len(small)} more packages", rest, ways)] if rest else []
    rows.append(row_of("**all**", results, ways))
    return "### Models with a right graph\n\n" + table(["package", "models", *(WAYS[way].title for way in ways)], rows)


def row_of(name: str, members: list[Data], ways: list[str]) -> list[object]:
    """Count the right graphs of one group of models, of those that run."""
    members = [member for member in members if member["status"] == "runs"]
    return [name, len(members), *(count_text([way_of(member, way) for member in members]) for way in ways)]


def count_text(found: list[Data | None]) -> str:
    """Say how many of some results are right, and how many are wrong without an error."""
    if all(verdict(result) == "not measured" for result in found):
        return "not there"
    counts = Counter("right" if is_graph(result) else verdict(result) for result in found)
    notes = [
        f"{counts[name]} {name}" for name in ("wrong", "not comparable", "not compared", "not measured") if counts[name]
    ]
    return f"{counts['right']}" + (f" ({', '.join(notes)})" if notes else "")


def in_every_way(results: list[Data]) -> str:
    """Compare the ways on the models that were measured in all of them: right graphs, nodes, guards and seconds."""
    ways = measured_ways(results)
    common = [result for result in results if all(is_measured(result, way) for way in ways)]
    median: Callable[[list[float]], object] = lambda found: round(statistics.median(found), 3) if found else ""  # noqa: E731
    rows = []
    for way in ways:
        right = [found for result in common if (found := way_of(result, way)) and is_graph(found)]
        sizes = sum(found.get("second") is None for found in right)
        nodes, guards, seconds = ([found[key] for found in right] for key in ("nodes", "guards", "seconds"))
        count = count_text([way_of(result, way) for result in common])
        rows.append([WAYS[way].title, count, sizes, median(nodes), median(guards), median(seconds)])
    head = ["way", "right", "on another size, too", "nodes, median", "guards, median", "seconds, median"]
    return f"### The same {len(common)} models in every way\n\n" + table(head, rows)


def in_train_mode(results: list[Data]) -> str:
    """Count the right graphs of models in train mode, where they are meant to run there."""
    rows = []
    for way in main_ways(results):
        found = [outcome for result in results if (outcome := way_of(result, way, "train_ways"))]
        if found:
            rows.append([WAYS[way].title, len(found), count_text(list(found))])
    return "### In train mode\n\n" + table(["way", "models", "right"], rows)


def wrong(results: list[Data]) -> str:
    """List the graphs that differ from the model without an error."""
    rows = [
        [result["model"], WAYS[way].title, mode, name, found[name]]
        for result in results
        for way in measured_ways(results)
        for mode, part in (("eval", "ways"), ("train", "train_ways"))
        if (found := way_of(result, way, part)) and verdict(found) == "wrong"
        for name in ("example", "fresh", "second")
        if found.get(name) and not str(found[name]).startswith("raises")
    ]
    return "### Wrong without an error\n\n" + table(["model", "way", "mode", "inputs", "difference"], rows)


def cause_text(found: Data) -> str:
    """Name the cause of a failure; a graph that cannot be run has none of its own."""
    return str(found.get("cause") or "the graph raises")


def causes(results: list[Data]) -> str:
    """Count the causes of failure for each way and mode, the most frequent of any first."""
    columns = [
        (f"{WAYS[way].title}, {mode}", [found for result in results if (found := way_of(result, way, part))])
        for way in main_ways(results)
        for mode, part in (("eval", "ways"), ("train", "train_ways"))
    ]
    counts = [Counter(cause_text(found) for found in outcomes if verdict(found) == "failed") for _, outcomes in columns]
    total: Counter[str] = sum(counts, Counter())
    rows = [[cause, *(count[cause] or "" for count in counts)] for cause, _ in total.most_common()]
    return "### Causes of failure\n\n" + table(["cause", *(title for title, _ in columns)], rows)


def failures(results: list[Data]) -> str:
    """List every failure of fxcore with examples, or of plain tracing where that is all there is."""
    way = next((way for way in ("examples", "plain") if way in measured_ways(results)), None)
    way = "plain" if all(verdict(way_of(result, "examples")) == "not measured" for result in results) else way
    rows = [
        [
            result["model"],
            mode,
            cause_text(found),
            f"`{found.get('place', '')}`".replace("|", "\\|"),
            auto_text(result, mode),
        ]
        for result in results
        for mode, found in failed_in(result, way)
    ]
    title = WAYS[way].title if way else "nothing"
    count = len({row[0] for row in rows})
    head = f"### Every failure of {title}\n\n<details><summary>{count} models</summary>\n\n"
    return head + table(["model", "mode", "cause", "place", "auto leaves"], rows) + "\n</details>\n"


def failed_in(result: Data, way: str | None) -> Iterator[tuple[str, Data]]:
    """Yield the mode and the outcome in which a model failed, train mode only where eval mode does not fail, too."""
    for mode, part in (("eval", "ways"), ("train", "train_ways")):
        found = way_of(result, way, part) if way else None
        if found and verdict(found) == "failed":
            yield mode, found
            return


def auto_text(result: Data, mode: str) -> str:
    """Say whether auto leaves give a right graph of a model in one mode."""
    found = way_of(result, "auto", "ways" if mode == "eval" else "train_ways")
    return "" if found is None else verdict(found)


def free_sizes(results: list[Data]) -> str:
    """Count the sizes of inputs that eager takes in other values, and the sizes that each way leaves free.

    A way without a graph of a model has the class of its error there, and no size in the sum.
    """
    found = [(result["model"], result["sizes"]) for result in results if "sizes" in result]
    rows = [[name, sizes["eager"], *(sizes[way] for way in SIZE_WAYS)] for name, sizes in found]
    sums = [sum(row[column] for row in rows if isinstance(row[column], int)) for column in range(1, 2 + len(SIZE_WAYS))]
    head = ["model", "eager", *(way.title for way in SIZE_WAYS.values())]
    details = f"<details><summary>{len(rows)} models</summary>\n\n{table(head, rows)}\n</details>\n"
    return table(head, [["**all**", *sums]]) + "\n" + details


def not_run(results: list[Data]) -> str:
    """List the models of the list that do not run, or are not installed, with the reason."""
    rows = [
        [
            result["model"],
            result["status"],
            str(result.get("message", "")).splitlines()[0] if result.get("message") else "",
        ]
        for result in results
        if result["status"] != "runs"
    ]
    return "### Models that do not run\n\n" + table(["model", "status", "reason"], rows)


PARTS = (by_package, in_train_mode, in_every_way, wrong, causes, failures, not_run)


if __name__ == "__main__":
    write_tables(sys.argv[1:])

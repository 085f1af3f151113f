"""Documents as the text of a golden file: YAML that holds the text of `document/text_writer` in literal blocks."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_fxgraph.document.code_folding import code_in_blocks
from pytest_fxgraph.document.folding import indented
from pytest_fxgraph.document.model import FORMAT, MOST_RECORDS, GraphDocument, graphs_of
from pytest_fxgraph.document.text_writer import code_lines, folded_graph, graph_lines, sections, titled
from pytest_fxgraph.errors import DocumentError

# The last line of a golden: without it, the file was cut off.
CLOSING_LINE = "end: true"
TRACED_NAMES = "names: traced"


def encode(document: GraphDocument, *, folds_code: bool = False) -> str:
    """Write a document as the whole text of a golden file; facts that change between runs are left out.

    The text ends with one line feed, and no line ends with a blank. Blocks that repeat are folded, unless the golden
    keeps the names that tracing gave. With `folds_code`, the code is folded along with the blocks. Raises DocumentError
    for a document that is too large.
    """
    count = sum([len(graph.nodes) + len(graph.modules) + len(graph.state) for graph in graphs_of(document)])
    if count > MOST_RECORDS:
        raise DocumentError(
            f"cannot write down a graph of {count:,} nodes, modules and tensors: a golden holds {MOST_RECORDS:,} "
            "at most; compare its parts, each with a golden of its own"
        )
    lines = [f"format: {FORMAT}", *([TRACED_NAMES] if document.keeps_traced_names else ())]
    for title, section in _sections(document, not document.keeps_traced_names, folds_code):
        lines += _block(title, section)
    return "\n".join([*lines, CLOSING_LINE, ""])


def _sections(document: GraphDocument, folds: bool, folds_code: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield the title and the lines of each section; a graph inside a module is folded as the outer one is."""

    def inside(inner: GraphDocument) -> list[str]:
        (title, lines), *below = _sections(inner, folds, folds_code)
        graph = lines if title == "graph" else titled(title, lines)
        return [*graph, *(line for title, section in below for line in titled(title, section))]

    folded = folded_graph(document) if folds else None
    graph = graph_lines(document, folded)
    if graph:
        yield "graph", graph
    yield from sections(document, folds=folds, inside=inside)
    if document.code:
        code = document.code if folded is None else code_in_blocks(document, folded, folds=folds_code)
        yield "code", code_lines(code)


def _block(title: str, lines: list[str]) -> list[str]:
    """Return lines as a literal block of YAML."""
    return [f"{title}: |", *indented(lines)]

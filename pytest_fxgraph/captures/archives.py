"""The process that reads a `.pt2` or `.onnx` file for the command: it loads the program, and writes its golden text."""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_fxgraph.captures.subjects import loaded_program, to_graph_module
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.errors import ArchiveError, GateError


def main(path: str, folder: str, trusts: bool) -> None:
    """Write the golden text of an archive's program to `folder/document`, or the words of an error to `folder/error`.

    Without `trusts`, pickles that name functions are errors, in the archive and everywhere else.
    """
    if not trusts:
        sys.addaudithook(_refuse_pickled_functions)
    remedy = "if you trust its author, add --trust"
    try:
        graph = to_graph_module(loaded_program(path, trusts=trusts, remedy=remedy))
        Path(folder, "document").write_text(encode(build_document(graph)), encoding="utf-8", newline="")
    except GateError as error:
        Path(folder, "error").write_text(str(error), encoding="utf-8")


def _refuse_pickled_functions(event: str, arguments: tuple[object, ...]) -> None:
    if event == "pickle.find_class":
        raise ArchiveError(f"a pickle names {'.'.join(map(str, arguments))}")

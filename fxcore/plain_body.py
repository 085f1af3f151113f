"""The body of code that has nothing but statements, as nearly all code: a line a node, written in one loop.

More time would go into the calls of smaller steps than into the steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fxcore.liveness import values_freed_in_order
from fxcore.node import Node
from fxcore.statement_writer import StatementWriter, path_of_root


class PlainBody:
    """Statements, and the index of the node that each comes from."""

    def __init__(self) -> None:
        self._statements: list[str] = []
        self._indices: list[int | None] = []

    def write(
        self,
        nodes: list[Node],
        writer: StatementWriter,
        at_edge: Callable[[Node], str],
        annotation: Callable[[Any], str],
    ) -> None:
        """Write `nodes`, in order.

        `at_edge` writes inputs and the output, as no text where there is nothing to do; `annotation` writes types.
        """
        names, arguments, root = writer.names, writer.arguments, writer.root
        statement, call_function, call_method = writer.statement, writer.call_function, writer.call_method
        emit, note = self._statements.append, self._indices.append
        freed_after = values_freed_in_order(nodes)
        for index, node in enumerate(nodes):
            op = node._op
            if op == "placeholder" or op == "output":
                text = at_edge(node)
                if text:
                    emit(text)
                    note(index)
                continue
            if node._type is not None:
                text = statement(node, f" : {annotation(node._type)}")
            elif op == "call_module":
                text = f"{names[node]} = {path_of_root(root, node._target)}({arguments(node._args, node._kwargs)})"
            elif op == "call_function":
                text = call_function(node, "")
            elif op == "call_method":
                text = call_method(node, "")
            else:
                text = statement(node, "")
            freed = freed_after[index]
            if isinstance(freed, Node):
                if node.users:
                    text = f"{text};  {names[freed]} = None"
                else:
                    text = f"{text};  {names[freed]} = {names[node]} = None"
            elif freed is not None or not node.users:
                # A node without readers is kept for its effect alone; its value need not wait for the function's end.
                unread = [*(freed or ()), *(() if node.users else (node,))]
                text = f"{text};  {' = '.join([names[value] for value in unread])} = None"
            emit(text)
            note(index)
        if self._statements:
            note(len(nodes) - 1)  # what comes after the last line counts with the last node
        else:
            emit("pass")
            self._indices += [None, None]

    def pieces(self) -> list[tuple[int | None, str]]:
        """Return each statement with its end, after the index of its node."""
        return [(index, f"{text}\n") for index, text in zip(self._indices, self._statements, strict=False)]

    def lines(self, first_line: int) -> tuple[str, dict[int, int | None]] | None:
        """Return the text, and for each line, from `first_line` on, the index of its node.

        None if a statement has several lines, as a constant's repr may have.
        """
        text = "\n    ".join(["", *self._statements, ""])
        if text.count("\n") != len(self._indices):
            return None
        return text[1:], dict(enumerate(self._indices, first_line))

"""Symbols of unknown sizes in the texts of two documents, and their counterparts."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence

from pytest_fxgraph.document.model import NodeRecord, with_texts
from pytest_fxgraph.document.symbol_names import PART, WORD, rename_symbols

_SHAPE = re.compile(r"\[([^][]*)\]")
# The errors of Python's parser for a text that is no expression.
_NO_EXPRESSION = (SyntaxError, ValueError, RecursionError, MemoryError)


def pair_symbols(
    texts: Sequence[tuple[str, str]], expected: Collection[str], obtained: Collection[str], known: Mapping[str, str]
) -> dict[str, str]:
    """Map obtained symbols to expected symbols by their first places in pairs of otherwise equal texts.

    A symbol alone in a size counts before symbols in sums and products, because torch sorts sums by name. `known` pairs
    stay. Two symbols never get one name, and a size known late never pairs with a size of an input.
    """
    names = dict(known)
    taken = set(names.values())
    alone = [
        (one, other)
        for sizes in [(_sizes_in(one), _sizes_in(other)) for one, other in texts]
        for one, other in zip(*sizes, strict=False)
        if one in expected and other in obtained
    ]
    for one, other in [*alone, *texts]:
        words, others = _symbols_in(one, expected), _symbols_in(other, obtained)
        if len(words) != len(others):
            continue
        for word, symbol in zip(words, others, strict=True):
            if symbol not in names and word not in taken and _kind(word) == _kind(symbol):
                names[symbol] = word
                taken.add(word)
    return names


def same_sizes(expected: str, obtained: str) -> bool:
    """Return whether two values are equal up to the order in sums and products: it follows the names of symbols."""
    return expected == obtained or sorted_sizes(expected) == sorted_sizes(obtained)


def sorted_sizes(value: str) -> str:
    """Return a value with the operands of sums and products in its sizes in one order."""
    return _SHAPE.sub(_sorted_shape, value)


def in_order_of_use(texts: Sequence[str], symbols: Collection[str]) -> list[str]:
    """List symbols by their first places in texts: first symbols alone in a size, then all others."""
    alone = [size for text in texts for size in _sizes_in(text) if size in symbols] if symbols else []
    return [*dict.fromkeys([*alone, *(word for text in texts for word in _symbols_in(text, symbols))])]


def without_sizes(value: str, symbols: Collection[str]) -> str:
    """Return a value with a `?` in place of every size that contains a symbol."""

    def plain(found: re.Match[str]) -> str:
        sizes = _sizes(found[1])
        return f"[{', '.join('?' if _symbols_in(size, symbols) else size for size in sizes)}]"

    return _SHAPE.sub(plain, value) if symbols else value


def with_symbols(node: NodeRecord, names: Mapping[str, str]) -> NodeRecord:
    """Return a node with renamed symbols."""
    value = None if node.value is None else rename_symbols(node.value, names)
    return with_texts(node, lambda text: rename_symbols(text, names))._replace(value=value)


def _sizes_in(value: str) -> list[str]:
    return [size for shape in _SHAPE.findall(value) for size in _sizes(shape)]


def _sizes(shape: str) -> list[str]:
    """List the sizes of a shape; a size may be a call with several arguments."""
    try:
        return [ast.unparse(size) for size in ast.parse(f"[{shape}]", mode="eval").body.elts]  # type: ignore[attr-defined]  # a list, as it is written
    except _NO_EXPRESSION:
        return [shape]


def _symbols_in(text: str, symbols: Collection[str]) -> list[str]:
    words = [word for part in PART.findall(text) if part[0] not in '"%' for word in WORD.findall(part)]
    return [word for word in words if word in symbols]


def _kind(symbol: str) -> str:
    # torch's letters for sizes of inputs, for sizes known late, and for floats.
    return symbol.rstrip("0123456789")


def _sorted_shape(found: re.Match[str]) -> str:
    try:
        return f"[{', '.join([_sorted_text(ast.parse(size, mode='eval').body) for size in _sizes(found[1])])}]"
    except _NO_EXPRESSION:
        return found[0]


def _sorted_text(tree: ast.expr) -> str:
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add | ast.Mult):
        mark = "+" if isinstance(tree.op, ast.Add) else "*"
        return f"({mark.join(sorted(_operands(tree, type(tree.op))))})"
    if isinstance(tree, ast.Call):
        # The order of arguments is free for a maximum and a minimum only.
        arguments = [_sorted_text(argument) for argument in tree.args]
        name = ast.unparse(tree.func)
        return f"{name}({', '.join(sorted(arguments) if name in ('Max', 'Min') else arguments)})"
    if isinstance(tree, ast.BinOp):
        return f"({_sorted_text(tree.left)}{type(tree.op).__name__}{_sorted_text(tree.right)})"
    return ast.unparse(tree)


def _operands(tree: ast.expr, kind: type[ast.operator]) -> list[str]:
    """List the operands of nested sums or products."""
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, kind):
        return _operands(tree.left, kind) + _operands(tree.right, kind)
    return [_sorted_text(tree)]

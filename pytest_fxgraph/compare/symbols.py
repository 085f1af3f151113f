"""Symbols of unknown sizes in the texts of a document: which of one graph is which of another."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence

from pytest_fxgraph.document.literals import QUOTED

# A size that stands as an argument is quoted, other quoted texts are the user's.
_SIZE_ARGUMENT = r'torch\.Sym(?:Int|Float|Bool)\("[^"]*"\)'
_PART = re.compile(rf"{_SIZE_ARGUMENT}|{QUOTED}|%\w+|[A-Za-z_][\w.]*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*")
_SHAPE = re.compile(r"\[([^][]*)\]")
# What a note begins with that holds names of the user's, not symbols.
_NOTES_OF_NAMES = ("inputs: ", "input structure: ", "output structure: ")


def rename_symbols(text: str, names: Mapping[str, str]) -> str:
    """Return a text with its symbols renamed; texts of the user's, in quotes, stay."""

    def renamed(found: re.Match[str]) -> str:
        part = found[0]
        if part[0] in '"%':
            return part
        if part.endswith(")"):
            kind, expression = part.split("(", 1)
            return f"{kind}({_WORD.sub(lambda word: names.get(word[0], word[0]), expression)}"
        return names.get(part, part)

    return _PART.sub(renamed, text) if names else text


def rename_symbols_of_note(note: str, names: Mapping[str, str]) -> str:
    """Return a note with its symbols renamed."""
    return note if note.startswith(_NOTES_OF_NAMES) else rename_symbols(note, names)


def pair_symbols(
    texts: Sequence[tuple[str, str]], expected: Collection[str], obtained: Collection[str], known: Mapping[str, str]
) -> dict[str, str]:
    """Map obtained symbols to expected ones by where they stand first in pairs of texts that are alike but for symbols.

    A symbol that stands alone comes before those in a sum or product, whose parts torch sorts by name. What is `known`
    stays; no two symbols get one name, and a size that is found while the graph runs is no size of an input.
    """
    names = dict(known)
    taken = set(names.values())
    alone = [[_SHAPE.findall(text) for text in pair] for pair in texts]
    sizes = [
        [shape.split(", ") for shape in shapes] for pair in alone if len(pair[0]) == len(pair[1]) for shapes in pair
    ]
    in_sizes = [
        (one, other)
        for shapes, others in zip(sizes[::2], sizes[1::2], strict=True)
        for shape, other_shape in zip(shapes, others, strict=True)
        if len(shape) == len(other_shape)
        for one, other in zip(shape, other_shape, strict=True)
    ]
    for one, other in [*in_sizes, *texts]:
        words, others = _symbols_in(one, expected), _symbols_in(other, obtained)
        if len(words) != len(others):
            continue
        for word, symbol in zip(words, others, strict=True):
            if symbol not in names and word not in taken and _kind(word) == _kind(symbol):
                names[symbol] = word
                taken.add(word)
    return names


def same_sizes(expected: str, obtained: str) -> bool:
    """Tell whether two values are equal up to the order in sums and products, which follows the names of symbols."""
    return expected == obtained or _SHAPE.sub(_sorted_shape, expected) == _SHAPE.sub(_sorted_shape, obtained)


def _symbols_in(text: str, symbols: Collection[str]) -> list[str]:
    words = [word for part in _PART.findall(text) if part[0] not in '"%' for word in _WORD.findall(part)]
    return [word for word in words if word in symbols]


def _kind(symbol: str) -> str:
    # torch's letters for sizes of inputs, sizes known late, and floats; what is a symbol is known from elsewhere.
    return symbol.rstrip("0123456789")


def _sorted_shape(found: re.Match[str]) -> str:
    return f"[{', '.join(map(_sorted_expression, found[1].split(', ')))}]"


def _sorted_expression(text: str) -> str:
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return text
    return _sorted_text(tree)


def _sorted_text(tree: ast.expr) -> str:
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add | ast.Mult):
        mark = "+" if isinstance(tree.op, ast.Add) else "*"
        return f"({mark.join(sorted(_operands(tree, type(tree.op))))})"
    if isinstance(tree, ast.Call):
        # Of a maximum and a minimum the order is free; of other functions it counts.
        arguments = [_sorted_text(argument) for argument in tree.args]
        name = ast.unparse(tree.func)
        return f"{name}({', '.join(sorted(arguments) if name in ('Max', 'Min') else arguments)})"
    if isinstance(tree, ast.BinOp):
        return f"({_sorted_text(tree.left)}{type(tree.op).__name__}{_sorted_text(tree.right)})"
    return ast.unparse(tree)


def _operands(tree: ast.expr, kind: type[ast.operator]) -> list[str]:
    """List the operands of nested sums, or products."""
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, kind):
        return _operands(tree.left, kind) + _operands(tree.right, kind)
    return [_sorted_text(tree)]

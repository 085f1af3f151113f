"""Which value that a replacement returns takes the place of which value that a pattern returns?"""

from __future__ import annotations

from typing import Any

from fxcore.errors import GraphArgumentError
from fxcore.node import Node


def pair_outputs(pattern_output: Any, returned: list[Node], replacement_output: Any) -> list[tuple[Node, Any]]:
    """Pair the values in a pattern's output with what stands in their places in the output of a replacement.

    Where the two are nested differently, the values of both, in reading order, are paired one by one; `returned`
    lists those of the pattern. Raises GraphArgumentError (an AssertionError) if that does not work out either.
    """
    pairs: dict[Node, Any] = {}
    if _collect(pattern_output, replacement_output, pairs):
        return list(pairs.items())
    leaves = _leaves(replacement_output)
    if len(leaves) != len(returned):
        raise GraphArgumentError(
            f"Returning nodes count mismatch: {len(returned)} vs {len(leaves)}: the pattern returns "
            f"{pattern_output!r}, the replacement {replacement_output!r}; let both return values in the same structure"
        )
    return list(zip(returned, leaves, strict=True))


def _collect(expected: Any, replacement: Any, pairs: dict[Node, Any]) -> bool:
    """Note what stands in the place of each node in `expected`; tell whether everything has its place."""
    if isinstance(expected, Node):
        if isinstance(replacement, (list, tuple, dict)):
            return False
        return pairs.setdefault(expected, replacement) is replacement
    if isinstance(expected, (list, tuple)):
        if not isinstance(replacement, (list, tuple)) or len(expected) != len(replacement):
            return False
        return all(_collect(ours, theirs, pairs) for ours, theirs in zip(expected, replacement, strict=True))
    if isinstance(expected, dict):
        if not isinstance(replacement, dict) or expected.keys() != replacement.keys():
            return False
        return all(_collect(value, replacement[key], pairs) for key, value in expected.items())
    return not isinstance(replacement, Node)


def _leaves(output: Any) -> list[Any]:
    if isinstance(output, (list, tuple)):
        return [leaf for item in output for leaf in _leaves(item)]
    if isinstance(output, dict):
        return [leaf for item in output.values() for leaf in _leaves(item)]
    return [output]

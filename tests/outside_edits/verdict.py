"""The verdict on one edit."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch

from pytest_fxgraph import assert_graph_matches_golden
from tests.outside_edits.edit import Edit

CAUGHT, MISSED, MATCHED, ACCUSED, BROKEN = "caught", "missed", "matched", "accused", "broken"
GOOD = (CAUGHT, MATCHED)


class Verdict(NamedTuple):
    """The fate of an edit, and the message."""

    kind: str
    message: str


def judge(edit: Edit, folder: Path) -> Verdict:
    """Record the golden of the model before, and compare the model after."""
    golden = folder / f"{edit.name}.yaml"
    torch.manual_seed(0)
    try:
        assert_graph_matches_golden(edit.before(), golden, update=True, **edit.options)
        assert_graph_matches_golden(edit.before(), golden, **edit.options)
        after = edit.after()
    except Exception as error:
        return Verdict(BROKEN, f"{type(error).__name__}: {error}")
    try:
        assert_graph_matches_golden(after, golden, **edit.options)
    except AssertionError as error:
        return Verdict(CAUGHT if edit.is_harmful else ACCUSED, str(error))
    except Exception as error:
        return Verdict(BROKEN, f"{type(error).__name__}: {error}")
    return Verdict(MISSED if edit.is_harmful else MATCHED, "")

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from pytest_fxgraph.errors import GoldenMissingError
from pytest_fxgraph.goldens.files import golden_path
from pytest_fxgraph.goldens.program_set import joined_error, vanished_programs
from pytest_fxgraph.goldens.store import GoldenStore


@pytest.mark.parametrize("params", [None, "a[b]"])
def test_only_goldens_of_the_set_itself_can_have_vanished(tmp_path, params):
    store = GoldenStore(tmp_path)

    def place_of(name, function="test_x"):
        return golden_path("tests/test_a.py", [], function, params, program=name)

    for name in ("decode", "prefill"):
        store.write(place_of(name), f"format: 3\nnotes: |\n  program: {name}\n")
    store.write(place_of("named"), "format: 3\n")
    store.write(place_of("other", "test_y"), "format: 3\nnotes: |\n  program: other\n")
    store.write(PurePosixPath("tests/test_a/damaged.yaml"), "\0")
    store.path("tests/test_a/no text.yaml").write_bytes(b"\xff")

    assert vanished_programs(store, place_of, ["decode"]) == {"prefill": place_of("prefill")}
    assert vanished_programs(store, place_of, ["decode", "prefill"]) == {}


def test_errors_of_several_programs_are_told_together():
    missing = GoldenMissingError("there is no a"), GoldenMissingError("there is no b")

    assert joined_error([None, None]) is None
    assert joined_error([None, missing[0]]) is missing[0]
    assert isinstance(joined_error(missing), GoldenMissingError)
    both = joined_error([missing[0], AssertionError("differs")])
    assert isinstance(both, AssertionError)
    assert str(both) == "there is no a\n\ndiffers"

from __future__ import annotations

import traceback

import pytest

from pytest_fxgraph.recorder import replacements
from pytest_fxgraph.recorder.session import without_recorder


def through_the_recorder(function):
    """Call a function below a frame with a file name of the recorder."""
    names = {"function": function}
    exec(compile("def call():\n    function()", replacements.__file__, "exec"), names)
    names["call"]()


def fail():
    raise KeyError("inner")


def fail_with_a_cause():
    try:
        through_the_recorder(fail)
    except KeyError as error:
        raise ValueError("outer") from error


def files_of(error):
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


def test_the_recorders_frames_leave_an_error_and_its_cause():
    with pytest.raises(ValueError, match="outer") as caught:
        through_the_recorder(fail_with_a_cause)
    error = caught.value
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert all(replacements.__file__ in files_of(each) for each in (error, error.__cause__))

    without_recorder(error)

    assert set(files_of(error)) == set(files_of(error.__cause__)) == {__file__}
    assert [frame.name for frame in traceback.extract_tb(error.__traceback__)] == [
        each for each in names if each != "call"
    ]

"""The tests and goldens of one run: all that is needed to find, here or elsewhere, the goldens that are not used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Ids = Mapping[str, tuple[str, ...]]  # by test file, relative to rootdir


@dataclass(frozen=True)
class RunRecord:
    """Facts about one run, as plain data; paths are relative to rootdir.

    A file's own id is "", and a test in the file has the rest of its id. Collected, the file and its classes have
    ended; a test has, once setup, call and teardown have passed.
    """

    had_path_arguments: bool
    finished: bool  # collected and run without being broken off
    found: Ids = field(default_factory=dict)  # everything in the files that were looked into
    ended: Ids = field(default_factory=dict)
    failed: Ids = field(default_factory=dict)
    asked: tuple[str, ...] = ()  # goldens that were compared, or would have been if they were there
    others: Mapping[str, str] = field(default_factory=dict)  # further goldens on disk, with the test files they are for
    gone: tuple[str, ...] = ()  # test files that are not there

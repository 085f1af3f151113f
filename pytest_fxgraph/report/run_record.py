"""The tests and goldens of one run: all that is needed to find, here or elsewhere, the goldens that are not used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

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

    def to_dict(self) -> dict[str, Any]:
        """Return the record as values that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunRecord:
        """Read the dict of `to_dict`. Raises KeyError or ValueError for data of another form."""
        return cls(
            _truth(data["had_path_arguments"]),
            _truth(data["finished"]),
            found=_ids(data["found"]),
            ended=_ids(data["ended"]),
            failed=_ids(data["failed"]),
            asked=_texts(data["asked"]),
            others={_text(golden): _text(file) for golden, file in _mapping(data["others"]).items()},
            gone=_texts(data["gone"]),
        )


def _ids(value: object) -> Ids:
    return {_text(file): _texts(ids) for file, ids in _mapping(value).items()}


def _mapping(value: object) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"expected names and values, got {value!r:.40}")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise ValueError(f"expected a list of texts, got {value!r:.40}")
    return tuple(_text(each) for each in value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a text, got {value!r:.40}")
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, got {value!r:.40}")
    return value

from __future__ import annotations

import secrets

import pytest

from fixtures.s3_server import s3_bucket


@pytest.fixture(scope="session")
def bucket():
    with s3_bucket() as url:
        yield url


@pytest.fixture(params=["folder", "file", "memory", "s3"])
def place(request, tmp_path):
    """An empty place of each kind."""
    if request.param == "folder":
        return str(tmp_path / "recording")
    if request.param == "file":
        return f"file://{tmp_path}/recording"
    if request.param == "memory":
        pytest.importorskip("fsspec")
        return f"memory://{secrets.token_hex(4)}/recording"
    return f"{request.getfixturevalue('bucket')}/{secrets.token_hex(4)}"

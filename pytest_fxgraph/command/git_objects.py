"""Files as a git revision has them: `HEAD~1:golden/tests/test_net.yaml`."""

from __future__ import annotations

import subprocess

from pytest_fxgraph.errors import GoldenError, GoldenMissingError


def looks_like_a_revision(text: str) -> bool:
    """Tell whether a text is of the form `revision:path`; `C:\\x` is not."""
    revision, colon, _ = text.partition(":")
    return bool(colon) and len(revision) != 1 and not text.startswith("-")


def object_of(text: str) -> tuple[str, bool]:
    """Return the id of what `revision:path` names, and whether it is a folder; refuse what git does not know."""
    found = _git("rev-parse", "--verify", "--quiet", text)
    if found is None:
        raise GoldenMissingError(
            f"cannot read {text}: there is no such file, and git knows no such revision and path here; check it with "
            "`git log`, and write the path from the top of the repository, or with ./ from where you are"
        )
    object_id = found.decode().strip()
    kind = (_git("cat-file", "-t", object_id) or b"").decode().strip()
    if kind not in ("blob", "tree"):
        raise GoldenError(f"cannot read {text}: it is a {kind or 'thing unknown to git'}; name a file or folder")
    return object_id, kind == "tree"


def content_of(object_id: str, name: str) -> bytes:
    """Return the content of a file."""
    # Not `git show`, which would pass it through a textconv of ours.
    content = _git("cat-file", "blob", object_id)
    if content is None:
        raise GoldenError(f"cannot read {name}: git does not give its content; try `git fsck`")
    return content


def files_of(tree_id: str) -> dict[str, str]:
    """Return the ids of all files below a folder by their path in it."""
    listing = _git("ls-tree", "-r", "-z", "--full-tree", tree_id) or b""
    files = {}
    for entry in listing.split(b"\0"):
        facts, _, path = entry.partition(b"\t")
        if facts.split()[1:2] == [b"blob"]:
            files[path.decode("utf-8", "surrogateescape")] = facts.split()[2].decode()
    return files


def _git(*arguments: str) -> bytes | None:
    """Return what git says; None where it knows no answer."""
    try:
        result = subprocess.run(["git", *arguments], capture_output=True, check=False)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise GoldenError(f"cannot ask git: {reason}; install git, or give files instead of revisions") from None
    return result.stdout if result.returncode == 0 else None

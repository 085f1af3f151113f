"""Facts about a run for its reports: the commit, the releases of torch and Python, and the platform."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path

from pytest_fxgraph.goldens.layout import nearest_with

# As GitHub, GitLab, Jenkins, CircleCI, Buildkite, Azure, Travis and Bitbucket name the commit of a build.
_COMMITS = (
    *("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "CIRCLE_SHA1"),
    *("BUILDKITE_COMMIT", "BUILD_SOURCEVERSION", "TRAVIS_COMMIT", "BITBUCKET_COMMIT"),
)
_HEX = frozenset("0123456789abcdef")


def environment_of_run(rootpath: Path) -> dict[str, str]:
    """Return the known facts by name. Starts no process and imports no torch."""
    facts = {
        "commit": _commit_of_git(rootpath) or next(filter(None, map(os.environ.get, _COMMITS)), ""),
        "torch": _torch_version(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}".strip(),
    }
    return {name: fact for name, fact in facts.items() if fact}


def _torch_version() -> str:
    torch = sys.modules.get("torch")
    if torch is not None:
        return str(torch.__version__)
    try:  # under pytest-xdist, the workers alone import torch
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _commit_of_git(folder: Path) -> str:
    """Return the commit that is checked out in the repository around a folder; "" outside of a repository."""
    try:
        top = nearest_with(folder, ".git")
        if top is None:
            return ""
        git = top / ".git"
        if git.is_file():  # of a worktree or a submodule: `gitdir: PATH`
            git = git.parent / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        return _commit_of_branch(git, head[4:].strip()) if head.startswith("ref:") else _commit_or_nothing(head)
    except (OSError, ValueError):
        return ""


def _commit_of_branch(git: Path, branch: str) -> str:
    common = git / "commondir"  # a worktree keeps branches in the repository that it belongs to
    shared = git / common.read_text(encoding="utf-8").strip() if common.is_file() else git
    for file in (git / branch, shared / branch):
        if file.is_file():
            return _commit_or_nothing(file.read_text(encoding="utf-8").strip())
    packed = shared / "packed-refs"
    lines = packed.read_text(encoding="utf-8").split("\n") if packed.is_file() else []
    return next((_commit_or_nothing(line.split(" ")[0]) for line in lines if line.endswith(f" {branch}")), "")


def _commit_or_nothing(text: str) -> str:
    return text if len(text) >= 40 and _HEX.issuperset(text) else ""

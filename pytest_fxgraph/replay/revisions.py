"""Revisions of a git repository, written out as folders. Neither the checkout nor its `.git` folder is changed."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pytest_fxgraph.errors import RecordingError

# The target of a pull request, as GitHub, GitLab, Bitbucket and Azure name it.
_TARGETS = (
    "GITHUB_BASE_REF",
    "CI_MERGE_REQUEST_TARGET_BRANCH_NAME",
    "BITBUCKET_PR_DESTINATION_BRANCH",
    "SYSTEM_PULLREQUEST_TARGETBRANCHNAME",
)
_USUAL_BRANCHES = ("origin/main", "origin/master", "main", "master")
_SUBMODULE = "160000"
# Files at the top of caches and of virtual environments, which ignore their own files one by one.
_NOT_OF_SOURCES = ("CACHEDIR.TAG", "pyvenv.cfg")


class Repository:
    """A git repository with a checkout."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def around(cls, folder: Path) -> Repository:
        """Return the repository around a folder. Raises RecordingError without git, repository or commit."""
        result = cls(folder)._run(["rev-parse", "--show-toplevel"], {})
        if result.returncode:
            reason = (result.stderr.strip().splitlines() or ["it has no checkout"])[0]
            raise RecordingError(
                f"cannot find the git repository of {folder}: {reason}; mend it, or record both sides with "
                "pytest --fx-record FOLDER --fx-record-seeded and compare with fxgraph replay --against FOLDER OTHER"
            )
        return cls(Path(result.stdout.rstrip("\n")).resolve())

    def commit(self, revision: str) -> str:
        """Return the commit of a revision. Raises RecordingError if there is none."""
        commit = self._asked("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        if not commit:
            more = "git fetch --unshallow gets all commits" if self._is_shallow else "git fetch may get it"
            raise RecordingError(f"cannot find the revision {revision} in {self.root}: git knows none; {more}")
        return commit

    def title(self, commit: str) -> str:
        """Return a commit as people know it: the short hash and the subject."""
        return self._asked("show", "--no-patch", "--format=%h %s", commit)

    def merge_base(self) -> tuple[str, str]:
        """Return the commit at which the checkout left the default branch, and the branch.

        Raises RecordingError if there is no default branch, or no common commit.
        """
        self.commit("HEAD")
        branch = self._default_branch()
        commit = self._asked("merge-base", "HEAD", branch)
        if commit:
            return commit, branch
        if self._is_shallow:
            raise RecordingError(
                f"cannot find the merge base with {branch}: the clone of {self.root} is shallow; get all commits with "
                "git fetch --unshallow (on GitHub: fetch-depth: 0 of actions/checkout), or name the base"
            )
        raise RecordingError(f"cannot find the merge base with {branch}: they share no commit; name the base")

    def is_changed(self, commit: str) -> bool:
        """Tell whether the checkout differs from a commit, by tracked or new files."""
        listed = self._asked("status", "--porcelain", "--untracked-files=normal")
        return bool(listed) or self.commit("HEAD") != commit

    def candidates(self, bad: str, good: Sequence[str]) -> list[str]:
        """Return the commits of `bad` that no good commit has, as git bisect tries them: the most telling first."""
        listed = self._asked("rev-list", "--bisect-all", bad, *(f"^{each}" for each in good))
        return [line.split()[0] for line in listed.splitlines()]

    def ignored_files(self) -> list[str]:
        """Return the files of the checkout that git ignores, such as generated ones.

        Caches, virtual environments and folders that are ignored as a whole are left out.
        """
        listed = self._asked("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
        files = [name for name in listed.split("\0") if name and not name.endswith((".pyc", "/"))]
        return [name for name in files if Path(self.root, name).is_file() and not self._is_in_cache(name)]

    def _is_in_cache(self, name: str) -> bool:
        folders = [Path(self.root, each) for each in list(Path(name).parents)[:-1]]
        return any((folder / tag).exists() for folder in folders for tag in _NOT_OF_SOURCES)

    def write_out(self, commit: str, folder: Path) -> None:
        """Write the files of a commit to a folder, with those of its submodules that are checked out here.

        The files come through an index of their own: neither a worktree nor a stash is made, and attributes that
        leave files out of archives have no effect. Raises RecordingError if git cannot read a file.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fxgraph-index-") as scratch:
            index = {"GIT_INDEX_FILE": str(Path(scratch, "index"))}
            self._told("read-tree", commit, environment=index)
            self._told("checkout-index", "--all", "--force", f"--prefix={folder}{os.sep}", environment=index)
        for path, pinned in self._submodules(commit):
            inner = Path(self.root, path)
            if not (inner / ".git").exists():
                continue  # the checkout does without it, too
            try:
                Repository(inner).write_out(pinned, folder / path)
            except RecordingError as error:
                raise RecordingError(
                    f"cannot write out the submodule {path}: {error}; get its commits with git -C {path} fetch"
                ) from None

    def _submodules(self, commit: str) -> Iterator[tuple[str, str]]:
        for entry in self._asked("ls-tree", "-r", "-z", commit).split("\0"):
            facts, _, path = entry.partition("\t")
            if facts.startswith(_SUBMODULE):
                yield path, facts.split()[2]

    def _default_branch(self) -> str:
        named = [f"origin/{os.environ[name]}" for name in _TARGETS if os.environ.get(name)]
        head = self._asked("symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD")
        tried = [*named, *([head] if head else []), *_USUAL_BRANCHES]
        for branch in tried:
            if self._asked("rev-parse", "--verify", "--quiet", f"{branch}^{{commit}}"):
                return branch
        hint = " (on GitHub: fetch-depth: 0 of actions/checkout)" if self._is_shallow else ""
        raise RecordingError(
            f"cannot find the default branch of {self.root}: there is none of {', '.join(dict.fromkeys(tried))}; "
            f"fetch it{hint}, or name the base"
        )

    @property
    def _is_shallow(self) -> bool:
        return self._asked("rev-parse", "--is-shallow-repository") == "true"

    def _asked(self, *arguments: str) -> str:
        """Return the answer of git, "" where it fails."""
        result = self._run(arguments, {})
        return result.stdout.rstrip("\n") if result.returncode == 0 else ""

    def _told(self, *arguments: str, environment: Mapping[str, str]) -> None:
        result = self._run(arguments, environment)
        if result.returncode:
            reason = result.stderr.strip().replace("\n", "; ") or f"status {result.returncode}"
            raise RecordingError(f"git {arguments[0]} failed in {self.root}: {reason}")

    def _run(self, arguments: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        # Without optional locks `git status` leaves the index as it is.
        given = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", **environment}
        command = ["git", "-C", str(self.root), *arguments]
        try:
            return subprocess.run(
                command, env=given, capture_output=True, check=False, encoding="utf-8", errors="surrogateescape"
            )
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise RecordingError(f"cannot ask git about {self.root}: {reason}; install git") from None

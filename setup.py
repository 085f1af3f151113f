"""Makes what pyproject.toml cannot say: the readme of the package index, whose links lead to the repository.

The index shows README.md alone, so that relative links would lead nowhere there.
"""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import setup

_ROOT = Path(__file__).parent
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!https?://|#|mailto:)(?P<path>[^)\s]+)\)")


def readme_of(text: str, repository: str, revision: str) -> str:
    """Return a text in Markdown with its relative links made absolute: files of a repository at a revision."""
    files = f"{repository}/blob/{revision}"
    images = f"{repository.replace('//github.com/', '//raw.githubusercontent.com/')}/{revision}"

    def absolute(link: re.Match[str]) -> str:
        return f"{link['image']}[{link['text']}]({images if link['image'] else files}/{link['path']})"

    return _LINK.sub(absolute, text)


def assigned(name: str, file: str) -> str:
    """Return the text that a line of a file at the root assigns to a name."""
    found = re.search(rf'^{name} = "([^"]+)"$', (_ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit(
            f'cannot build: {file} has no line `{name} = "..."`, which the links of the readme need; add it'
        )
    return found[1]


if __name__ == "__main__":
    revision = f"v{assigned('__version__', 'pytest_fxgraph/__init__.py')}"
    readme = (_ROOT / "README.md").read_text(encoding="utf-8")
    setup(
        long_description=readme_of(readme, assigned("Repository", "pyproject.toml"), revision),
        long_description_content_type="text/markdown",
    )

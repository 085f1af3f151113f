"""Places in files as links that a terminal opens, by the escape sequence OSC 8: for terminals alone, never in files."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

_PLACE = re.compile(r"(?P<file>[\w./\\~+-]+\.\w+):(?P<line>\d{1,7})(?=: )")
# As they name themselves in TERM_PROGRAM, or begin their TERM.
_PROGRAMS = frozenset(
    {"iTerm.app", "WezTerm", "vscode", "ghostty", "rio", "Hyper", "zed", "mintty", "Tabby", "contour"}
)
_TERMINALS = ("xterm-kitty", "xterm-ghostty", "alacritty", "foot", "contour", "wezterm")
_VARIABLES = ("WT_SESSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "DOMTERM")
_FIRST_OF_VTE = 5000  # the version of the library of GNOME's terminal that had them first
_IN_BUILDS = ("CI", "GITHUB_ACTIONS", "GITLAB_CI", "TF_BUILD")


def wants_hyperlinks(choice: str, environ: Mapping[str, str]) -> bool:
    """Decide for something that is a terminal: by NO_COLOR and TERM=dumb, then the setting, then what is known of it.

    `choice` is "auto", "never", "always", or a form of links as `url_format` has it, which means always.
    """
    if choice == "never" or environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    if choice != "auto":
        return True
    forced = environ.get("FORCE_HYPERLINK")
    if forced:
        return forced != "0"
    if any(environ.get(name) for name in _IN_BUILDS):
        return False
    vte = environ.get("VTE_VERSION", "")
    return (
        environ.get("TERM_PROGRAM") in _PROGRAMS
        or environ.get("TERM", "").startswith(_TERMINALS)
        or any(environ.get(name) for name in _VARIABLES)
        or (vte.isdecimal() and int(vte) >= _FIRST_OF_VTE)
    )


def url_format(choice: str, environ: Mapping[str, str]) -> str:
    """Return the form of links, with {path}, {line} and {host}; a `choice` with {path} is one itself."""
    if "{path}" in choice:
        return choice
    if environ.get("TERM_PROGRAM") == "vscode":
        return "vscode://file{path}:{line}"
    # Others would look for a file of a name that ends in the line.
    return "file://{host}{path}#{line}" if environ.get("KITTY_WINDOW_ID") else "file://{host}{path}"


class Hyperlinks:
    """Turns places such as `model.py:12` in lines into links to files that are there."""

    def __init__(self, folder: Path, form: str) -> None:
        self._folder = folder  # what paths are relative to
        self._form = form
        self._host = quote(socket.gethostname())
        self._paths: dict[str, str | None] = {}

    def linked(self, text: str) -> str:
        """Return a text with links at the places in it."""
        return _PLACE.sub(self._link, text)

    def _link(self, found: re.Match[str]) -> str:
        file = found["file"]
        if file not in self._paths:
            path = os.path.join(self._folder, file)
            self._paths[file] = quote(os.path.abspath(path).replace(os.sep, "/")) if os.path.isfile(path) else None
        known = self._paths[file]
        if known is None:
            return found[0]
        parts = {
            "{path}": known if known.startswith("/") else f"/{known}",
            "{line}": found["line"],
            "{host}": self._host,
        }
        url = re.sub(r"\{(?:path|line|host)\}", lambda part: parts[part[0]], self._form)
        return f"\x1b]8;;{url}\x1b\\{found[0]}\x1b]8;;\x1b\\"

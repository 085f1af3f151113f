"""The exit statuses of the command, which are those of diff."""

from __future__ import annotations

SAME, DIFFERENT, TROUBLE = 0, 1, 2

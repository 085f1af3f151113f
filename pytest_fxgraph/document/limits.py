"""How large a golden may be. Apart from the reader of YAML, which a run in which every golden matches never imports."""

from __future__ import annotations

MOST_BYTES = 256 * 1024 * 1024

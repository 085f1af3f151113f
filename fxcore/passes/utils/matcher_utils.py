"""The pattern matcher under torch.fx's name for the file."""

from __future__ import annotations

from fxcore.matching.matcher import InternalMatch, SubgraphMatcher

__all__ = ["InternalMatch", "SubgraphMatcher"]

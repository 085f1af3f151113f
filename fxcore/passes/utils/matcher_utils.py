"""The pattern matcher under torch.fx's name for the file."""

from fxcore.matching.matcher import InternalMatch, SubgraphMatcher

__all__ = ["InternalMatch", "SubgraphMatcher"]

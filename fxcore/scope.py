"""In the forward of which module is tracing right now?"""

from __future__ import annotations

from typing import Any


class Scope:
    """Path and class of the module whose forward runs; path "" and class None for the root."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """Makes one scope say what another says, until the `with` block ends."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope = scope
        self._before = (scope.module_path, scope.module_type)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *error: object) -> None:
        self._scope.module_path, self._scope.module_type = self._before

"""Records of the modules that a graph calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from .graph_document import GraphDocument, ModuleRecord
from .module_config import ModuleConfigs, TextOf, training_flag

GRAPH_MODULE = "GraphModule"  # whoever's: torch.fx makes a class for each graph


def module_records(
    called: Iterable[tuple[str, torch.nn.Module]],
    nested_document: Callable[[str], GraphDocument | None],
    text: TextOf,
) -> list[ModuleRecord]:
    """Describe called modules and the modules inside them, in the order of the calls."""
    configs = ModuleConfigs(text)
    records: dict[str, ModuleRecord] = {}
    first_paths: dict[int, str] = {}
    for called_path, called_module in called:
        graph = nested_document(called_path)
        if graph is not None:
            first = first_paths.setdefault(id(called_module), called_path)
            records[called_path] = _graph_record(called_path, first, graph)
            continue
        for path, module in called_module.named_modules(prefix=called_path, remove_duplicate=False):
            if path not in records:
                records[path] = _record(path, module, first_paths.setdefault(id(module), path), configs)
    return list(records.values())


def _record(path: str, module: torch.nn.Module, first: str, configs: ModuleConfigs) -> ModuleRecord:
    return ModuleRecord(
        path=path,
        kind=configs.kind(module),
        config=configs.config(module),
        training=training_flag(module),
        same_as=None if first == path else first,
    )


def _graph_record(path: str, first: str, graph: GraphDocument) -> ModuleRecord:
    if first != path:
        return ModuleRecord(path, GRAPH_MODULE, same_as=first)
    return ModuleRecord(path, GRAPH_MODULE, graph=graph)

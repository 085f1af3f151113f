"""Records of the modules that a graph calls."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from .graph_document import GraphDocument, ModuleRecord
from .module_config import TextOf, module_config, training_flag
from .module_parts import CalledModule, parts_of
from .module_traits import ModuleTraits, traits_of

GRAPH_MODULE = "GraphModule"  # whoever's: torch.fx makes a class for each graph


def module_records(called: Iterable[CalledModule], text: TextOf) -> list[ModuleRecord]:
    """Describe called modules and the modules inside them, in the order of the calls."""
    records: dict[str, ModuleRecord] = {}
    first_paths: dict[int, str] = {}
    for called_path, called_module, traits, graph in called:
        first = first_paths.setdefault(id(called_module), called_path)
        if graph is not None:
            records[called_path] = _graph_record(called_path, first, graph)
            continue
        if called_path not in records:
            records[called_path] = _record(called_path, called_module, traits, first, text)
        for path, module in parts_of(called_path, called_module) if called_module._modules else ():
            if path not in records:
                first = first_paths.setdefault(id(module), path)
                records[path] = _record(path, module, traits_of(type(module)), first, text)
    return list(records.values())


def _record(path: str, module: torch.nn.Module, traits: ModuleTraits, first: str, text: TextOf) -> ModuleRecord:
    training = None if traits.is_inert else training_flag(module)
    return ModuleRecord(
        path, traits.kind, module_config(module, text, traits), training, None if first == path else first
    )


def _graph_record(path: str, first: str, graph: GraphDocument) -> ModuleRecord:
    if first != path:
        return ModuleRecord(path, GRAPH_MODULE, same_as=first)
    return ModuleRecord(path, GRAPH_MODULE, graph=graph)

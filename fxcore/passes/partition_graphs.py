"""Filling the graphs of partitions with copies of their nodes."""

from __future__ import annotations

from typing import Any

from torch import nn

from fxcore.arguments import map_values
from fxcore.dotted import get_attribute
from fxcore.node import Node
from fxcore.passes.partition import Partition
from fxcore.passes.partition_plan import PartitionPlan


class PartitionFiller:
    """Fills the graphs of a plan's partitions: inputs, calls, and the switches of global state that they need."""

    def __init__(
        self, plan: PartitionPlan, root: nn.Module, *, keep_node_names: bool | None, keep_input_names: bool
    ) -> None:
        """Say where attributes and submodules are found, and which names stay."""
        self._plan = plan
        self._root = root
        self._keep_node_names = keep_node_names
        self._keep_input_names = keep_input_names

    def fill(self, qualname_map: dict[str, str] | None) -> None:
        """Fill every partition's graph, up to its output; note where submodules went in `qualname_map`."""
        self._repeat_switches()
        for name in self._plan.sorted_names:
            self._add_inputs(self._plan.partitions[name])
        for node in self._plan.calls:
            partition = self._plan.partition_of(node)
            assert partition is not None
            target = self._target_of(node, partition)
            if qualname_map is not None and node.op == "call_module":
                qualname_map[f"{partition.submod_name}.{target}"] = str(node.target)
            self._copy(node, partition, target)
        self._repeat_exits()

    def _repeat_switches(self) -> None:
        regions = self._plan.regions
        for switches in (regions.autocast, regions.grad):
            for switch, numbers in switches.items():
                for number in numbers[1:]:  # in the first it stands itself
                    partition = self._plan.partitions[self._plan.name_of(number)]
                    partition.environment[switch] = self._repeat(switch, partition, switch.args)

    def _repeat_exits(self) -> None:
        regions = self._plan.regions
        for switch in reversed(regions.autocast):
            for number in regions.autocast[switch][:-1]:  # in the last it stands itself
                partition = self._plan.partitions[self._plan.name_of(number)]
                self._repeat(regions.autocast_exits[switch], partition, (partition.environment[switch],))

    def _repeat(self, node: Node, partition: Partition, args: tuple[Any, ...]) -> Node:
        copied = partition.graph.create_node(node.op, node.target, args, {}, type_expr=node.type)
        copied.meta = node.meta.copy()
        return copied

    def _add_inputs(self, partition: Partition) -> None:
        """Add a placeholder for every value from outside; modules, which are no values, are read by `get_attr`."""
        sources = [self._plan.by_name[name] for name in partition.inputs]
        values = [source for source in sources if not self._is_module(source)]
        for number, source in enumerate(values):
            name = source.name if self._keep_input_names else f"arg_{number}"
            self._stand_in(source, partition, partition.graph.placeholder(name, type_expr=source.type))
        for source in sources:
            if self._is_module(source):
                path = str(source.target)
                partition.targets[path] = get_attribute(self._root, path)
                self._stand_in(source, partition, partition.graph.get_attr(path))
        partition.inputs = {source.name: None for source in values}

    def _stand_in(self, source: Node, partition: Partition, node: Node) -> None:
        node.meta = source.meta.copy()
        partition.environment[source] = node

    def _is_module(self, source: Node) -> bool:
        return source.op == "get_attr" and isinstance(get_attribute(self._root, str(source.target)), nn.Module)

    def _target_of(self, node: Node, partition: Partition) -> Any:
        """Return the target of `node` in its partition, where submodules stand side by side: `a.b` becomes `a_b`."""
        if node.op != "call_module":
            return node.target
        path = str(node.target)
        module = get_attribute(self._root, path)
        target = wish = path.replace(".", "_")
        number = 0
        # Unlike torch.fx, which lets `a.b` and `a_b` become one.
        while partition.targets.get(target, module) is not module:
            number += 1
            target = f"{wish}_{number}"
        partition.targets[target] = module
        return target

    def _copy(self, node: Node, partition: Partition, target: Any) -> None:
        environment = partition.environment
        copied = partition.graph.create_node(
            node.op,
            target,
            map_values(node.args, environment.__getitem__),
            map_values(node.kwargs, environment.__getitem__),
            name=node.name if self._keep_node_names else None,
            type_expr=node.type,
        )
        copied.meta = node.meta.copy()
        environment[node] = copied

"""The split of a graph module into submodules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.arguments import map_values
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.passes.part_graph import PartGraph
from fxcore.passes.partition_plan import Partition, PartitionPlan, constant_switch


class SubmoduleBuilder:
    """Fills the graphs of a plan's partitions: inputs, calls, and the switches of global state that they need."""

    def __init__(
        self, plan: PartitionPlan, root: nn.Module, *, keep_node_names: bool | None, keep_input_names: bool
    ) -> None:
        """Take the module that holds attributes and submodules, and the names to keep."""
        self._plan = plan
        self._root = root
        self._keep_node_names = keep_node_names
        self._keep_input_names = keep_input_names

    def build(self, qualname_map: dict[str, str] | None) -> None:
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
                for number in numbers[1:]:  # the first partition holds the switch itself
                    partition = self._plan.partitions[self._plan.name_of(number)]
                    partition.environment[switch] = self._repeat(switch, partition, constant_switch(switch))

    def _repeat_exits(self) -> None:
        regions = self._plan.regions
        for switch in reversed(regions.autocast):
            for number in regions.autocast[switch][:-1]:  # the last partition holds the exit itself
                partition = self._plan.partitions[self._plan.name_of(number)]
                self._repeat(regions.autocast_exits[switch], partition, (partition.environment[switch],))

    def _repeat(self, node: Node, partition: Partition, args: tuple[Any, ...], target: Any = None, **more: Any) -> Node:
        copied = partition.graph.create_node(node.op, target or node.target, args, type_expr=node.type, **more)
        copied.meta = node.meta.copy()
        return copied

    def _add_inputs(self, partition: Partition) -> None:
        """Add a placeholder for every value from outside. Modules are no values; a `get_attr` node reads them."""
        sources = [self._plan.by_name[name] for name in partition.inputs]
        values = [source for source in sources if not self._is_module(source)]
        for number, source in enumerate(values):
            partition.add_input(source, source.name if self._keep_input_names else f"arg_{number}")
        for source in sources:
            if self._is_module(source):
                path = str(source.target)
                partition.targets[path] = get_attribute(self._root, path)
                partition.add_read(source, path)
        partition.inputs = {source.name: None for source in values}

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
        # torch.fx would let `a.b` and `a_b` become one module.
        while partition.targets.get(target, module) is not module:
            number += 1
            target = f"{wish}_{number}"
        partition.targets[target] = module
        return target

    def _copy(self, node: Node, partition: Partition, target: Any) -> None:
        environment = partition.environment
        args = map_values(constant_switch(node), environment.__getitem__)
        kwargs = map_values(node.kwargs, environment.__getitem__)
        name = node.name if self._keep_node_names else None
        environment[node] = self._repeat(node, partition, args, target, kwargs=kwargs, name=name)


__all__ = ["Partition", "split_module", "split_module_simple"]


def split_module(
    m: GraphModule,
    root_m: nn.Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """Return a graph module that does the computation of `m` by calls of submodules, one for each partition.

    `split_callback` returns the partition of a call in the graph. Parameters are read in the outer graph and handed in.
    Where autocast or grad mode is switched, partitions must rise along the graph, and each gets its own switches.

    - `root_m` is not used; it is there because torch.fx has it.
    - `qualname_map` is filled with: path of a submodule in the result -> its path in `m`.
    - `keep_original_order` calls partitions as the graph first reaches them, not in dependency order.
    - `keep_original_node_name`, `keep_original_input_name` (else `arg_0`, `arg_1`, ...): names in the submodules.
    - `partition_affix` goes into their names: `submod_<affix>_0`.
    - `tuple_return` makes a submodule with one output return a tuple too.

    Raises GraphError (a RuntimeError) if partitions depend on one another in a circle.
    """
    plan = PartitionPlan(m.graph, split_callback, partition_affix)
    builder = SubmoduleBuilder(
        plan, m, keep_node_names=keep_original_node_name, keep_input_names=keep_original_input_name
    )
    builder.build(qualname_map)
    outer = _Outer(m, plan, keep_node_names=bool(keep_original_node_name), tuple_return=tuple_return)
    inputs = [node for node in m.graph.nodes if node.op in ("placeholder", "get_attr")]
    if keep_original_order and plan.partitions:
        # Attributes are then read at the first use. Placeholders must stand first, in order.
        inputs = [node for node in inputs if node.op == "placeholder"]
    for node in inputs:
        outer.value_of(node)
    for name in plan.partitions if keep_original_order else plan.sorted_names:
        outer.call_partition(plan.partitions[name])
    return outer.result()


def split_module_simple(
    m: GraphModule, node_to_partition: dict[Node, int], *, partition_affix: str | None = None
) -> GraphModule:
    """Split as `split_module` does, with a table of the partition of every call, and keep the original order."""
    return split_module(m, m, node_to_partition.__getitem__, keep_original_order=True, partition_affix=partition_affix)


class _Outer(PartGraph):
    """The graph that calls the partitions, as it grows."""

    def __init__(self, module: GraphModule, plan: PartitionPlan, *, keep_node_names: bool, tuple_return: bool) -> None:
        super().__init__()
        self._module = module
        self._plan = plan
        self._keep_node_names = keep_node_names
        self._tuple_return = tuple_return
        self._attributes: dict[str, Any] = {}

    def value_of(self, value: Node) -> Node:
        """Return the outer graph's node for `value`. Inputs and attributes are added on the first request."""
        if value not in self.environment:
            path = str(value.target)
            if value.op == "placeholder":
                self.add_input(value, value.name if self._keep_node_names else path, value.args)
            else:
                self._attributes[path] = get_attribute(self._module, path)
                self.add_read(value, path)
        return self.environment[value]

    def call_partition(self, partition: Partition) -> None:
        """End the partition's graph with its output, make it a module, and call the module."""
        inputs, outputs = (
            [self._plan.by_name[name] for name in names] for names in (partition.inputs, partition.outputs)
        )
        is_tuple = partition.finish(outputs, always_tuple=self._tuple_return)
        self._attributes[partition.submod_name] = self._made(partition.targets, partition.graph)
        self.call_part(partition.submod_name, inputs, outputs, is_tuple=is_tuple)

    def result(self) -> GraphModule:
        """Return the values that the original graph returns, and the whole as a module."""
        for node in self._module.graph.find_nodes(op="output"):
            self.graph.output(map_values(node.args[0], self.value_of))
        result = self._made(self._attributes, self.graph)
        # Callers tell partitions from older modules by this note.
        result.meta["partition_names"] = {partition.submod_name for partition in self._plan.partitions.values()}
        return result

    def _made(self, targets: dict[str, Any], graph: Graph) -> GraphModule:
        made = GraphModule(targets, graph)
        made.training = self._module.training
        return made

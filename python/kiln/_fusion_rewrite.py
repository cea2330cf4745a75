"""Replaces a region of a graph (`_fusion`) by one call of kiln's operator."""

from __future__ import annotations

import operator
from typing import Any, Dict, List, Set

import torch
from torch.fx.passes.shape_prop import _extract_tensor_metadata

from ._fusion import Region
from ._fusion_graph import Shape, sizes_of, value_of


class _Inserted:
    """Nodes behind ``after``, one behind the other, each with the tensor that PyTorch would trace."""

    def __init__(self, graph: Any, after: Any, like: Any) -> None:
        self.graph, self.last, self.like = graph, after, like

    def call(self, target: Any, *arguments: Any, **named: Any) -> Any:
        with self.graph.inserting_after(self.last):
            node = self.graph.call_function(target, arguments, named)
        for key in ("stack_trace", "original_aten", "partitioner_tag"):
            if key in self.like.meta:
                node.meta[key] = self.like.meta[key]
        values, of_names = torch.fx.node.map_arg((arguments, named), lambda x: x.meta["val"])
        with value_of(self.like).fake_mode, torch.no_grad():
            made = node.meta["val"] = target(*values, **of_names)
        if isinstance(made, torch.Tensor):
            node.meta["tensor_meta"] = _extract_tensor_metadata(made)
        # Inductor lays arguments of operators that it does not know out as they are here.
        node.meta["eager_input_vals"] = (values, of_names)
        self.last = node
        return node

    def reshaped(self, node: Any, before: Shape, shape: Shape) -> Any:
        return node if before == shape else self.call(torch.ops.aten.reshape.default, node, list(shape))

    def take(self, node: Any) -> None:
        self.last.append(node)
        self.last = node


def fuse(graph: Any, region: Region) -> Any:
    """Makes the region one call of ``torch.ops.kiln.matmul_epilogue``, and returns its node. What it
    stores has the shapes of the values that it replaces, and is row-major as they were."""
    nodes = list(graph.nodes)
    members = set(region.members)
    first, last = nodes.index(region.product), max(nodes.index(x) for x in members)
    later = _in_need(nodes[first : last + 1], members)
    inserted = _Inserted(graph, nodes[last], region.product)
    operands = [inserted.reshaped(x.node, sizes_of(x.node) or (), x.shape) for x in region.operands]
    names = [x.name for x in region.operands]
    target = torch.ops.kiln.matmul_epilogue.default
    named = _named_arguments(inserted, region)
    call = inserted.call(target, region.a, region.b, region.epilogue, names, operands, **named)
    for place, output in enumerate(region.outputs):
        item = inserted.call(operator.getitem, call, place)
        whole = inserted.reshaped(item, output.shape, sizes_of(output.node) or ())
        output.node.replace_all_uses_with(whole)
    for node in later:
        inserted.take(node)
    for node in reversed([x for x in nodes if x in members or x in region.absorbed]):
        if not node.users:
            graph.erase_node(node)
    return call


def _named_arguments(inserted: _Inserted, region: Region) -> Dict[str, Any]:
    """Those whose default is not what the region has."""
    named: Dict[str, Any] = {}
    if region.out_dtype is not None:
        named["out_dtype"] = region.out_dtype
    if region.numerics != "ieee":
        named["numerics"] = region.numerics
    if region.scale_a is not None:
        named["scale_a"] = region.scale_a
    if region.scale_b is not None:
        named["scale_b"] = inserted.call(torch.ops.aten.permute.default, region.scale_b, [1, 0])
    return named


def _in_need(nodes: List[Any], members: Set[Any]) -> List[Any]:
    """Those of ``nodes`` that are no members and depend on one: they have to follow the call."""
    dependent: Set[Any] = set()
    found: List[Any] = []
    for node in nodes:
        if any(x in members or x in dependent for x in node.all_input_nodes) and node not in members:
            dependent.add(node)
            found.append(node)
    return found

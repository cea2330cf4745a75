"""The two graphs that race for a region: its operators as PyTorch has them, and kiln's call. Both have
the neighbours with which Inductor would compile the region's operators: what it saves there is no
gain of kiln's."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any, Dict, List, Set, Tuple

import torch

from ._fusion import Output, Region
from ._fusion_graph import changes_memory, is_fused_by_inductor, is_scaled, value_of
from ._fusion_growth import Operand
from ._fusion_rewrite import fuse
from ._fusion_scaled import scaled_of

#: What is beyond these is left out.
_MOST_FOLLOWERS, _MOST_PRODUCERS = 24, 12


@dataclasses.dataclass(frozen=True)
class Contest:
    before: Any
    after: Any
    #: What both read, as PyTorch traced it. A and B are the first two.
    inputs: Tuple[Any, ...]
    #: Which of them are scales of A and B.
    scales: Tuple[int, ...]
    #: A text that is equal for equal contests.
    identity: str


def contest_of(graph: Any, region: Region) -> Contest:
    nodes = list(graph.nodes)
    within = {*region.members, *region.absorbed}
    within |= _followers(nodes, region)
    within |= _producers(region, within)
    raced = [x for x in nodes if x in within]
    inputs = dict.fromkeys([region.a, region.b])
    for node in raced:
        inputs.update(dict.fromkeys(x for x in node.all_input_nodes if x not in within))
    before, _ = _copy(raced, list(inputs), region)
    after, copied = _copy(raced, list(inputs), region)
    fuse(after.graph, copied)
    after.graph.lint()
    after.recompile()
    values = tuple(value_of(x) for x in inputs)
    scales = tuple(place for place, x in enumerate(inputs) if x in _scales_of(region.product))
    return Contest(before, after, values, scales, _identity(before))


def _scales_of(product: Any) -> Tuple[Any, ...]:
    if not is_scaled(product):
        return ()
    scaled = scaled_of(product)
    return (*scaled.factors, scaled.blocks_a, scaled.blocks_b)


def _followers(nodes: List[Any], region: Region) -> Set[Any]:
    """What Inductor would compute together with the region's last operators: pointwise operators and
    reductions of its outputs, and of each other."""
    members = {*region.members, *region.absorbed}
    near: Dict[Any, None] = dict.fromkeys(region.members)
    #: What depends on the region and is no follower: a follower must not read it.
    beyond: Set[Any] = set()
    for node in nodes[nodes.index(region.product) :]:
        read = [x for x in node.all_input_nodes if x in near or x in beyond]
        if node in members or not read:
            continue
        known = is_fused_by_inductor(node)
        wanted = known and len(near) < len(region.members) + _MOST_FOLLOWERS
        sound = all(_can_be_made(x) for x in (node, *node.all_input_nodes))
        if wanted and sound and not any(x in beyond for x in read) and not changes_memory(node):
            near[node] = None
        else:
            beyond.add(node)
    return set(near) - set(region.members)


def _producers(region: Region, within: Set[Any]) -> Set[Any]:
    """What Inductor would compute within the region's operators, and kiln reads from memory: operands
    that the language cannot say (dropout's mask, say) and nobody else needs."""
    found: Set[Any] = set()
    left = [x.node for x in region.operands]
    while left and len(found) < _MOST_PRODUCERS:
        node = left.pop()
        inner = is_fused_by_inductor(node) and all(x in within or x in found for x in node.users)
        if inner and node not in within and all(map(_can_be_made, (node, *node.all_input_nodes))):
            found.add(node)
            left.extend(node.all_input_nodes)
    return found


def _can_be_made(node: Any) -> bool:
    """Whether random operands can stand for the node's value."""
    value = value_of(node)
    if value is None or not all(type(size) is int for size in value.shape):
        return False
    return bool(value.dtype.is_floating_point or value.dtype == torch.bool)


def _copy(raced: List[Any], inputs: List[Any], region: Region) -> Tuple[Any, Region]:
    """A module of the nodes, and the region in it."""
    graph = torch.fx.Graph()
    copies: Dict[Any, Any] = {}
    for node in inputs:
        copies[node] = graph.placeholder(f"input_{len(copies)}")
        copies[node].meta["val"] = value_of(node)
    for node in raced:
        copies[node] = graph.node_copy(node, lambda x: copies[x])
        copies[node].meta = {"val": node.meta.get("val")}
    within = set(raced)
    of_absorbed = set(region.absorbed)
    leaving = [
        x for x in raced if x not in of_absorbed and any(user not in within for user in x.users)
    ]
    graph.output(tuple(copies[x] for x in leaving))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    copied = dataclasses.replace(
        region,
        members=tuple(copies[x] for x in region.members),
        absorbed=tuple(copies[x] for x in region.absorbed),
        a=copies[region.a],
        b=copies[region.b],
        operands=tuple(Operand(x.name, copies[x.node], x.shape, x.term) for x in region.operands),
        outputs=tuple(Output(x.name, copies[x.node], x.shape) for x in region.outputs),
        scale_a=copies.get(region.scale_a),
        scale_b=copies.get(region.scale_b),
    )
    return module, copied


def _identity(module: Any) -> str:
    """A hash of the operators, with shapes, strides and types."""
    numbers: Dict[Any, str] = {}
    lines: List[str] = []
    for node in module.graph.nodes:
        numbers[node] = f"%{len(numbers)}"
        arguments = torch.fx.node.map_arg((node.args, node.kwargs), lambda x: numbers[x])
        value = value_of(node)
        kind = "" if value is None else f"{value.dtype} {tuple(value.shape)} {tuple(value.stride())}"
        target = "" if node.op in ("placeholder", "output") else node.target
        lines.append(f"{node.op} {target} {arguments} {kind}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()



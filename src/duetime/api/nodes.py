"""The nodes resource: who is there, which shards each looks after, and how far it is behind."""

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from duetime.api.envelope import Reply
from duetime.api.operation import Operation
from duetime.api.request import Request
from duetime.api.views import Instant
from duetime.clock import to_rfc3339
from duetime.errors import NotFound
from duetime.nodes import NodeState, NodeStatus
from duetime.service import Service
from duetime.tenancy.role import Role

# States in which a node looks after shards, or is about to.
_PRESENT = frozenset({"alive", "joining", "leaving"})


class NodeParameters(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to tell of the nodes."""

    shards: Annotated[
        Literal["count", "ranges"], Meta(description="`ranges` tells which shards, too.")
    ] = "count"


class NodeView(msgspec.Struct, kw_only=True):
    """A node, as the one that answers sees it."""

    name: str
    state: Annotated[
        NodeState,
        Meta(
            description="`dead`: its record stood still for all of its time to live. `unknown`: it "
            "has not moved since the node that answers came."
        ),
    ]
    is_this: Annotated[bool, Meta(description="Whether it is the node that answers.")]
    host: str
    pid: int
    version: str
    started_at: Instant
    last_seen_ms: Annotated[int, Meta(description="How long ago its record was last seen to move.")]
    shards: Annotated[int, Meta(description="How many shards it looks after.")]
    shard_ranges: Annotated[
        str | None, Meta(description="Which, if asked for with `shards=ranges`: `0-3,17`.")
    ]
    behind_ms: Annotated[
        int, Meta(description="How late the most overdue timer was that it had in sight.")
    ]
    runs_api: bool
    runs_engine: bool


class NodeListView(msgspec.Struct):
    """All nodes that are known, by name."""

    nodes: list[NodeView]


class Nodes:
    """The operations on nodes."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        return [
            Operation(
                method="GET",
                role=Role.OPERATOR,
                path="/nodes",
                handler=self.list,
                summary="List the nodes",
                tag="Nodes",
                parameters=NodeParameters,
                answer=NodeListView,
                failures=(400,),
            ),
            Operation(
                method="GET",
                path="/nodes/{node}",
                handler=self.get,
                role=Role.READ_WITHOUT_PAYLOADS,
                summary="Get a node",
                tag="Nodes",
                answer=NodeView,
                failures=(404,),
            ),
        ]

    async def list(self, request: Request) -> Reply:
        with_ranges = request.parameters(NodeParameters).shards == "ranges"
        nodes = self._service.nodes()
        shares = self._service.shares() if with_ranges else None
        return Reply(200, "success", NodeListView([_view(node, shares) for node in nodes]))

    async def get(self, request: Request) -> Reply:
        name = request.path_params["node"]
        node = next((each for each in self._service.nodes() if each.name == name), None)
        # Nodes are the operator's; for others there are none.
        if node is None or not request.caller.is_operator:
            raise NotFound("node not found")
        return Reply(200, "success", _view(node, self._service.shares()))


def _view(node: NodeStatus, shares: dict[str, list[int]] | None) -> NodeView:
    about = node.about
    return NodeView(
        name=node.name,
        state=node.state,
        is_this=node.is_this,
        host=about.host,
        pid=about.pid,
        version=about.version,
        started_at=to_rfc3339(about.started_at),
        last_seen_ms=node.last_seen_ms,
        shards=about.shards if node.state in _PRESENT else 0,
        shard_ranges=None if shares is None else ranges(shares.get(node.name, ())),
        behind_ms=about.behind_ms,
        runs_api=about.runs_api,
        runs_engine=about.runs_engine,
    )


def ranges(shards: Iterable[int]) -> str:
    """Numbers in short: ``0-3,17``."""
    runs: list[list[int]] = []
    for shard in sorted(shards):
        if runs and shard == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], shard]
        else:
            runs.append([shard])
    return ",".join("-".join(map(str, run)) for run in runs)

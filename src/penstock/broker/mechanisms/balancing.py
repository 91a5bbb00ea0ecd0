"""Connects the balancer to its broker, and carries its messages ([PADRES]).

Plugged in as a mechanism: PIE messages and letters are publications of the reserved space, addressed by attribute. The
unit that moves is a client connection with all its subscriptions. Outcomes of moves are queued in the middle of a turn
and handled in the next.

An edge has a balancer for its clients. A head balances its cluster with others; if it belongs to a group of heads, it
has a balancer for its own clients, too. The two never mix: messages say which of them they are for, and clients move
from edge to edge or from head to head, so that one kind of move cannot undo the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from penstock.balancing.balancer import Balancer
from penstock.balancing.clusters import ClusterHead
from penstock.balancing.metrics import HostFigures, Measurement
from penstock.balancing.offload.instance import Profile
from penstock.balancing.pie import PIE
from penstock.balancing.ports import Command, MayGo, Publish
from penstock.broker.effects import Record
from penstock.broker.mechanisms.interface import Answer, PublishSystem, Select
from penstock.broker.mechanisms.migration import Migrations
from penstock.broker.mechanisms.sampling import Sampling
from penstock.broker.narrowing import is_reserved
from penstock.broker.rooms import Rooms
from penstock.model.body import decode_message
from penstock.model.errors import PeerError
from penstock.model.message import Message
from penstock.model.ports import Rng
from penstock.model.values import Attributes
from penstock.protocol.status import BalancingStatus
from penstock.selectors.selector import Selector

__all__ = ["Balancing"]


class Balancing:
    """One broker's part in balancing."""

    name = "balancing"

    def __init__(self, rooms: Rooms, migrations: Migrations, rng: Rng) -> None:
        settings = rooms.settings
        self._rooms = rooms
        self._migrations = migrations
        self._settings = settings
        # A home is no broker that clients could go to, wherever it runs.
        neighbours = tuple(name for name in settings.neighbours if name not in settings.homes)
        self.role = settings.balancing.role_of(len(neighbours))
        self.cluster = settings.balancing.cluster_of(settings.name, neighbours)
        self._sampling = Sampling(rooms, migrations)
        self._group = settings.balancing.group if self.role == "head" else ""
        self.head: ClusterHead | None = None
        """At a head: balances its cluster with others."""
        self.balancer: Balancer | None = None
        """Balances this broker's clients; a head without a group has none."""
        if self.role == "head":
            self.head = ClusterHead(settings.name, self.cluster, settings.balancing, self, rng, neighbours=neighbours)
            if self._group:
                self.balancer = Balancer(settings.name, self._group, settings.balancing, self, rng, role="head")
        else:
            self.balancer = Balancer(settings.name, self.cluster, settings.balancing, self, rng)
        self.selector: Selector | None = self._selector(())
        self._selects: Select | None = None
        self._heard: deque[Callable[[int], list[Command]]] = deque()
        migrations.listeners.append(self)

    @property
    def parts(self) -> list[Balancer | ClusterHead]:
        """What balances here: clients, the cluster, or both."""
        return [each for each in (self.head, self.balancer) if each is not None]

    # --- stimuli from the broker

    def measured(self, figures: HostFigures, *, now_ms: int) -> None:
        """Passes the shell's measurements to the balancer of clients; the load of a cluster is that of its edges."""
        if self.balancer is None:
            return
        subscribers, router = self._rooms.subscribers, self._rooms.router
        is_timed = figures.matching_ns is None or figures.matched is None
        self.balancer.measure(
            Measurement(
                now_ms,
                subscribers.matched + router.carried if figures.messages_in is None else figures.messages_in,
                router.bytes_out,
                subscribers.timed if is_timed else figures.matched or 0,
                subscribers.timed_ns if is_timed else figures.matching_ns or 0,
                subscribers.ordinary,
                figures.cpu,
                figures.memory,
                figures.memory_per_subscription,
                None if figures.messages_in is None else figures.matched,
            )
        )

    def on_neighbour(self, _neighbour: str, *, up: bool, now_ms: int) -> list[Answer]:  # noqa: ARG002
        """Ignores links: the roles of brokers are configured."""
        return []

    def on_message(self, _neighbour: str, _payload: bytes, *, now_ms: int) -> list[Answer]:  # noqa: ARG002
        """Ignores control messages: balancing uses only publications."""
        return []

    def on_publication(self, attributes: Attributes, body: bytes, *, now_ms: int) -> list[Answer]:
        """Handles a PIE message or a letter."""
        try:
            payload = decode_message(body)[1].payload
        except PeerError as error:
            return [Record("balancing-malformed", (("problem", str(error)),))]
        return self._answers(self._part_for(attributes).on_publication(attributes, payload, now_ms=now_ms))

    def next_deadline(self) -> int | None:
        """When to wake the mechanism: at once if moves have ended."""
        if self._heard:
            return 0
        wishes = [each.next_deadline() for each in self.parts]
        return min((each for each in wishes if each is not None), default=None)

    def on_deadline(self, *, now_ms: int) -> list[Answer]:
        """Handles the outcomes of moves, and what else is due."""
        commands: list[Command] = []
        while self._heard:
            commands += self._heard.popleft()(now_ms)
        for part in self.parts:
            due_ms = part.next_deadline()
            if due_ms is not None and now_ms >= due_ms:
                commands += part.on_deadline(now_ms=now_ms)
        return self._answers(commands)

    def status(self) -> BalancingStatus:
        """Figures for the operator."""
        if self.head is None:
            assert self.balancer is not None
            return self.balancer.status()
        status = self.head.status()
        return status if self.balancer is None else replace(status, own=self.balancer.status())

    # --- outcomes of moves

    def arrived(self, session: int, client: str) -> None:  # noqa: ARG002
        """A client of this session has arrived here."""
        if self.balancer is not None:
            on_arrived = self.balancer.on_arrived
            self._heard.append(lambda now_ms: on_arrived(session, now_ms=now_ms))

    def left(self, session: int, client: str) -> None:  # noqa: ARG002
        """A client of this session has moved away."""
        if self.balancer is not None:
            self.balancer.on_left()

    def failed(self, session: int, client: str, reason: str) -> None:
        """A client of this session stays."""
        if self.balancer is not None:
            on_failed = self.balancer.on_failed
            self._heard.append(lambda _: on_failed(session, client, reason))

    # --- what balancing asks of the broker

    @property
    def address(self) -> str:
        """Where clients find this broker."""
        return self._settings.reached_at

    def covering_set(self, count_max: int) -> tuple[str, ...]:
        """The covering set of this broker, without the reserved space."""
        return tuple(self._rooms.filters.covering(is_reserved, count_max))

    def has_movable(self) -> bool:
        """Whether any of its clients could move to another broker."""
        return self._sampling.has_movable()

    def begin_sampling(self, covering: Sequence[Selector], samples_max: int, may_go: MayGo) -> None:
        """Starts recording which interests want which publications."""
        self._sampling.begin(covering, samples_max, may_go)

    def is_sampled(self) -> bool:
        """Whether all samples are taken."""
        return self._sampling.is_full

    def end_sampling(self) -> Profile:
        """Stops recording and returns the profile."""
        return self._sampling.end()

    def client_of(self, connection: int) -> str:
        """The name of the client on a connection; empty if it is gone."""
        peer = self._rooms.connections.peers.get(connection)
        return peer.name if peer else ""

    def move(self, connections: Sequence[int], broker: str, address: str, session: int, *, now_ms: int) -> int:
        """Asks these clients to move; returns how many were asked.

        A partner's own word for its address counts only where nobody else knows it: clients show their tokens there.
        """
        known = dict(self._settings.addresses)
        if known:
            address = known.get(broker, "")
        if not address:
            return 0
        move, total = self._migrations.move, len(connections)
        return sum(
            not move(each, broker=broker, address=address, session=session, total=total, now_ms=now_ms)
            for each in connections
        )

    def watch(self, clusters: Sequence[str]) -> None:
        """Subscribes to the local PIE messages of these clusters, besides those of its own."""
        self._selects = Select(self._selector(clusters))

    def _selector(self, clusters: Sequence[str]) -> Selector:
        name, own = _quoted(self._settings.name), [self.cluster, *clusters]
        if self._group:
            own.append(self._group)
        every = ", ".join(map(_quoted, dict.fromkeys(own)))
        text = f"$class = 'PIE' AND $scope = 'local' AND $cluster IN ({every})"
        if self.role == "head":
            text += f" OR $class = 'PIE' AND $scope = 'global' AND $to = {name}"
        return Selector.parse(f"{text} OR $class = 'BALANCING' AND $to = {name}")

    def _part_for(self, attributes: Attributes) -> Balancer | ClusterHead:
        """Which part a message is for: at a head, all about clusters and their edges is for the cluster."""
        if self.head is None:
            assert self.balancer is not None
            return self.balancer
        is_of_edges = attributes.get("$class") == PIE and attributes.get("$cluster") != self._group
        if self.balancer is None or is_of_edges or attributes.get("$scope") == "global":
            return self.head
        return self.balancer

    def _answers(self, commands: Sequence[Command]) -> list[Answer]:
        answers: list[Answer] = []
        if self._selects is not None:
            answers.append(self._selects)
            self._selects = None
        for command in commands:
            if isinstance(command, Publish):
                answers.append(PublishSystem(Message.system(command.attributes, command.payload)))
            else:
                answers.append(Record(command.event, command.fields))
        return answers


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"

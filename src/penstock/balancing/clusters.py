"""Balances load between clusters, at a cluster-head ([PADRES] sections 3.2 and 3.3).

A head averages the local PIE messages of its edges and tells the neighbouring heads. Two clusters out of balance agree
on a session; then each head tells its edges to listen to the edges of the other cluster, and all of them balance as if
they were in one cluster. The session ends when they are all in each other's balanced sets, or by timeout. A cluster is
N/A if one of its edges is; it may still offload if none of its edges has room (ours: the paper does not say how a
cluster that is overloaded as a whole sheds load).

The head's own clients are not its business: a ``Balancer`` beside it shares them with other heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.balancing.detection import Triggers, actions
from penstock.balancing.estimators import Figures
from penstock.balancing.mediation import LoadSession, Mediator, Phase
from penstock.balancing.messages import Done, End, Letter, Refusal, Reply, Request, Watch, address_of
from penstock.balancing.metrics import Load
from penstock.balancing.peers import Peers
from penstock.balancing.pie import PIE, MalformedError, Pie, average, is_cluster
from penstock.balancing.ports import BalancedHost, Command, Note, Publish
from penstock.balancing.reporting import with_load
from penstock.balancing.settings import BalancingSettings
from penstock.balancing.standing import Standing
from penstock.balancing.states import State, Stimulus
from penstock.model.metrics import BALANCED
from penstock.model.ports import Rng
from penstock.model.values import Attributes
from penstock.protocol.status import BalancingStatus, SessionStatus

__all__ = ["ClusterHead"]

_NOTHING = Figures(0.0, 0, 0.0, 1.0, 0.0, 0.0)
"""Heads reply with empty figures: their edges exchange the real ones."""


class ClusterHead:
    """Balances one cluster with the neighbouring ones."""

    def __init__(
        self,
        name: str,
        cluster: str,
        settings: BalancingSettings,
        host: BalancedHost,
        rng: Rng,
        *,
        neighbours: Sequence[str],
    ) -> None:
        self._name, self._cluster, self._settings = name, cluster, settings
        self._host, self._rng, self._neighbours = host, rng, tuple(neighbours)
        self._triggers = Triggers.of_clusters(settings)
        self.standing = Standing(settings, self._triggers)
        self._edges = Peers(peer_ms=settings.peer_ms)
        self._heads = Peers(peer_ms=settings.peer_ms)
        self._mediator = Mediator(name, settings, is_global=True)
        self._other = ""
        """The partner's cluster, during a session."""
        self._begun_ms = 0
        self._pie_ms: int | None = None
        self._detection_ms = 0
        self.load = Load()
        self.counts = dict.fromkeys(("pies", "letters", "malformed", "sessions", "passed"), 0)

    # --- stimuli

    @property
    def session(self) -> LoadSession | None:
        """The session under way."""
        return self._mediator.session

    def on_publication(self, attributes: Attributes, payload: bytes, *, now_ms: int) -> list[Command]:
        """Handles a PIE message or a letter; a malformed one is counted, and ends the session it belongs to."""
        try:
            if attributes.get("$class") == PIE:
                return self._on_pie(Pie.from_attributes(attributes), now_ms)
            letter = Letter.read(attributes, payload)
        except MalformedError as error:
            self.counts["malformed"] += 1
            return [Note("balancing-malformed", (("problem", str(error)),)), *self._on_unreadable(attributes, now_ms)]
        return self._on_letter(letter, now_ms) if letter.to == self._name and letter.is_global else []

    def next_deadline(self) -> int | None:
        """When ``on_deadline`` is due next."""
        if self._pie_ms is None:
            return 0
        wishes = [self._pie_ms, self._detection_ms, self._mediator.next_deadline()]
        return min(each for each in wishes if each is not None)

    def on_deadline(self, *, now_ms: int) -> list[Command]:
        """Do everything that is due now."""
        if self._pie_ms is None:
            self._pie_ms = now_ms + self._settings.pie_ms + self._rng.randrange(self._settings.pie_ms)
            self._detection_ms = now_ms + self._settings.detection_ms + self._rng.randrange(self._settings.detection_ms)
        commands: list[Command] = []
        session = self._mediator.session
        if session is not None and now_ms >= session.due_ms:
            commands += self._time_out(session, now_ms)
        if now_ms >= self._detection_ms:
            self._detection_ms = now_ms + self._settings.detection_ms
            commands += self._detect(now_ms)
        if now_ms >= self._pie_ms or self.standing.changed:
            self._pie_ms = now_ms + self._settings.pie_ms
            commands += self._tell(now_ms)
        return commands

    # --- load information

    def edges(self, *, now_ms: int) -> dict[str, Pie]:
        """The edges of its own cluster heard lately."""
        return self._edges.known(now_ms=now_ms, clusters=(self._cluster,))

    def _on_pie(self, pie: Pie, now_ms: int) -> list[Command]:
        if not pie.is_global:
            self._edges.hear(pie, now_ms=now_ms)
        elif pie.broker != self._name:
            self._heads.hear(pie, now_ms=now_ms)
            if not pie.hops and not self.edges(now_ms=now_ms):
                # A head without edges only relays.
                self.counts["passed"] += 1
                further = replace(pie, hops=pie.hops + 1)
                return [Publish(further.attributes(to)) for to in self._neighbours if to != pie.broker]
        return []

    def _tell(self, now_ms: int) -> list[Command]:
        self.standing.changed = False
        if not self.edges(now_ms=now_ms):
            return []
        self.counts["pies"] += 1
        pie = Pie(self._name, self._cluster, self.standing.state, self.load, is_global=True)
        return [Publish(pie.attributes(to)) for to in self._neighbours]

    # --- detection

    def _detect(self, now_ms: int) -> list[Command]:
        edges = self.edges(now_ms=now_ms)
        if not edges:
            return []
        self.load = average(each.load for each in edges.values())
        if self.standing.state is State.BUSY:
            return self._look_whether_balanced(edges, now_ms)
        self.standing.look(self.load, now_ms=now_ms, is_loaded=self._is_not_available(edges))
        if self._mediator.session is not None or not self._may_start(edges):
            return []
        overload = self._settings.higher_overload
        found = actions(self.load, self._heads.known(now_ms=now_ms), self._triggers, overload=overload)
        return self._send(self._mediator.ask(found, now_ms=now_ms))

    def _is_not_available(self, edges: dict[str, Pie]) -> bool:
        return any(each.state is State.NOT_AVAILABLE for each in edges.values())

    def _may_start(self, edges: dict[str, Pie]) -> bool:
        if self.standing.state is State.OK:
            return True
        low, high = self._settings.lower_overload, self._settings.higher_overload
        busiest = [each.load.highest() for each in edges.values()]
        return self.standing.state is not State.BUSY and max(busiest) > high and min(busiest) > low

    def _look_whether_balanced(self, edges: dict[str, Pie], now_ms: int) -> list[Command]:
        session = self._mediator.session
        others = self._edges.known(now_ms=now_ms, clusters=(self._other,))
        if session is None or not others or now_ms - self._begun_ms < self._settings.stabilize_ms:
            return []
        every = {**edges, **others}
        for name, pie in every.items():
            if pie.state is State.BUSY or not (every.keys() - {name}) <= set(pie.balanced):
                return []
        session, letters = self._mediator.finish(Done(len(every)))
        return self._send(letters) + self._close("balanced", now_ms)

    # --- sessions

    def _on_letter(self, letter: Letter, now_ms: int) -> list[Command]:
        content, mediator = letter.content, self._mediator
        if isinstance(content, Request):
            reply = None
            edges = self.edges(now_ms=now_ms)
            if self.standing.state is State.OK and mediator.session is None and edges:
                reply = Reply(_NOTHING, "", (self._cluster,))
            accepted, letters = mediator.on_request(letter, self.standing.state, reply, now_ms=now_ms)
            if not accepted:
                return self._send(letters)
            self.standing.apply(Stimulus.ACCEPTS, now_ms=now_ms)
            known = self._heads.known(now_ms=now_ms).get(letter.sender)
            return self._send(letters) + self._open(known.cluster if known else letter.sender, now_ms)
        if isinstance(content, Reply):
            return self._on_reply(letter, content, now_ms)
        if isinstance(content, Refusal):
            return self._send(mediator.on_refusal(letter, now_ms=now_ms))
        was_asking = mediator.session is not None and mediator.session.phase is Phase.ASKING
        ended = mediator.on_end(letter)
        return [] if ended is None or was_asking else self._close(f"{content.kind} by {letter.sender}", now_ms)

    def _on_reply(self, letter: Letter, reply: Reply, now_ms: int) -> list[Command]:
        strays = self._mediator.on_reply(letter, reply, now_ms=now_ms)
        if strays:
            return self._send(strays)
        session = self._mediator.session
        assert session is not None
        may = self._may_start(self.edges(now_ms=now_ms))
        overloaded = self.standing.state is not State.OK
        stimulus = Stimulus.OFFLOADS_OVERLOADED if overloaded else Stimulus.OFFLOADS
        names = [each for each in reply.covering if is_cluster(each)]
        if not may or len(names) != 1 or not self.standing.apply(stimulus, now_ms=now_ms):
            return self._send(self._mediator.finish(End("not needed any more"))[1])
        session.due_ms = now_ms + self._settings.global_session_ms
        self.counts["sessions"] += 1
        return self._open(names[0], now_ms)

    def _on_unreadable(self, attributes: Attributes, now_ms: int) -> list[Command]:
        try:
            sender, to, number = address_of(attributes)
        except MalformedError:
            return []
        if to != self._name or attributes.get("$scope") != "global" or attributes.get("$class") == PIE:
            return []
        ended, letters = self._mediator.on_unreadable(sender, number, now_ms=now_ms)
        closed = self._close(f"unreadable letter from {sender}", now_ms) if ended else []
        return self._send(letters) + closed

    def _open(self, other: str, now_ms: int) -> list[Command]:
        """Let the edges of both clusters see each other."""
        self._other, self._begun_ms = other, now_ms
        self._host.watch((other,))
        fields = (("cluster", self._cluster), ("with", other))
        return [Note("balancing-clusters", fields), *self._tell_edges((other,), now_ms)]

    def _time_out(self, session: LoadSession, now_ms: int) -> list[Command]:
        if session.phase is Phase.ASKING:
            return self._send(self._mediator.give_up_asking(now_ms=now_ms))
        self._mediator.counts["timeouts"] += 1
        _, letters = self._mediator.finish(End("it has lasted for too long"))
        return self._send(letters) + self._close("timeout", now_ms)

    def _close(self, why: str, now_ms: int) -> list[Command]:
        self.standing.apply(Stimulus.ENDS, now_ms=now_ms)
        self._host.watch(())
        note = Note("balancing-clusters-ended", (("cluster", self._cluster), ("with", self._other), ("why", why)))
        self._other = ""
        return [note, *self._tell_edges((), now_ms)]

    def _tell_edges(self, clusters: tuple[str, ...], now_ms: int) -> list[Command]:
        letters = [Letter(self._name, edge, 0, Watch(clusters), is_global=True) for edge in self.edges(now_ms=now_ms)]
        return self._send(letters)

    def _send(self, letters: Sequence[Letter]) -> list[Command]:
        self.counts["letters"] += len(letters)
        return [Publish(each.attributes(), each.payload()) for each in letters]

    def status(self) -> BalancingStatus:
        """Figures for the operator."""
        session = self._mediator.session
        status = BalancingStatus(
            role="head",
            cluster=self._cluster,
            state=self.standing.state.value,
            edges=len(self._edges),
            heads=len(self._heads),
            session=SessionStatus(partner=session.partner, phase=session.phase.value) if session else None,
            counts={**self.counts, **self._mediator.counts},
        )
        return with_load(status, self.load, BALANCED)

"""The balancer of one broker's clients: combines detection, mediation, estimation and offload ([PADRES] figure 2).

Edges balance within their cluster. Heads of a group do the same among each other (ours: future work in the paper), with
the name of the group in place of the cluster.

Driven by values: measurements, letters and PIE messages, arrivals and the time come in; publications and notes go out.
It queries its broker through ``BalancedHost``.

Ours: trails, the brokers each subscriber has left, so that none is sent back for a while. The paper's brokers forget; a
subscriber handed back and forth is what its authors call instability. A trail travels with its subscriber from broker
to broker, in the letter that announces the move.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from penstock.balancing.detection import Action, Triggers, actions, balanced_with, relief_of
from penstock.balancing.estimators import DelayFit, Figures, figures_of
from penstock.balancing.mediation import LoadSession, Mediator, Phase
from penstock.balancing.messages import (
    TRAIL_MAX,
    Done,
    End,
    Letter,
    Moving,
    Refusal,
    Reply,
    Request,
    Watch,
    address_of,
    fitting,
)
from penstock.balancing.metrics import Load, LoadMeter, Measurement
from penstock.balancing.offload import ALGORITHMS, Coverage, Offload, offload_publishers
from penstock.balancing.peers import Peers
from penstock.balancing.pie import PIE, MalformedError, Pie
from penstock.balancing.ports import BalancedHost, Command, Note, Publish
from penstock.balancing.reporting import (
    Estimate,
    decision_notes,
    decision_status,
    mean_accuracy,
    session_status,
    with_load,
)
from penstock.balancing.settings import BalancingSettings, Role
from penstock.balancing.standing import Standing
from penstock.balancing.states import State, Stimulus
from penstock.model.metrics import BALANCED, INPUT, Metric
from penstock.model.ports import Rng
from penstock.model.values import Attributes
from penstock.protocol.status import BalancingStatus, DecisionStatus
from penstock.selectors.errors import SelectorError
from penstock.selectors.selector import Selector

__all__ = ["Balancer", "Trails"]

_KEPT: Final = 1_000
_CLIENTS_MAX: Final = 100_000


class Balancer:
    """Balances one broker with others of its cluster, or a head with others of its group."""

    def __init__(
        self,
        name: str,
        cluster: str,
        settings: BalancingSettings,
        host: BalancedHost,
        rng: Rng,
        *,
        role: Role = "edge",
    ) -> None:
        self._name, self._cluster, self._settings = name, cluster, settings
        self._role = role
        self._host, self._rng = host, rng
        self._triggers = Triggers.local(settings)
        self._meter = LoadMeter(window_ms=settings.smoothing_ms, output_bandwidth=settings.output_bandwidth)
        self._settle_ms = min(settings.detection_ms, settings.smoothing_ms)
        self._fit = DelayFit(is_proportional=settings.delay_model == "proportional")
        self.standing = Standing(settings, self._triggers)
        self._peers = Peers(peer_ms=settings.peer_ms)
        self._mediator = Mediator(name, settings)
        self._trails = Trails(return_ms=settings.return_ms)
        self._watched: dict[str, int] = {}
        """Clusters it watches besides its own, and until when."""
        self._fruitless: dict[tuple[str, Metric], tuple[int, float]] = {}
        self._expected: tuple[int, bool, Load] | None = None
        self._pie_ms: int | None = None
        self._detection_ms = 0
        self.estimates: deque[Estimate] = deque(maxlen=_KEPT)
        self.counts = {
            **dict.fromkeys(("pies", "letters", "malformed", "sessions", "fruitless", "migrations", "arrivals"), 0)
        }
        self._last = DecisionStatus()

    # --- stimuli

    @property
    def load(self) -> Load:
        """How busy this broker is."""
        return self._meter.load

    @property
    def session(self) -> LoadSession | None:
        """The session under way."""
        return self._mediator.session

    def figures(self) -> Figures:
        """The quantities that determine the load."""
        return figures_of(self._meter, self._fit)

    def measure(self, measurement: Measurement) -> None:
        """Takes a measurement from the shell or the broker itself."""
        if self._meter.add(measurement):
            self._fit.add(self._meter.subscriptions_mean, self._meter.delay_s)

    def on_publication(self, attributes: Attributes, payload: bytes, *, now_ms: int) -> list[Command]:
        """Handles a PIE message or a letter; a malformed one is counted, and ends the session it belongs to."""
        try:
            if attributes.get("$class") == PIE:
                pie = Pie.from_attributes(attributes)
                if pie.broker != self._name and not pie.is_global:
                    self._peers.hear(pie, now_ms=now_ms)
                return []
            letter = Letter.read(attributes, payload)
        except MalformedError as error:
            self.counts["malformed"] += 1
            return [Note("balancing-malformed", (("problem", str(error)),)), *self._on_unreadable(attributes, now_ms)]
        if letter.to != self._name or letter.is_global != isinstance(letter.content, Watch):
            # Of the letters about clusters, only a head's word to its edges is for a balancer.
            return []
        return self._on_letter(letter, now_ms)

    def on_arrived(self, session: int, *, now_ms: int) -> list[Command]:
        """A subscriber has moved here."""
        self.counts["arrivals"] += 1
        return self._done(now_ms) if self._mediator.on_arrived(session) else []

    def on_left(self) -> None:
        """A subscriber has moved away."""
        self.counts["migrations"] += 1

    def on_failed(self, session: int, client: str, reason: str) -> list[Command]:
        """A subscriber that was told to move did not."""
        note = Note("balancing-stays", (("session", session), ("client", client), ("reason", reason)))
        return [note, *self._send(self._mediator.on_failed(session))]

    def next_deadline(self) -> int | None:
        """When ``on_deadline`` is due next."""
        if self._pie_ms is None or (self._phase is Phase.SAMPLING and self._host.is_sampled()):
            return 0
        wishes = [self._pie_ms, self._detection_ms, self._mediator.next_deadline()]
        return min(each for each in wishes if each is not None)

    def on_deadline(self, *, now_ms: int) -> list[Command]:
        """Do everything that is due now."""
        if self._pie_ms is None:
            # Spread brokers in time: requests that cross are refused on both sides.
            self._pie_ms = now_ms + self._rng.randrange(self._settings.pie_ms)
            self._detection_ms = now_ms + self._settings.detection_ms + self._rng.randrange(self._settings.detection_ms)
        commands = self._on_session_deadline(now_ms)
        if now_ms >= self._detection_ms:
            self._detection_ms = now_ms + self._settings.detection_ms
            commands += self._detect(now_ms)
        if now_ms >= self._pie_ms or self.standing.changed:
            self._pie_ms = now_ms + self._settings.pie_ms
            commands += self._tell(now_ms)
        return commands

    # --- load information and detection

    def peers(self, *, now_ms: int) -> dict[str, Pie]:
        """The edges it may balance with: those of its own cluster and of the clusters it watches."""
        self._watched = {name: until for name, until in self._watched.items() if until > now_ms}
        return self._peers.known(now_ms=now_ms, clusters=(self._cluster, *self._watched))

    def _tell(self, now_ms: int) -> list[Command]:
        self.standing.changed = False
        self.counts["pies"] += 1
        balanced = balanced_with(self.load, self.peers(now_ms=now_ms), self._triggers)
        return [Publish(Pie(self._name, self._cluster, self.standing.state, self.load, balanced).attributes())]

    def _detect(self, now_ms: int) -> list[Command]:
        if self.standing.state is State.BUSY:
            return []
        load, before = self.load, self.standing.state
        if before is State.STABILIZING and self._meter.span_ms < self._settle_ms:
            # Too little was measured since the session: an overload seen now would be the old one.
            return []
        self.standing.look(load, now_ms=now_ms)
        if before is State.STABILIZING and self.standing.state is not before:
            self._compare(now_ms)
        if self._mediator.session is not None or not self.standing.may_offload(load, now_ms=now_ms):
            return []
        overload = self.standing.overload(now_ms=now_ms)
        if self.standing.is_moving(now_ms=now_ms) and relief_of(load, overload) is None:
            # Peers' reports are older than our own measurement: while loads move, a difference is no imbalance.
            return []
        found = actions(load, self.peers(now_ms=now_ms), self._triggers, overload=overload)
        promising = [each for each in found if self._promises(each, now_ms)]
        if not promising or not self._host.has_movable():
            return []
        return self._send(self._mediator.ask(promising, now_ms=now_ms))

    def _promises(self, action: Action, now_ms: int) -> bool:
        """Whether asking makes sense: not after a recent fruitless try, unless the difference has grown."""
        until_ms, difference = self._fruitless.get((action.partner, action.metric), (0, 0.0))
        return now_ms >= until_ms or action.difference > difference + self._triggers.of(action.metric) / 2

    def _compare(self, now_ms: int) -> None:
        if self._expected is not None:
            made_ms, is_offloader, estimated = self._expected
            self.estimates.append(Estimate(now_ms, is_offloader, estimated, self.load, made_ms))
            self._expected = None

    # --- sessions

    @property
    def _phase(self) -> Phase | None:
        session = self._mediator.session
        return session.phase if session else None

    def _on_letter(self, letter: Letter, now_ms: int) -> list[Command]:
        content, mediator = letter.content, self._mediator
        if isinstance(content, Watch):
            until_ms = now_ms + self._settings.global_session_ms
            self._watched = dict.fromkeys(content.clusters[:_KEPT], until_ms)
            self._host.watch(tuple(self._watched))
            return []
        if isinstance(content, Request):
            return self._on_request(letter, now_ms)
        if isinstance(content, Reply):
            return self._on_reply(letter, content, now_ms)
        if isinstance(content, Refusal):
            return self._send(mediator.on_refusal(letter, now_ms=now_ms))
        if isinstance(content, Moving):
            if mediator.session is not None and mediator.session.partner == letter.sender:
                self._trails.learn(content.trails, letter.sender, now_ms=now_ms)
            return self._done(now_ms) if mediator.on_moving(letter, content, now_ms=now_ms) else []
        return self._on_end(letter, content, now_ms)

    def _on_request(self, letter: Letter, now_ms: int) -> list[Command]:
        reply = None
        if self.standing.state is State.OK and self._mediator.session is None:
            covering = fitting(self._host.covering_set(self._settings.covering_max))
            reply = Reply(self.figures(), self._host.address, covering)
        accepted, letters = self._mediator.on_request(letter, self.standing.state, reply, now_ms=now_ms)
        if accepted:
            self.standing.apply(Stimulus.ACCEPTS, now_ms=now_ms)
        return self._send(letters) + self._tell_change(now_ms)

    def _on_reply(self, letter: Letter, reply: Reply, now_ms: int) -> list[Command]:
        strays = self._mediator.on_reply(letter, reply, now_ms=now_ms)
        if strays:
            return self._send(strays)
        session = self._mediator.session
        assert session is not None
        assert session.action is not None
        try:
            covering = [Selector.parse(text) for text in reply.covering[: self._settings.covering_max]]
        except SelectorError as error:
            self.counts["malformed"] += 1
            self._leave_alone(session.action, now_ms)
            return self._send(self._mediator.finish(End(f"covering set: {error}"))[1])
        if not self.standing.start_offloading(self.load, now_ms=now_ms):
            return self._send(self._mediator.finish(End("not needed any more"))[1])
        self.counts["sessions"] += 1
        partner = session.partner
        self._host.begin_sampling(
            covering,
            self._settings.samples_max,
            lambda client: self._trails.may_go(client, partner, now_ms=now_ms),
        )
        return self._tell_change(now_ms)

    def _on_unreadable(self, attributes: Attributes, now_ms: int) -> list[Command]:
        try:
            sender, to, number = address_of(attributes)
        except MalformedError:
            return []
        if to != self._name or attributes.get("$class") == PIE:
            return []
        action = self.session.action if self.session else None
        ended, letters = self._mediator.on_unreadable(sender, number, now_ms=now_ms)
        if letters and action is not None:
            self._leave_alone(action, now_ms)
        closed = self._close(ended, f"unreadable letter from {sender}", now_ms) if ended else []
        return self._send(letters) + closed

    def _leave_alone(self, action: Action, now_ms: int) -> None:
        """Do not ask a fruitless partner again for a while."""
        self._fruitless[action.partner, action.metric] = (now_ms + self._settings.fruitless_ms, action.difference)

    def _on_end(self, letter: Letter, content: Done | End | Refusal, now_ms: int) -> list[Command]:
        session = self._mediator.on_end(letter)
        if session is None:
            return []
        return self._close(session, f"{content.kind} by {letter.sender}", now_ms)

    def _on_session_deadline(self, now_ms: int) -> list[Command]:
        session = self._mediator.session
        if session is None:
            return []
        if session.phase is Phase.SAMPLING and (now_ms >= session.due_ms or self._host.is_sampled()):
            return self._offload(session, now_ms)
        if now_ms < session.due_ms:
            return []
        if session.phase is Phase.ASKING:
            return self._send(self._mediator.give_up_asking(now_ms=now_ms))
        self._mediator.counts["timeouts"] += 1
        if session.phase is Phase.RECEIVING:
            return self._done(now_ms)
        session, letters = self._mediator.finish(End("nothing was heard for too long"))
        return self._send(letters) + self._close(session, "timeout", now_ms)

    def _offload(self, session: LoadSession, now_ms: int) -> list[Command]:
        """Decide who moves, once sampling is over, and tell them."""
        assert session.action is not None
        assert session.reply is not None
        action, work = session.action, self._decide(session)
        address = session.reply.address
        chosen = [
            connection
            for place, count in work.moves.items()
            for connection in work.profile.interests[place].subscribers[:count]
        ]
        chosen += [each.connection for each in work.leaving]
        if not chosen:
            self.counts["fruitless"] += 1
            self._leave_alone(action, now_ms)
            session, letters = self._mediator.finish(End("nothing to move"))
            return self._send(letters) + self._close(session, "nothing to move", now_ms)
        trails = self._trails.of(map(self._host.client_of, chosen), now_ms=now_ms)
        session.estimated = work.partner.load()
        self._expected = (now_ms, True, work.host.load())
        letters = self._mediator.moving(Moving(len(chosen), trails, session.estimated), now_ms=now_ms)
        self._last = decision_status(session, work)
        commands = [*self._send(letters), *decision_notes(session, work)]
        told = self._host.move(chosen, session.partner, address, session.number, now_ms=now_ms)
        for _ in range(len(chosen) - told):
            commands += self._send(self._mediator.on_failed(session.number))
        return commands

    def _decide(self, session: LoadSession) -> Offload:
        assert session.action is not None
        assert session.reply is not None
        profile, action = self._host.end_sampling(), session.action
        covering = session.reply.covering[: self._settings.covering_max]
        partner = [one for each in covering for one in Selector.parse(each).conjunctions]
        coverage = Coverage(profile.interests, partner)
        figures, reply = self.figures(), session.reply.figures
        work = Offload(profile, figures, reply, self._settings, self._triggers, is_overload=action.is_overload)
        work.leavers = profile.leavers(self._name, session.partner)
        if profile.press.taken or (work.leavers and action.metric is INPUT):
            ALGORITHMS[action.metric](work, coverage)
        elif action.is_overload:
            # Without samples nothing is known of subscribers.
            offload_publishers(work)
        return work

    def _done(self, now_ms: int) -> list[Command]:
        """End the session: every subscriber that will arrive has arrived."""
        session = self._mediator.session
        assert session is not None
        session, letters = self._mediator.finish(Done(session.arrived))
        self._expected = (now_ms, False, session.estimated)
        return self._send(letters) + self._close(session, f"{session.arrived} arrived", now_ms)

    def _close(self, session: LoadSession, why: str, now_ms: int) -> list[Command]:
        if session.phase is Phase.SAMPLING:
            self._host.end_sampling()
        if session.phase is Phase.ASKING:
            # The candidate ended a session that had not begun: that counts as a refusal.
            return []
        self.standing.apply(Stimulus.ENDS, now_ms=now_ms)
        if session.total:
            self._meter.forget()
        fields = (("session", session.number), ("partner", session.partner), ("why", why))
        return [Note("balancing-ended", fields), *self._tell_change(now_ms)]

    def _tell_change(self, now_ms: int) -> list[Command]:
        if not self.standing.changed or self._pie_ms is None:
            return []
        self._pie_ms = now_ms + self._settings.pie_ms
        return self._tell(now_ms)

    # --- what goes out

    def _send(self, letters: Sequence[Letter]) -> list[Command]:
        self.counts["letters"] += len(letters)
        return [Publish(each.attributes(), each.payload()) for each in letters]

    def status(self) -> BalancingStatus:
        """Figures for the operator."""
        session = self._mediator.session
        status = BalancingStatus(
            role=self._role,
            cluster=self._cluster,
            state=self.standing.state.value,
            peers=len(self._peers),
            session=None if session is None else session_status(session),
            last=self._last,
            accuracy={metric.name: mean_accuracy(self.estimates, metric) for metric in BALANCED},
            counts={**self.counts, **self._mediator.counts},
        )
        return with_load(status, self.load)


class Trails:
    """The brokers each client must not return to, and until when."""

    def __init__(self, *, return_ms: int) -> None:
        self._return_ms = return_ms
        self._left: dict[str, dict[str, int]] = {}

    def __len__(self) -> int:
        return len(self._left)

    def may_go(self, client: str, broker: str, *, now_ms: int) -> bool:
        """Whether a client may move to a broker."""
        return self._left.get(client, {}).get(broker, 0) <= now_ms

    def of(self, clients: Iterable[str], *, now_ms: int) -> dict[str, tuple[str, ...]]:
        """The unexpired trails of clients that are about to move."""
        return {
            client: tuple(broker for broker, until_ms in self._left.get(client, {}).items() if until_ms > now_ms)
            for client in clients
        }

    def learn(self, trails: Mapping[str, Iterable[str]], left: str, *, now_ms: int) -> None:
        """Records that these clients left a broker, and their earlier trails; beyond a bound, drops the oldest."""
        until_ms = now_ms + self._return_ms
        for client, brokers in trails.items():
            known = {broker: end_ms for broker, end_ms in self._left.pop(client, {}).items() if end_ms > now_ms}
            known |= dict.fromkeys([*brokers, left], until_ms)
            # The latest ones: of very many, the oldest may be forgotten.
            self._left[client] = dict(list(known.items())[-TRAIL_MAX:])
        while len(self._left) > _CLIENTS_MAX:
            del self._left[next(iter(self._left))]

"""A publish queue against a broker that refuses, rewinds, acknowledges late, and loses connections at random.

The broker changes its mind about what it refuses, so it also refuses repetitions of messages that the pubend has. The
pubend may go away and come back.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.protocol.frames import Publish, PublishAck, Refused, Rewind, Rewound, Skipped
from penstock.session.publish_queue import PublishQueue

KINDS = b"abcd"
"""Messages begin with one of these; the rules of the broker say which of them it refuses."""
GONE = "there is no such pubend"


@dataclass
class World:
    """What lasts longer than a connection."""

    is_guaranteed: bool
    forbidden: frozenset[int]
    """The kinds of messages that are refused now."""
    known: int = 0
    """The highest number that the pubend has taken."""
    taken: list[tuple[int, bytes]] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)
    """Why messages have failed, as the application was told, by their numbers."""
    refused: set[int] = field(default_factory=set)
    """The numbers of all messages that a broker has refused, whether the client has heard so or not."""

    def take(self, number: int, body: bytes, *, may_jump: bool) -> None:
        """A message reaches the pubend, which takes it unless it is a repetition."""
        if number <= self.known:
            assert self.is_guaranteed, "nobody recognises repetitions here"
            return
        missing = range(self.known + 1, number)
        assert may_jump or not missing, f"number {number} follows {self.known}"
        assert all(each in self.failed for each in missing), "what is left out is settled"
        self.known = number
        self.taken.append((number, body))


class Door:
    """One connection: takes only the number that is to follow, and passes messages on to the pubend."""

    def __init__(self, world: World, credit_bytes: int) -> None:
        self._world = world
        self._credit_bytes = credit_bytes
        self._on_the_way: deque[tuple[int, bytes, bool]] = deque()
        """Messages that have not reached the pubend yet: number, body, and whether numbers before it may be missing."""
        self._received = self._settled = -1
        self._may_jump = True
        self._unpaid_bytes = 0
        """Bytes that the client has published, and has no credit back for."""
        self._withheld_bytes = 0
        """Those of them that belong to settled messages."""
        self._sizes: deque[tuple[int, int]] = deque()
        """Number and size of messages that are not settled."""
        self._round = 0
        self.is_rewinding = False
        self.has_narrowed = False
        """Whether it has ever told the client to have less on its way."""
        self.way_in: deque[Publish | Rewound | Skipped] = deque()
        self.way_out: deque[PublishAck | Refused | Rewind] = deque()

    @property
    def has_begun(self) -> bool:
        return self._received >= 0

    def receive(self, *, stalls_at: int | None = None) -> None:
        """Takes the next frame, or only its first messages if the way to the pubend is blocked then."""
        frame = self.way_in.popleft()
        if isinstance(frame, Rewound):
            assert frame.round <= self._round
            if frame.round == self._round:
                self.is_rewinding = False
            return
        if self.is_rewinding:
            return
        if isinstance(frame, Skipped):
            assert self.has_begun, "the first frame of a connection needs none"
            assert frame.number > self._received + 1, "it leaves nothing out"
            self._received = frame.number - 1
            self._may_jump = True
            return
        if not self.has_begun:
            self._received = self._settled = frame.first - 1
        assert frame.first == self._received + 1, "only the next number is taken"
        self._check_credit(frame)
        bad = [place for place, body in enumerate(frame.bodies) if body[0] in self._world.forbidden]
        good = min(bad, default=len(frame.bodies))
        if stalls_at is not None and stalls_at < good:
            self._admit(frame.bodies[:stalls_at])
            self.rewind()
            return
        self._admit(frame.bodies[:good])
        if bad:
            self._refuse([frame.first + place for place in bad])
            self.rewind()

    def _check_credit(self, frame: Publish) -> None:
        after_bytes = self._unpaid_bytes + sum(map(len, frame.bodies))
        if frame.bodies and after_bytes > self._credit_bytes:
            # A message larger than all the credit goes alone, as does one that is larger than a narrowed window.
            before_bytes_max = self._credit_bytes if self.has_narrowed else 0
            assert len(frame.bodies) == 1, "there is no credit for it"
            assert self._unpaid_bytes <= before_bytes_max, "there is no credit for it"

    def _refuse(self, bad: list[int]) -> None:
        """Refuses messages, with one answer for each that is not next to another."""
        self._world.refused.update(bad)
        while bad:
            count = next((place for place, number in enumerate(bad) if number != bad[0] + place), len(bad))
            self.way_out.append(Refused("publish", bad[0], "bad", count, "q"))
            del bad[:count]

    def _admit(self, bodies: list[bytes]) -> None:
        for body in bodies:
            self._received += 1
            self._unpaid_bytes += len(body)
            self._sizes.append((self._received, len(body)))
            self._on_the_way.append((self._received, body, self._may_jump))
            self._may_jump = False
        if not self._world.is_guaranteed:
            self.pass_on(len(bodies))

    def pass_on(self, count: int) -> None:
        """Some messages reach the pubend."""
        for _ in range(min(count, len(self._on_the_way))):
            number, body, may_jump = self._on_the_way.popleft()
            self._world.take(number, body, may_jump=may_jump)

    def acknowledge(self, *, pays: bool) -> None:
        """Acknowledges what the pubend has for certain, and gives the credit for it back or withholds it."""
        end = self._on_the_way[0][0] if self._on_the_way else self._received + 1
        while self._sizes and self._sizes[0][0] < end:
            self._settled, size = self._sizes.popleft()
            self._withheld_bytes += size
        paid_bytes = self._withheld_bytes if pays else 0
        self._withheld_bytes -= paid_bytes
        self._unpaid_bytes -= paid_bytes
        self.way_out.append(PublishAck(self._settled, paid_bytes, "q"))

    def rewind(self) -> None:
        """Wants everything again that it has not taken."""
        self._say_rewind(self._received + 1, -1)

    def begin_anew(self) -> None:
        """The path has changed: nobody knows what has arrived of the messages that are not settled."""
        self._on_the_way.clear()
        self._sizes.clear()
        self._received, self._unpaid_bytes = self._settled, self._withheld_bytes
        self._may_jump = True
        self._say_rewind(self._settled + 1, max(0, self._credit_bytes - self._withheld_bytes))

    def _say_rewind(self, number: int, credit_bytes: int) -> None:
        self._round += 1
        self.is_rewinding = True
        self.way_out.append(Rewind(number, self._round, "q", credit_bytes))


class Rewinding(RuleBasedStateMachine):
    """Whatever happens, each message is settled once, keeps its number, and arrives at most once and in order."""

    is_broken = True

    @initialize(
        is_guaranteed=st.booleans(),
        credit_bytes=st.integers(20, 200),
        batch_bytes=st.integers(1, 100),
        forbidden=st.frozensets(st.sampled_from(KINDS), max_size=2),
    )
    def begin(self, is_guaranteed: bool, credit_bytes: int, batch_bytes: int, forbidden: frozenset[int]) -> None:
        self.now_ms = 0
        self.world = World(is_guaranteed, forbidden)
        self.put: list[bytes] = []
        self.numbers: dict[bytes, int] = {}
        """The number under which each message was first sent."""
        self.bodies: dict[int, bytes] = {}
        self.acknowledged: set[int] = set()
        self.was_gone = False
        """Whether the pubend has ever been away."""
        self.queue = PublishQueue("q", linger_ms=1, batch_bytes=batch_bytes)
        self.door = self._connect(credit_bytes)
        self.is_broken = False

    def _connect(self, credit_bytes: int) -> Door:
        self.queue.open(credit_bytes=credit_bytes, is_guaranteed=self.world.is_guaranteed, now_ms=self.now_ms)
        self._hear_of_failures()
        return Door(self.world, credit_bytes)

    @rule(size=st.integers(1, 30), kind=st.sampled_from(KINDS))
    def publish(self, size: int, kind: int) -> None:
        body = bytes([kind]) + b"%d " % len(self.put) + bytes(size)
        if self.queue.has_room(len(body)):
            self.put.append(body)
            self.queue.put(body, now_ms=self.now_ms)

    @rule(waited_ms=st.integers(0, 2))
    def send(self, waited_ms: int) -> None:
        self.now_ms += waited_ms
        self.door.way_in += self.queue.take_answers()
        for frame in self.queue.take(now_ms=self.now_ms):
            self.door.way_in.append(frame)
            if isinstance(frame, Publish):
                self._check_numbers(frame)

    def _check_numbers(self, frame: Publish) -> None:
        for number, body in enumerate(frame.bodies, start=frame.first):
            assert self.numbers.setdefault(body, number) == number, "a message keeps its number"
            assert self.bodies.setdefault(number, body) == body, "no other message has its number"
            assert number not in self.world.failed, "what has failed is not sent again"
            assert number not in self.acknowledged, "what is acknowledged is not sent again"

    @rule(
        messages=st.lists(st.tuples(st.integers(1, 5), st.sampled_from(KINDS)), min_size=2, max_size=5),
        passed=st.integers(0, 4),
        heard=st.integers(0, 4),
        asks=st.booleans(),
    )
    def flow(self, messages: list[tuple[int, int]], passed: int, heard: int, asks: bool) -> None:
        """Some messages go all the way together, and some answers come back, so that stories get further."""
        for size, kind in messages:
            self.publish(size, kind)
        self.send(2)
        while self.door.way_in:
            self.door.receive()
        self.door.pass_on(passed)
        if self.door.has_begun:
            self.door.acknowledge(pays=True)
        self._hear_some(heard)
        if asks:
            self.queue.hurry(now_ms=self.now_ms)
            self.send(0)
            while self.door.way_in:
                self.door.receive()

    def _hear_some(self, count: int) -> None:
        for _ in range(min(count, len(self.door.way_out))):
            self.hear()

    @rule()
    def hurry(self) -> None:
        self.queue.hurry(now_ms=self.now_ms)

    @precondition(lambda self: self.door.way_in)
    @rule()
    def receive(self) -> None:
        self.door.receive()

    @precondition(lambda self: self.door.way_in)
    @rule(count=st.integers(0, 3))
    def receive_only_some(self, count: int) -> None:
        self.door.receive(stalls_at=count)

    @precondition(lambda self: self.world.is_guaranteed)
    @rule(count=st.integers(1, 5))
    def pass_on(self, count: int) -> None:
        self.door.pass_on(count)

    @precondition(lambda self: self.door.has_begun)
    @rule(pays=st.booleans())
    def acknowledge(self, pays: bool) -> None:
        self.door.acknowledge(pays=pays)

    @precondition(lambda self: self.door.has_begun)
    @rule()
    def rewind(self) -> None:
        self.door.rewind()

    @precondition(lambda self: self.world.is_guaranteed and self.door.has_begun)
    @rule(arriving=st.integers(0, 5))
    def change_the_path(self, arriving: int) -> None:
        self.door.pass_on(arriving)
        self.door.begin_anew()

    @rule(forbidden=st.frozensets(st.sampled_from(KINDS), max_size=2))
    def change_the_rules(self, forbidden: frozenset[int]) -> None:
        self.world.forbidden = forbidden

    @precondition(lambda self: self.world.is_guaranteed and self.door.has_begun)
    @rule(arriving=st.integers(0, 5))
    def lose_the_pubend(self, arriving: int) -> None:
        """The pubend is gone, and back at once; the client gives up on everything, sent or not."""
        self.was_gone = True
        self.door.pass_on(arriving)
        self.queue.fail(GONE)
        self._hear_of_failures()
        self.door.begin_anew()

    @rule(window_bytes=st.integers(0, 100))
    def hold_back(self, window_bytes: int) -> None:
        self.door.has_narrowed = True
        self.queue.hold_back("slow" if window_bytes else "", window_bytes)

    @precondition(lambda self: self.door.way_out)
    @rule()
    def hear(self) -> None:
        match self.door.way_out.popleft():
            case PublishAck(sequence, credit_bytes):
                self.queue.on_ack(sequence, credit_bytes)
                self.acknowledged |= {*range(1, sequence + 1)} - {*self.world.failed}
            case Refused() as refused:
                self.queue.on_refused(refused.number, refused.reason, refused.count)
            case Rewind(number, answer_to) as rewind:
                self.queue.on_rewind(number, answer_to, rewind.credit_bytes, now_ms=self.now_ms)
        self._hear_of_failures()

    def _hear_of_failures(self) -> None:
        for failure in self.queue.take_failures():
            assert failure.place not in self.world.failed, "each message is settled once"
            assert failure.place not in self.acknowledged, "each message is settled once"
            assert failure.body == self.put[failure.place - 1]
            self.world.failed[failure.place] = failure.reason

    @rule(heard=st.integers(0, 3), arriving=st.integers(0, 5), credit_bytes=st.integers(20, 200))
    def reconnect(self, heard: int, arriving: int, credit_bytes: int) -> None:
        """The connection is lost, and there is one to another broker; some of what was on its way still arrives."""
        self._hear_some(heard)
        self.door.pass_on(arriving)
        self.queue.close()
        self.queue.check_invariants()
        self.door = self._connect(credit_bytes)

    @invariant()
    def is_sound(self) -> None:
        self.is_broken = True
        self.queue.check_invariants()
        assert len(self.world.failed) == self.queue.refused + self.queue.lost
        assert len(self.acknowledged) == self.queue.acknowledged
        numbers = [number for number, _ in self.world.taken]
        assert numbers == sorted({*numbers}), "nothing arrives twice, or out of order"
        assert self.acknowledged <= {*numbers}, "nothing is acknowledged that has not arrived"
        assert [body for _, body in self.world.taken] == [self.put[number - 1] for number in numbers]
        self.is_broken = False

    def teardown(self) -> None:
        if self.is_broken:
            # Else another failure would hide the first one.
            return
        self.queue.hold_back("", 0)
        for _ in range(4 * len(self.put) + 8):
            self.now_ms += 2
            self.send(0)
            while self.door.way_in:
                self.door.receive()
            self.door.pass_on(len(self.put))
            if self.door.has_begun:
                self.door.acknowledge(pays=True)
            while self.door.way_out:
                self.hear()
            self.is_sound()
        self._judge()

    def _judge(self) -> None:
        """Everything has been settled by now, and what was told to the application is true."""
        queue, failed = self.queue, self.world.failed
        places = {*range(1, len(self.put) + 1)}
        assert queue.settled == queue.published == len(self.put)
        assert self.acknowledged | {*failed} == places
        assert {number for number, reason in failed.items() if reason == "bad"} <= self.world.refused
        if not self.was_gone:
            assert GONE not in failed.values()
            assert not self.world.is_guaranteed or queue.lost == 0
        taken = {number for number, _ in self.world.taken}
        never_sent = {number for number, reason in failed.items() if reason == GONE}
        assert not taken & never_sent, "what was refused because there is no pubend has not arrived"


TestRewinding = Rewinding.TestCase
TestRewinding.settings = settings(max_examples=300, stateful_step_count=80)

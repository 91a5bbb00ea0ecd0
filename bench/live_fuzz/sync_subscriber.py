"""Subscribes in the live fuzz with the blocking client, with one subscription."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random
from typing import Final

from bench.live_fuzz.control import Control
from bench.live_fuzz.diary import PATIENT
from bench.live_fuzz.journal import Journal, read_journal
from bench.live_fuzz.plan import Missing
from bench.live_fuzz.quotes import SELECTORS
from bench.live_fuzz.readings import Reading, SubscriberSpec, stored_positions
from penstock.client.sync import SyncClient, connect_sync
from penstock.client.sync_subscription import SyncSubscription
from penstock.session.errors import ClientError, RefusedError

__all__ = ["SyncSubscriber"]

_OBSERVE_S: Final = 0.25


class SyncSubscriber:
    """Reads the subscription of its plan with a blocking client."""

    def __init__(self, spec: SubscriberSpec, path: Path, journal: Journal, control: Control) -> None:
        self._spec, self._path, self._journal, self._control = spec, path, journal, control
        self._life = sum(line[0] == "life" for line in read_journal(path))
        self._rng = Random(f"{spec.seed}/{spec.plan.name}/{self._life}")
        self._reading = Reading(0, spec.plan.subscriptions[0], spec.seed, journal)

    def run(self) -> None:
        """Subscribe, and read until the process must leave or everything has arrived."""
        self._journal.write("life", os.getpid())
        client = self._connected()
        missing: Missing = self._reading.plan.missing
        while True:
            try:
                self._read(client, missing)
            except RefusedError as error:
                self._reading.write("refused", f"{type(error).__name__}: {error.reason}")
                missing = "earliest"
                time.sleep(0.2)
            else:
                break
        client.close()
        if self._control.is_leaving:
            self._journal.write("left", 0)

    def _connected(self) -> SyncClient:
        urls = self._spec.urls
        first = self._life % len(urls)
        hosts = [url.removeprefix("penstock://") for url in (*urls[first:], *urls[:first])]
        while True:
            client = connect_sync(f"penstock://{','.join(hosts)}", name=self._spec.plan.name, settings=PATIENT)
            try:
                return client.open()
            except ClientError:
                time.sleep(0.2)

    def _read(self, client: SyncClient, missing: Missing) -> None:
        reading, plan = self._reading, self._reading.plan
        start = stored_positions(self._path, 0) or plan.start
        reading.began()
        reading.write("ask", start, missing)
        subscription = client.subscribe(
            SELECTORS[plan.selector].text,
            start=start,
            missing=missing,
            durable=plan.durable,
            acknowledge="manual" if plan.keeping in {"manual", "durable-stored"} else "auto",
        )
        observed_s = -_OBSERVE_S
        while True:
            self._take_one(subscription)
            if self._control.is_over or time.monotonic() - observed_s >= _OBSERVE_S:
                observed_s = time.monotonic()
                positions = reading.observe(subscription)
                if self._control.is_leaving:
                    return
                if self._has_all(positions):
                    reading.write("end", positions)
                    return

    def _take_one(self, subscription: SyncSubscription) -> None:
        patience_s = self._rng.choice((0.001, _OBSERVE_S)) if self._spec.plan.cancels else _OBSERVE_S
        try:
            message = subscription.get(patience_s)
        except TimeoutError:
            if patience_s < _OBSERVE_S:
                self._journal.write("cancelled", "read")
            return
        self._reading.take([message], subscription)
        if self._reading.plan.keeping == "durable-stored":
            subscription.acknowledge_through()
        elif self._reading.plan.keeping == "manual" and self._rng.random() < 0.2:
            subscription.acknowledge_through(self._rng.choice((message, None)))

    def _has_all(self, positions: dict[str, int]) -> bool:
        targets = self._control.targets
        if not self._control.is_finishing or targets is None:
            return False
        return all(positions.get(pubend, -1) > tick for pubend, tick in targets.items())

"""Counts what each client uses at this broker, by its authenticated name: all its connections share its quotas."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.broker.settings import BrokerSettings

__all__ = ["Account", "Accounts"]


@dataclass(slots=True)
class Account:
    """What one client uses of its quotas."""

    client: str
    connections: int = 0
    subscriptions: int = 0
    positions: int = 0
    """Pubends for which its subscriptions state where they begin, plus unknown ones kept while it is away."""
    selector_bytes: int = 0
    """Total size of its subscriptions' selectors."""
    effort: int = 0
    """Most operations that its subscriptions can add to the matching of one message (``selectors.effort``)."""
    ghosts: int = 0
    """Vanished connections of the client whose positions are still kept."""


class Accounts:
    """Accounts of the clients that are connected to one broker, or were a short time ago."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._accounts: dict[str, Account] = {}

    def __len__(self) -> int:
        return len(self._accounts)

    def open(self, client: str) -> Account | str:
        """Adds a connection of a client; returns its account, or why it may not connect."""
        account = self._accounts.get(client)
        limit = self._settings.client_connections_max
        if account is not None and account.connections >= limit:
            return f"client {client} has {limit:,} connections, which is the limit (client_connections_max)"
        if account is None:
            account = self._accounts[client] = Account(client)
        account.connections += 1
        return account

    def close(self, account: Account) -> None:
        """Removes a connection that has ended; its subscriptions are off the account already."""
        account.connections -= 1
        self.settle(account)

    def settle(self, account: Account) -> None:
        """Forgets a client that has nothing left here."""
        if not account.connections and not account.ghosts:
            del self._accounts[account.client]

    def problem(self, account: Account, positions: int, selector_bytes: int, effort: int = 0) -> str:
        """Says why a client may not add a subscription that needs this much; empty if it may."""
        settings = self._settings
        if account.subscriptions >= settings.client_subscriptions_max:
            limit = settings.client_subscriptions_max
            return f"client {account.client} has {limit:,} subscriptions, which is the limit (client_subscriptions_max)"
        if account.positions + positions > settings.client_positions_max:
            limit = settings.client_positions_max
            return f"client {account.client} states more than {limit:,} positions (client_positions_max)"
        if account.selector_bytes + selector_bytes > settings.client_selector_bytes_max:
            limit = settings.client_selector_bytes_max
            return f"client {account.client} has selectors of more than {limit:,} bytes (client_selector_bytes_max)"
        if account.effort + effort > settings.client_effort_max:
            limit = settings.client_effort_max
            problem = f"selector conditions that no index can answer exceed {limit:,} operations per message"
            return f"client {account.client}: {problem} (client_effort_max)"
        return ""

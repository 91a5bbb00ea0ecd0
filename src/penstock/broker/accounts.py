"""What each client has at this broker, by the name that it has proved: its quotas are shared by all its connections."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.broker.settings import BrokerSettings

__all__ = ["Account", "Accounts"]


@dataclass(slots=True)
class Account:
    """What one client has."""

    client: str
    connections: int = 0
    subscriptions: int = 0
    positions: int = 0
    """Pubends for which its subscriptions state where they begin, and unknown ones that are kept while it is away."""
    selector_bytes: int = 0
    """Of the selectors of its subscriptions."""
    effort: int = 0
    """Operations that its subscriptions add to the matching of a message, at most (``selectors.effort``)."""
    ghosts: int = 0
    """Connections of its that vanished, and whose positions are kept."""


class Accounts:
    """The clients that are connected to one broker, or were a short time ago."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._accounts: dict[str, Account] = {}

    def __len__(self) -> int:
        return len(self._accounts)

    def open(self, client: str) -> Account | str:
        """A client connects: its account, or why it may not."""
        account = self._accounts.get(client)
        limit = self._settings.client_connections_max
        if account is not None and account.connections >= limit:
            return f"client {client} has {limit:,} connections, which is the limit (client_connections_max)"
        if account is None:
            account = self._accounts[client] = Account(client)
        account.connections += 1
        return account

    def close(self, account: Account) -> None:
        """A connection of a client has ended, and with it all it had on it."""
        account.connections -= 1
        self.settle(account)

    def settle(self, account: Account) -> None:
        """Forgets a client of which nothing is left."""
        if not account.connections and not account.ghosts:
            del self._accounts[account.client]

    def problem(self, account: Account, positions: int, selector_bytes: int, effort: int = 0) -> str:
        """Why a client may not have another subscription that needs so much; empty if it may."""
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
            problem = f"client {account.client} has conditions that no index answers, of more than {limit:,} operations"
            return f"{problem} (client_effort_max)"
        return ""

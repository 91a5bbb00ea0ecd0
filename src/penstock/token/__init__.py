"""The wandering token: soft mutual exclusion by a random walk, with no coordinator ([Token])."""

from __future__ import annotations

from penstock.token.clocks import ClockFault, ClockWatch
from penstock.token.handshake import Handshake
from penstock.token.member import Enabled, Member, Noted, Output, Send
from penstock.token.members import View, sample_size
from penstock.token.messages import TokenMessageError, decode_message, encode_message
from penstock.token.settings import PAPER, SWIFT, VARIANTS, Constants, Plan, TokenError
from penstock.token.tokens import Fence, FenceWatch, Token
from penstock.token.walker import Visit, Walker

__all__ = [
    "PAPER",
    "SWIFT",
    "VARIANTS",
    "ClockFault",
    "ClockWatch",
    "Constants",
    "Enabled",
    "Fence",
    "FenceWatch",
    "Handshake",
    "Member",
    "Noted",
    "Output",
    "Plan",
    "Send",
    "Token",
    "TokenError",
    "TokenMessageError",
    "View",
    "Visit",
    "Walker",
    "decode_message",
    "encode_message",
    "sample_size",
]

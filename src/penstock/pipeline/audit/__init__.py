"""The delivery audit: what durable subscriptions should have received, against what they received and acknowledged."""

from __future__ import annotations

from penstock.pipeline.audit.job import audit_lake
from penstock.pipeline.audit.summary import AuditSummary

__all__ = ["AuditSummary", "audit_lake"]

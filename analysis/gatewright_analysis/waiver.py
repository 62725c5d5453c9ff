"""When a waiver counts. The only place in the code that compares the end of one with a time: operator, plugin, ledger,
metrics and replay all ask here."""

from datetime import datetime


def waiver_in_force(granted_at: datetime, expires_at: datetime, at: datetime) -> bool:
    """Whether what was granted counts at a time: from `granted_at` on, and no longer at `expires_at` itself.

    One that ends before it begins is never in force. All three know their time zone, or none does (TypeError).
    """
    return granted_at <= at < expires_at

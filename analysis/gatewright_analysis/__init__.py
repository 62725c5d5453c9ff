"""The pure core of Gatewright: kinds, evidence, statistics, verdicts and the ledger's bytes."""

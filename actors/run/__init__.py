"""One command under one lease: the runner of `exec`, attempts, artefacts, checks and handlers."""

__all__ = ["attempts", "checks", "evidence_process", "otlp", "runner", "span_sender"]

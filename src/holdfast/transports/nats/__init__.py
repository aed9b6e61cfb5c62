"""Hints as messages of NATS JetStream: each job is delivered to one worker, and again if that worker does not acknowledge it."""

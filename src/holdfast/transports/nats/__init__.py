"""Hints as messages of NATS JetStream: each job is handed to one worker."""

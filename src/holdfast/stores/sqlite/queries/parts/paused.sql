-- paused(): the queues from which no claim takes.
SELECT queues.queue FROM holdfast_queues AS queues WHERE queues.paused_at IS NOT NULL

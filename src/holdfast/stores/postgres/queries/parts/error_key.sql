-- error_key(): the fingerprint of a job's error, exactly as its index has it; NULL without one.
CASE WHEN right(error, 25) LIKE '"key":"%' THEN left(right(error, 18), 16) END COLLATE "C"

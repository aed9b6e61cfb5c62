-- error_key(): the fingerprint of a job's error, exactly as its index has it; NULL without one.
substring(error FROM '"key":"([0-9a-f]+)"')

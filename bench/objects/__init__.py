"""What jobs in a bucket cost: operations a second, writes, dollars, contention, and the end of a broker; beside two designs by hand."""

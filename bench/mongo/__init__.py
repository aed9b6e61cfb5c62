"""What jobs in MongoDB cost, beside other queues on the same server and beside raw commands; and whether Holdfast keeps its figures."""

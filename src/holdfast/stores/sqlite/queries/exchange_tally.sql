-- Return the number of transitions that the last exchange of this connection applied.
SELECT applied FROM holdfast_tally;

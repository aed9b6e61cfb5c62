-- How many transitions the last exchange of this connection applied.
SELECT applied FROM holdfast_tally;

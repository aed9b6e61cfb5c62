-- Return a row if there are workflows. Their members show it: the row of a workflow may have been lost.
SELECT 1 FROM holdfast_members LIMIT 1;

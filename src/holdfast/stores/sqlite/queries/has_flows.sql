-- Return a row if there are workflows.
SELECT 1 FROM holdfast_flows LIMIT 1;

"""What ``app.rows`` costs in a table of somebody else's: beside ten million rows, and beside a loop that protects nothing."""

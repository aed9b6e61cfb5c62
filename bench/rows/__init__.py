"""What ``app.rows`` costs in a user's table: beside ten million rows, and beside a loop that protects nothing."""

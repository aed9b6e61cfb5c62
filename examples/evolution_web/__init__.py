"""The code-evolution analyzer as a web application that survives the death of its workers and of its web server. See README.md."""

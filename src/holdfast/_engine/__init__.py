"""The verbs: behaviour over the sockets. Knows no brand of database."""

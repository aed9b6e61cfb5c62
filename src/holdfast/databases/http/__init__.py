"""Connections to a broker over HTTP, and the thread that has them."""

"""The values of each page, from what the App reads: one function for each page, which reads and returns a `Page`."""

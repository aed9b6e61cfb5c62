"""The schemes of store URLs: enough to decide which module reads a URL, so that a program loads no other."""

BROKERS = ("http", "https")
BUCKETS = ("s3", "gs", "az", "memory-object")
MONGO_BY_NAME_SERVER = "mongodb+srv"
MONGO = ("mongodb", MONGO_BY_NAME_SERVER)
POSTGRES = ("postgresql", "postgres")

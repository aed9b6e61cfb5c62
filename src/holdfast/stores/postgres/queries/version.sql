-- Of the schema.
SELECT max(version) FROM holdfast.versions;

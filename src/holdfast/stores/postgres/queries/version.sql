-- Return the version of the schema.
SELECT max(version) FROM holdfast.versions;

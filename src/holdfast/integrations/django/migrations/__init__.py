"""One migration for each release that changes the schema of a store; ``manage.py migrate`` applies them to test databases, too."""

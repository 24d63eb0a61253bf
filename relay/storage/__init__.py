"""One database, two engines: connections, tables and what differs between SQLite and PostgreSQL."""

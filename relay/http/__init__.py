"""The HTTP edge: problem documents, bounded JSON bodies, cursors, server-sent events."""

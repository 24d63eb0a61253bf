"""The command line. Its modules import what a command needs inside the command, so that help is there at once."""

from relay.cli.program import program as main

__all__ = ["main"]

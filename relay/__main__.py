"""``python -m relay``, the same as ``relay``."""

from relay.cli import main

main(prog_name="relay")

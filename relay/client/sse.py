"""Server-sent events, from bytes as they come (WHATWG HTML, section 9.2.6). Without any input or output."""

from dataclasses import dataclass

MOST_PENDING_BYTES = 1_048_576
"""How much may come without the end of an event: far more than any submission."""


@dataclass(frozen=True, slots=True)
class Block:
    """One event, or an id alone."""

    id: str | None
    event: str | None
    data: str | None


class Parser:
    """Takes bytes, gives whole blocks. A block that is cut off is never given, nor is its id."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, data: bytes) -> list[Block]:
        """The blocks that these bytes complete. ValueError when a block does not end, or is no UTF-8."""
        # A carriage return whose line feed has not come yet stays among what is pending, and is replaced with it.
        *whole, self._pending = (self._pending + data).replace(b"\r\n", b"\n").split(b"\n\n")
        if len(self._pending) > MOST_PENDING_BYTES:
            raise ValueError("an event does not end")
        blocks = (_block(raw.decode()) for raw in whole)
        return [block for block in blocks if block is not None]


def _block(text: str) -> Block | None:
    fields: dict[str, list[str]] = {}
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        if name:  # a line that begins with a colon is a comment
            fields.setdefault(name, []).append(value.removeprefix(" "))
    if not fields:
        return None
    data = fields.get("data")
    return Block(_last(fields, "id"), _last(fields, "event"), None if data is None else "\n".join(data))


def _last(fields: dict[str, list[str]], name: str) -> str | None:
    return fields[name][-1] if name in fields else None

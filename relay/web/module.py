"""The rating widget as pages load it: its parts joined into one ES module, with what names and compresses it."""

import base64
import gzip
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import sha384
from importlib.resources import files
from typing import Final

from rjsmin import jsmin

PARTS: Final = ("texts", "style", "comment", "keep", "relay", "stream", "page", "rating", "view", "element")
"""In the order of their imports: a part may use those before it."""

_IMPORT: Final = re.compile(r'^import \{[^}]+\} from "\./\w+\.js";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class File:
    """Bytes as they are served, with their SHA-384; ``compressed`` is ``body`` under gzip."""

    body: bytes
    compressed: bytes
    digest: bytes

    @classmethod
    def of(cls, text: str) -> "File":
        body = text.encode()
        return cls(body, gzip.compress(body, mtime=0), sha384(body).digest())

    @property
    def version(self) -> str:
        """Names exactly these bytes in a path: sixteen hexadecimal digits."""
        return self.digest.hex()[:16]

    @property
    def integrity(self) -> str:
        """For the ``integrity`` attribute of a script element (W3C Subresource Integrity)."""
        return f"sha384-{base64.b64encode(self.digest).decode()}"


@dataclass(frozen=True, slots=True)
class Module:
    """The widget: its ES module, and its types for TypeScript."""

    script: File
    declarations: File

    @property
    def path(self) -> str:
        """Where a gateway of this version serves exactly this module."""
        return f"/ui/{self.script.version}/specialist-feedback.js"

    def element(self, public_url: str) -> str:
        """The script element that a page has to hold."""
        source = public_url.rstrip("/") + self.path
        return (
            f'<script type="module" src="{source}"\n'
            f'        integrity="{self.script.integrity}"\n'
            f'        crossorigin="anonymous"></script>'
        )


@cache
def load() -> Module:
    """The widget of this version."""
    widget = files("relay.web") / "widget"
    script = join((widget / f"{part}.js").read_text("utf-8") for part in PARTS)
    return Module(File.of(script), File.of((widget / "specialist-feedback.d.ts").read_text("utf-8")))


def join(parts: Iterable[str]) -> str:
    """One module of several: without their imports of each other, their comments and what else nobody runs.

    The last one's exports are the module's. The parts share one scope, so that no name may be declared twice.
    """
    *inner, last = (_IMPORT.sub("", part) for part in parts)
    return str(jsmin("\n".join([*(_EXPORT.sub("", part) for part in inner), last])))

"""How the demonstration tells its story: steps, and the HTTP exchange behind each."""

import json
from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape

from registry.egress import Exchange

SHOWN_HEADERS = ("location", "retry-after", "preference-applied")


class Narrator:
    """Writes to a terminal, or plainly to a file."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._step = 0

    def step(self, text: str) -> None:
        self._step += 1
        self._console.print(f"\n[bold]{self._step}. {escape(text)}[/bold]")

    def say(self, text: str) -> None:
        self._console.print(f"   {escape(text)}")

    def curl(self, text: str) -> None:
        self._console.print(escape(text))

    def exchange(
        self, method: str, url: str, who: str | None, body: object, answer: Exchange, headers: Mapping[str, str]
    ) -> None:
        """One request and its answer; a token is shown by whose it is."""
        self._console.print(f"   [cyan]> {method} {escape(url)}[/cyan]")
        if who is not None:
            self._console.print(f"   [cyan]> Authorization: Bearer <token of {escape(who)}>[/cyan]")
        for name, value in headers.items():
            self._console.print(f"   [cyan]> {escape(name)}: {escape(value)}[/cyan]")
        if body is not None:
            self._console.print(f"   [cyan]> {escape(json.dumps(body, ensure_ascii=False))}[/cyan]")
        self._console.print(f"   [green]< {answer.status}[/green]")
        for name in SHOWN_HEADERS:
            if name in answer.headers:
                self._console.print(f"   [green]< {name}: {escape(answer.headers[name])}[/green]")
        for line in _pretty(answer.body).splitlines():
            self._console.print(f"   [green]< {escape(line)}[/green]")

    def good(self, text: str) -> None:
        self._console.print(f"   [bold green]✔ {escape(text)}[/bold green]")

    def bad(self, text: str) -> None:
        self._console.print(f"   [bold red]✘ {escape(text)}[/bold red]")


def _pretty(body: bytes) -> str:
    try:
        return json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    except ValueError:
        return body.decode("utf-8", "replace")

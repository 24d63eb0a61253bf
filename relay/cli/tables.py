"""Tables for people."""

from collections.abc import Sequence


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table: within the terminal's width, or one line a row where it goes into a pipe or a file."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    if not console.is_terminal:
        # A width that was assumed would fold words that a program, or `grep`, looks for.
        console.width = max(console.width, natural_width(columns, rows))
    console.print(table)


def natural_width(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> int:
    """How wide the table is where nothing is folded."""
    from rich.cells import cell_len

    widths = [max(cell_len(str(row[number])) for row in (columns, *rows)) for number in range(len(columns))]
    return sum(widths) + 2 * len(widths)

"""Every case, in the order in which they run."""

from tests.faults.case import Case
from tests.faults.cases import answers, clocks, databases, deaths, disks, names

CASES: tuple[Case, ...] = (
    *answers.CASES,
    *names.CASES,
    *databases.CASES,
    *deaths.CASES,
    *clocks.CASES,
    *disks.CASES,
)

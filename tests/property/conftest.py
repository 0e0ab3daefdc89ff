"""Shows at the end of a run what became of the random kernels: how many were checked, how many refused, and why."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = [
        f"{report.nodeid.rpartition('::')[2]}: {value}"
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
        if name == "fuzz"
    ]
    if lines:
        terminalreporter.section("random kernels")
        for line in sorted(lines):
            terminalreporter.line(line)

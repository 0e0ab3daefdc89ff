"""The report of an adjoint names what it stores, copies and synchronises."""

from __future__ import annotations

import diffkern as dk


@dk.kernel(stack_bytes=83 * 16)
def everything(x: dk.array(dtype=float), y: dk.array(dtype=float), k: float, n: int, out: dk.array(dtype=float)):
    i = dk.tid()
    s = x[i]
    for _ in range(n):
        s = dk.sin(s) * k
    y[i] = y[i] * y[i]
    out[i] = s + x[i + 1] + x[i + 2]


def test_report():
    text = everything.adjoint_report()
    assert text.splitlines() == [
        "adjoint of everything",
        "  gradient of x: plain additions, neighbouring chunks one after the other",
        "  gradient of y: plain additions, no two threads race",
        "  gradient of k: one partial sum per chunk",
        "  gradient of out: plain additions, no two threads race",
        "  contents kept from before the launch: y",
        (
            "  loop at line 12: 83 snapshots of 4 bytes; every trip is stored up to 83 trips, "
            "up to 17430 the loop runs three times at most, beyond that more often"
        ),
    ]


def test_nothing_to_store():
    @dk.kernel
    def total(x: dk.array(dtype=float), out: dk.array(dtype=float)):
        i = dk.tid()
        dk.atomic_add(out, 0, 2.0 * x[i])

    assert total.adjoint_report().splitlines()[-1] == "  no loop needs its state stored"

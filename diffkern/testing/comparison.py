"""Comparisons of derivatives and their results: elements, reports, and the error that names the worst one."""

from __future__ import annotations

import math
from dataclasses import field

from diffkern.process.dataclass import dataclass

__all__ = ["ComparedElement", "Comparison", "GradcheckReport", "GradientError", "KinkWarning", "Tolerances"]


class GradientError(AssertionError):
    """A gradient disagrees with its reference; the text names kernel, parameter, element and both values."""


class KinkWarning(UserWarning):
    """Some elements lie too near a kink or a jump for differences to tell; they were not compared."""


@dataclass(frozen=True, slots=True)
class ComparedElement:
    """A compared element: parameter, index, both values, and their relative difference."""

    parameter: str
    index: tuple[int, ...]
    analytic: float
    reference: float
    error: float

    def __str__(self) -> str:
        where = f"{self.parameter}[{', '.join(map(str, self.index))}]" if self.index else self.parameter
        return f"{where}: {self.analytic:.9g} against {self.reference:.9g} (relative error {self.error:.2e})"


@dataclass(frozen=True, slots=True)
class GradcheckReport:
    """The result of a check.

    Attributes
    ----------
    kernel
        The kernel's name.
    parameters
        Names of the parameters with a gradient.
    checked
        Number of elements compared with central differences.
    worst
        The element with the largest relative error among them.
    kinks
        Elements too near a kink or jump to compare, as ``(parameter, index)``.
    dot_product_error
        Relative difference of the two sides of the dot-product test; NaN where a kink forbids it.
    float32_worst
        The element whose gradient in the kernel's own types differs most from the one in float64.
    forward
        Number of elements of results whose change by forward mode was compared with central differences.
    forward_worst
        The element with the largest relative error among them.
    second
        The report on second order: the gradient of the kernel in forward mode; None if it was not asked for.
    launches
        For a function or tape, the reports on its launches, each by itself.
    whole
        For a function, the number of elements of its inputs that were compared with differences of the whole function.
    """

    kernel: str
    parameters: tuple[str, ...]
    checked: int
    worst: ComparedElement | None
    kinks: tuple[tuple[str, tuple[int, ...]], ...]
    dot_product_error: float
    float32_worst: ComparedElement | None
    forward: int = 0
    forward_worst: ComparedElement | None = None
    second: GradcheckReport | None = None
    launches: tuple[GradcheckReport, ...] = ()
    whole: int = 0

    def __str__(self) -> str:
        compared = f"{self.checked} elements of {', '.join(self.parameters)}" if self.checked else "forward mode"
        lines = [f"gradcheck of {self.kernel}: {compared}"]
        if self.worst is not None:
            lines.append(f"  worst against central differences  {self.worst}")
        if self.float32_worst is not None:
            lines.append(f"  worst of float32 against float64   {self.float32_worst}")
        if not math.isnan(self.dot_product_error):
            lines.append(f"  dot-product test                   relative error {self.dot_product_error:.2e}")
        if self.whole:
            lines.append(f"  differences of the whole function  {self.whole} elements of its inputs")
        if self.forward:
            lines.append(f"  forward mode                       {self.forward} elements of results")
        if self.forward_worst is not None:
            lines.append(f"  worst of forward mode              {self.forward_worst}")
        if self.kinks:
            lines.append(f"  not compared, too near a kink      {len(self.kinks)} elements, first {self.kinks[0]}")
        parts = ([self.second] if self.second is not None else []) + list(self.launches)
        lines += [f"  {line}" for part in parts for line in str(part).split("\n")]
        return "\n".join(lines)


@dataclass(frozen=True)
class Tolerances:
    """The parameters of a check: steps, tolerances, the number of elements, the seed."""

    eps: float = 1e-4
    rtol: float = 1e-5
    atol: float = 1e-8
    rtol32: float = 1e-3
    max_elements: int = 64
    seed: int = 0


@dataclass
class Comparison:
    """Collects compared elements of one kind and raises at the end."""

    kernel: str
    against: str
    rtol: float
    what: str = "gradient"
    wrong: list[ComparedElement] = field(default_factory=list)
    worst: ComparedElement | None = None
    count: int = 0

    def add(self, name: str, index: tuple[int, ...], analytic: float, reference: float, allowed: float) -> None:
        self.count += 1
        # NaN on both sides agrees: a derivative that does not exist is reported as such by both.
        both_nan = math.isnan(analytic) and math.isnan(reference)
        difference = 0.0 if analytic == reference or both_nan else abs(analytic - reference)
        error = difference / max(abs(analytic), abs(reference), 1e-30) if difference else 0.0
        item = ComparedElement(name, index, analytic, reference, error)
        # Negated, so that a NaN on one side counts as wrong: every comparison with NaN is false.
        if not difference <= allowed + self.rtol * abs(reference):
            self.wrong.append(item)
        elif difference > allowed and (self.worst is None or error > self.worst.error):
            # Within the absolute tolerance a relative error says nothing, and would be the worst one of most reports.
            self.worst = item

    def largest(self) -> float:
        """Return the largest difference among those that are wrong."""
        return max((abs(e.analytic - e.reference) for e in self.wrong), default=0.0)

    def finish(self, doubt: str = "") -> None:
        """Raise an error if an element is wrong; ``doubt`` says why the derivative may be right all the same."""
        if not self.wrong:
            return
        # NaN first: it is the worst that can happen to a gradient.
        ordered = sorted(self.wrong, key=lambda e: -math.inf if math.isnan(e.error) else -e.error)
        more = "".join(f"\n  {e}" for e in ordered[1:5])
        raise GradientError(
            f"kernel {self.kernel!r}: the {self.what} of {ordered[0].parameter!r} "
            f"{'differs from' if doubt else 'is wrong against'} {self.against}; "
            f"{len(ordered)} of {self.count} compared elements differ, the worst is\n  {ordered[0]}{more}"
            + (f"\n{doubt}" if doubt else "")
        )

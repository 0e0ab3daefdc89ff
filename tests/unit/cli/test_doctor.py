"""``diffkern doctor``: what it reports, and that it finds what is wrong."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import diffkern
from diffkern.cli import command, doctor
from diffkern.cli.doctor import VARIABLES, examine
from diffkern.errors import CompileError


def _found(name: str) -> doctor.Finding:
    """The finding of a name; what comes after it is not examined."""
    return next(f for f in examine() if f.name == name)


def test_kernels_run_here(capsys, monkeypatch):
    monkeypatch.setenv("DIFFKERN_NUM_THREADS", "2")
    assert command.main(["doctor"]) == 0
    report = capsys.readouterr().out
    assert report.endswith("kernels run on this machine\n")
    for heading in (
        "Python",
        "Processor",
        "Cache",
        "Kernels",
        "Optional packages",
        "Compilers for GPUs",
        "GPUs",
        "Settings",
    ):
        assert re.search(f"^{heading}$", report, re.MULTILINE), heading
    assert re.search(r"^  DIFFKERN_NUM_THREADS 2$", report, re.MULTILINE)


def test_json_holds_the_same(capsys):
    assert command.main(["doctor", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert {"area", "name", "state", "text", "remedy"} == set(findings[0])
    assert len({f["name"] for f in findings}) == len(findings)
    assert {"numpy": "ok", "gradient": "ok"}.items() <= {f["name"]: f["state"] for f in findings}.items()


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (0.5, "off by 5.0e-01"),
        (CompileError("no back end"), "CompileError: no back end"),
        (OSError("full"), "OSError: full"),
    ],
)
def test_a_gradient_that_fails_is_a_fault(capsys, monkeypatch, outcome, text):
    def wrong_by() -> float:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(doctor, "_wrong_by", wrong_by)
    assert command.main(["doctor"]) == 1
    report = capsys.readouterr().out
    assert re.search(rf"^X gradient +{re.escape(text)}$", report, re.MULTILINE)
    assert report.endswith("kernels cannot run on this machine, see X\n")


def test_a_package_that_is_missing(monkeypatch):
    there = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda package: None if package in ("numba", "jax") else there(package))
    found = {f.name: (f.state, f.remedy) for f in examine()}
    assert found["numba"] == ("fault", "pip install numba")
    assert found["jax"] == ("absent", 'pip install "diffkern[jax]"')


def test_a_cache_that_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(diffkern.config, "cache_dir", tmp_path / "file" / "cache")
    finding = _found("directory")
    assert finding.state == "warning"
    assert "DIFFKERN_CACHE_DIR" in finding.remedy


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_a_cache_that_others_can_write_to(monkeypatch, tmp_path):
    tmp_path.chmod(0o777)
    monkeypatch.setattr(diffkern.config, "cache_dir", tmp_path)
    finding = _found("directory")
    assert finding.state == "warning"
    assert "others can write to it" in finding.text


def test_a_misspelt_variable(monkeypatch):
    monkeypatch.setenv("DIFFKERN_NUM_THREAD", "2")
    finding = _found("DIFFKERN_NUM_THREAD")
    assert (finding.state, finding.remedy) == ("warning", "did you mean DIFFKERN_NUM_THREADS?")


def test_it_knows_every_variable_that_is_read():
    package = Path(diffkern.__file__).parent
    texts = [path.read_text() for path in package.rglob("*.py") if path.name != "doctor.py"]
    assert {name for text in texts for name in re.findall(r"\bDIFFKERN_[A-Z_]+\b", text)} == set(VARIABLES)

"""A program's manifest: JSON both ways, and nothing is read that was not written so."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from conftest import require

import diffkern as dk
from diffkern.cache.key import digest, key
from diffkern.cache.manifest import StoredArtifact
from diffkern.cache.store import Store
from diffkern.contracts.manifest import (
    AxisAccess,
    Checks,
    Conflict,
    Destination,
    GpuResources,
    Linear,
    Manifest,
    ProgramParameter,
    Shared,
    Site,
    SortedSum,
    StampedParameter,
    from_json,
    to_json,
)  # fmt: skip
from diffkern.errors import Loc

X = ProgramParameter("x", "array1d<float32,C>", "param", 0, 0, align=16, fully_overwritten=1, shape_read=True)
CT = ProgramParameter("ct_x", "array1d<float32,C>", "cotangent", 0, 0, conflict=Conflict("bounded", ((-1, 2),), False))
FULL = Manifest(
    1, 2.5, (X, replace(X, role="saved"), CT), reads=(0,), writes=(0,), updated=(0,), post=(0,),
    steering=(0,),
    accesses=(AxisAccess(0, 0, True, ((0, 2),), Linear(-1), Linear(3, ((0, 0, 1),)), (Linear(1),), ((0, 1),)),),
    alone="x", blockwise=True, rows=True, tiled=True, block_dim=64, block_dim_fixed=True, launch_bounds=(64, 2),
    sites=3,
    gpu=GpuResources(20, 0, 0, 128, 64, ("product",)),
    sums=(SortedSum(0, (Destination(1, ((3, -1),), (True,), False), Destination(None, ((1, 0),), (False,), True))),),
    checks=Checks("k", (Site(Loc("f.py", 3, 4, text="x"), 0), Site(None, None, Shared("s", 2))), (StampedParameter(0, 8,
    False),)), title="adjoint of k", target="sm_90",
)  # fmt: skip


@dk.kernel
def k(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i + 1] * x[0]


def through_json(manifest: Manifest) -> Manifest:
    return from_json(json.loads(json.dumps(to_json(manifest))))


def test_all_of_it_goes_through_json() -> None:
    assert through_json(FULL) == FULL
    assert FULL.saved == (0,)
    assert FULL.conflicts == {0: CT.conflict}
    assert FULL.is_adjoint
    with pytest.raises(FrozenInstanceError):
        FULL.cost = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("options", [{"target": "cpu"}, {"target": "cpu", "mode": "debug"}, {"target": "sm_90"}])
def test_those_of_programs_do(options: dict[str, Any], adjoint: bool) -> None:
    if options["target"] != "cpu":
        require("cuda.bindings.nvjitlink")
    found = dk.compile(k, adjoint=adjoint, **options).manifest
    assert through_json(found) == found
    assert found.is_adjoint == adjoint
    assert (found.checks is not None) == ("mode" in options)
    assert (found.gpu is not None) == (options["target"] == "sm_90")


def changed(**changes: Any) -> dict[str, Any]:
    return {**to_json(FULL), **changes}


WRONG: list[Any] = [
    None, [], {}, "text", changed(more=1), changed(cost=2), changed(cost="2"), changed(tid_arity=1.0),
    changed(tid_arity=True), changed(params=None), changed(params=[{**to_json(X), "role": "output"}]),
    changed(params=[{name: v for name, v in to_json(X).items() if name != "of"}]), changed(launch_bounds=[64]),
    changed(reads=[0, "1"]), changed(gpu=[]), changed(checks={"kernel": "k"}), changed(blockwise=1),
]  # fmt: skip


@pytest.mark.parametrize("value", WRONG, ids=range(len(WRONG)))
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=" is no "):
        from_json(value)


def test_an_artifact_whose_manifest_is_another_is_not_there(tmp_path) -> None:
    """Its digests are right: a version of diffkern with other facts may have written it."""
    name = key([("a", b"b")])
    Store(tmp_path / "cache").put(name, StoredArtifact(b"\x7fELF", ("k",), "", FULL))
    path = tmp_path / "cache" / name[:2] / name / "manifest.json"
    content = json.loads(path.read_text())
    assert Store(tmp_path / "cache").get(name) is not None
    del content["digest"], content["program"]["cost"]
    text = json.dumps(content, indent=1).removesuffix("\n}")
    path.write_text(f'{text},\n "digest": "{digest(text.encode())}"\n}}\n')
    assert Store(tmp_path / "cache").get(name) is None

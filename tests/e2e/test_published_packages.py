"""``tools/neighbours``: the finder, processes that die, kernels that are refused, comparisons and tables."""

from __future__ import annotations

import importlib
import json
import os
import runpy
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import require

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "neighbours"
pytestmark = pytest.mark.skipif(not TOOL.is_dir(), reason="the tools are not beside the tests")
NAMES = ("packages", "conversation", "comparison", "merging", "pieces", "tables", "survey")

PACKAGE = {
    "__init__": "",
    "good": """
        import warp as wp
        import warp.types
        from warp._src.types import Vector
        from typing import Any

        @wp.kernel
        def doubled(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[i] = 2.0 * x[i]

        @wp.kernel(enable_backward=False)
        def refused(x: wp.array[float]):
            x[wp.tid()] = wp.no_such_function(1.0)
            x[wp.tid()] = wp.no_other_function(1.0)

        @wp.kernel
        def by_table(at: wp.array[int], x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[at[i]] = x[i] * y[at[i + 1]]

        @wp.kernel
        def by_the_order(x: wp.array[float], y: wp.array[float]):
            wp.atomic_max(y, 0, x[wp.tid()])
            y[1] = y[0] * y[0]

        @wp.kernel
        def generic(x: wp.array[Any]):
            x[wp.tid()] = x[wp.tid()]
    """,
    "missing": "import warp.no_such_module",
    "of_another": "import no_such_package",
    "deadly": "import os; os._exit(7)",
    "last": "import warp",
}
PROGRAM = """
import numpy as np
import warp as wp

PACKAGE = "warp-nn"
STEPS = 6
TOLERANCE = 1e-6


@wp.kernel
def halved(x: wp.array[float]):
    x[wp.tid()] *= 0.5


class Halving:
    def __init__(self):
        print("printed by the program")
        self.x = wp.array(np.ones(4, np.float32))
        self.steps = 0

    def step(self):
        self.steps += 1
        wp.launch(halved, dim=4, inputs=[self.x])

    def outputs(self):
        return {"x": self.x.numpy()}

    def reference(self):
        return {"x": np.full(4, 0.5**self.steps)}


def begin():
    return Halving()
"""


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(TOOL))
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in NAMES})
    for name in NAMES:
        sys.modules.pop(name)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that imports Warp, in a folder on the children's path."""
    folder = tmp_path / "site" / "borrowed"
    folder.mkdir(parents=True)
    for name, text in PACKAGE.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    return "borrowed"


def about(tool: Any, tmp_path: Path, work: str, names: list[str], **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tool.conversation.replies_about(
        Path(sys.executable), "diffkern", work, tmp_path / "cache", 60.0, {"names": names, **more}
    )
    return found


def test_modules_are_imported_under_the_finder_and_deaths_are_survived(tool: Any, tmp_path: Path, package: str) -> None:
    names = list(tool.packages.modules_of(tool.packages.Package("borrowed", package), tmp_path / "site"))
    assert names == ["borrowed", *(f"borrowed.{name}" for name in sorted(PACKAGE) if name != "__init__")]
    found = {reply["name"]: reply["error"] for reply in about(tool, tmp_path, "modules", names)}
    assert found == {
        "borrowed": None,
        "borrowed.deadly": "Died: exit status 7",
        "borrowed.good": None,
        "borrowed.last": None,
        "borrowed.missing": "ModuleNotFoundError: diffkern.warp has no module 'warp.no_such_module'",
        "borrowed.of_another": "ModuleNotFoundError: No module named 'no_such_package'",
    }


def test_kernels_are_compiled_forward_and_adjoint(tool: Any, tmp_path: Path, package: str) -> None:
    found = about(tool, tmp_path, "kernels", ["borrowed.good"], targets=["cpu", "sm_90"])
    by_name = {reply["name"].partition("(")[0].rpartition(".")[2]: reply for reply in found}
    assert by_name["doubled"]["forward"] == by_name["doubled"]["adjoint"] == {"cpu": None, "sm_90": None}
    refusal = by_name["refused"]["forward"]
    assert set(refusal) == {"cpu", "sm_90"}
    assert all("KernelTypeError" in why and "no_such_function" in why for why in refusal.values())
    assert "adjoint" not in by_name["refused"]
    assert by_name["doubled"]["looked at"] == []
    assert by_name["by_table"]["adjoint"] == {"cpu": None, "sm_90": None}
    assert by_name["by_table"]["looked at"] == ["cpu", "sm_90"]
    assert all("AutodiffError" in why for why in by_name["by_the_order"]["adjoint"].values())
    assert by_name["by_the_order"]["looked at"] == []
    assert "generic" in by_name["generic"]["unknown"]


def test_a_program_is_run_step_by_step(tool: Any, tmp_path: Path) -> None:
    program = tmp_path / "halving.py"
    program.write_text(PROGRAM)
    assert tool.pieces.constants(program) == {"PACKAGE": "warp-nn", "STEPS": 6, "TOLERANCE": 1e-6}
    with tool.conversation.Conversation(
        Path(sys.executable), "diffkern", "program", tmp_path / "cache", 60.0
    ) as process:
        first = process.tell({"do": "first", "with": {"path": str(program)}})
        assert first["seconds"] > 0.0
        process.tell({"do": "steps", "with": {"count": 5}})
        process.tell({"do": "outputs", "with": {"to": str(tmp_path / "diffkern.npz")}})
        with pytest.raises(tool.conversation.Ended, match="FileNotFoundError"):
            process.tell({"do": "outputs", "with": {"to": str(tmp_path / "nowhere" / "x.npz")}})
    with np.load(tmp_path / "diffkern.npz") as outputs:
        assert outputs["output x"].tolist() == [0.5**6] * 4
    assert tool.comparison.differences(tmp_path, "diffkern", "diffkern", "reference") == {"x": 0.0}


def test_a_launched_kernel_is_tried_with_the_types_of_its_launch(tool: Any, tmp_path: Path) -> None:
    program = tmp_path / "halving.py"
    program.write_text(
        PROGRAM.replace("wp.array[float]", "wp.array[Any]").replace(
            "import numpy", "from typing import Any\nimport numpy", 1
        )
    )
    wish = {"program": str(program), "prefix": "halving", "targets": ["cpu"]}
    (found,) = about(tool, tmp_path, "launched", ["halving"], **wish)
    assert found["forward"] == found["adjoint"] == {"cpu": None}


@pytest.mark.parametrize(
    ("does", "limit", "patience", "said"),
    [
        ("while True: pass", 0.2, 1e6, r"Timeout: longer than 0\.2 seconds of processor time"),
        ("time.sleep(600)", 1000.0, 0.002, r"Timeout: longer than 2 seconds of time"),
    ],
)
def test_what_says_nothing_for_too_long_is_ended(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, limit: float, patience: float, said: str
) -> None:
    """What counts is its own time; how long it takes on a machine with other work counts where it is very long."""
    if tool.conversation.processor_time(os.getpid()) is None:
        pytest.skip("this system does not tell the processor time of a process")
    monkeypatch.setattr(tool.conversation, "_PATIENCE", patience)
    program = tmp_path / "endless.py"
    program.write_text(f"import time\ndef begin():\n    {does}\n")
    with tool.conversation.Conversation(Path(sys.executable), "diffkern", "program", tmp_path, limit) as process:
        with pytest.raises(tool.conversation.Ended, match=said):
            process.tell({"do": "first", "with": {"path": str(program)}})


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.5], 0.2),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([], [], 0.0),
        ([1.0, np.nan], [1.0, np.nan], 0.0),
        ([np.inf], [np.inf], 0.0),
        ([1.0, np.nan], [1.0, 2.0], "not finite where the other is"),
        ([np.inf], [-np.inf], "not finite where the other is"),
        ([1.0], [1.0, 2.0], "shape (1,) instead of (2,)"),
    ],
)
def test_differences_are_relative_to_the_largest(
    tool: Any, tmp_path: Path, ours: list[float], theirs: list[float], expected: float | str
) -> None:
    np.savez(tmp_path / "a.npz", **{"output x": np.array(ours), "reference x": np.zeros(3)})
    np.savez(tmp_path / "b.npz", **{"output x": np.array(theirs)})
    assert tool.comparison.differences(tmp_path, "a", "b", "output") == {
        "x": pytest.approx(expected) if isinstance(expected, float) else expected
    }


def test_an_output_that_is_missing_is_a_difference(tool: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{"output x": np.zeros(2)})
    np.savez(tmp_path / "b.npz", **{"output x": np.zeros(2), "output y": np.zeros(2)})
    assert tool.comparison.differences(tmp_path, "a", "b", "output")["y"] == "shape None instead of (2,)"


def results() -> dict[str, Any]:
    """What a run leaves: imports, kernels of which one was met twice, a program that agrees and one that stops."""
    kernel = {
        "name": "warp_nn.a.k(int32)",
        "forward": {"cpu": None, "sm_90": "E: /a/b.py:3: bad"},
        "adjoint": {"cpu": None},
        "looked at": ["cpu"],
    }
    refused = {"name": "warp_nn.a.r()", "forward": {"cpu": "E: /a/c.py:9: bad"}}
    died = {"name": "warp_nn.a.d()", "error": "Died: exit status -11"}
    unknown = {"name": "warp_nn.a.g", "unknown": "generic"}
    side = {"cold": 2.0, "warm": 1.0, "step": 0.004}
    good = {"package": "warp-nn", "tolerance": 1e-4, "steps": 3, "warp": side, "diffkern": {**side, "cold": 1.0}}
    stops = {**good, "diffkern": {"error": "E: no `x`"}}
    found: dict[str, Any] = {
        "imports-warp-nn-warp": {"modules": 3, "imported": 2, "failed": {"warp_nn.onnx": "no onnx"}, "excluded": {}},
        "imports-warp-nn-diffkern": {
            "modules": 3, "imported": 1, "failed": {"warp_nn.onnx": "no onnx", "warp_nn.b": "no b"}, "excluded": {},
        },
        "kernels-warp-nn-000": {"kernels": [kernel, refused, died, unknown]},
        "kernels-warp-nn-001": {"kernels": [kernel, {"module": "warp_nn.b", "error": "no b"}]},
        "program-good": {**good, "differences": {"x": 1e-7, "y": 1e-5}},
        "program-off": {**good, "differences": {"x": 1e-7, "y": 2e-4}},
        "program-stops": stops,
        "launched-good": {"kernels": [{"name": "warp_nn.f.<locals>.k(int32)", "forward": {"cpu": None}}]},
    }  # fmt: skip
    pieces = {name: {"date": "2000-01-02", "found": value} for name, value in found.items()}
    return {"versions": {"warp-nn": "1.2"}, "environments": {"xlb": {"warp-lang": "1.12"}}, "pieces": pieces}


def test_counts_reasons_and_outcomes(tool: Any) -> None:
    package, data = tool.packages.by_name("warp-nn"), results()
    assert tool.tables.kernel_counts(package, data, "kernels") == {
        "forward, cpu": (1, 3), "forward, sm_90": (0, 1), "adjoint, cpu": (1, 1),
    }  # fmt: skip
    assert tool.tables.kernel_counts(package, data, "launched") == {"forward, cpu": (1, 1)}
    assert tool.tables.reasons(package, data) == [
        ("import: no b", 1), ("forward for sm_90: E: bad", 1), ("forward: E: bad", 1),
        ("forward: Died: exit status -11", 1),
    ]  # fmt: skip
    rows = {row[0]: row[1:] for row in tool.tables.program_rows(package, data)}
    assert rows["good"] == ("agrees", "1e-05", "-", "2 / 1 s", "1 / 1 s", "4 / 4 ms")
    assert rows["off"][:2] == ("differs", "0.0002")
    assert rows["stops"] == ("stops under here: E: no 'x'", "-", "-", "2 / - s", "1 / - s", "4 / - ms")


def test_the_command_shows_what_is_known(tmp_path: Path) -> None:
    data = results()
    (tmp_path / "versions.json").write_text(json.dumps(data["versions"]))
    (tmp_path / "versions-xlb.json").write_text(json.dumps(data["environments"]["xlb"]))
    for name, piece in data["pieces"].items():
        (tmp_path / f"{name}.json").write_text(json.dumps(piece))
    command = [
        sys.executable,
        TOOL,
        "0",
        "--results",
        tmp_path,
        "--json",
        tmp_path / "x.data",
        "--rst",
        tmp_path / "x.inc",
    ]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads((tmp_path / "x.data").read_text()) == data
    table = (tmp_path / "x.inc").read_text()
    assert "2000-01-02" in table
    assert "with warp-nn 1.2" in table
    assert "   * - warp-nn\n     - 1 of 2\n     - 2 of 4\n     - 1 of 1 (1)\n     - 0 of 1\n     - 1 of 3\n" in table
    assert "kernels launched, forward, cpu: 1 of 1" in shown.stdout
    # Without results there is nothing to show.
    assert subprocess.run([*command[:4], tmp_path / "none"], capture_output=True, check=False).returncode == 1


def test_pieces_are_resumed(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = runpy.run_path(str(TOOL / "__main__.py"))["main"]
    done = []
    pieces = [tool.pieces.Piece(f"program-{k}", lambda k=k: done.append(k) or {"package": "none"}) for k in range(3)]
    settings = {"pieces": lambda setting: pieces, "site_of": lambda python: tmp_path, "versions": lambda *_: {}}
    for name, value in settings.items():
        monkeypatch.setitem(main.__globals__, name, value)
    given = ["60", "--python", sys.executable, "--results", str(tmp_path)]
    main([*given, "--only", "program-1"])
    main(given)
    main(given)
    assert done == [1, 0, 2]
    main([*given, "--again", "--only", "program-0"])
    assert done == [1, 0, 2, 0]
    found = {"kernels": [{"name": "k", "forward": {"cpu": None}, "adjoint": {"cpu": "refused"}}]}
    (tmp_path / "program-2.json").write_text(json.dumps({"date": "2000-01-01", "found": found}))
    main([*given, "--refused"])
    assert done == [1, 0, 2, 0, 2]


def test_other_targets_are_added_to_what_is_known(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = runpy.run_path(str(TOOL / "__main__.py"))["main"]
    asked: list[tuple[str, ...]] = []

    def pieces(setting: Any) -> list[Any]:
        def do() -> Any:
            asked.append(setting.targets)
            forward = dict.fromkeys(setting.targets)
            replies = [{"name": "a", "forward": forward, "adjoint": forward, "looked at": list(setting.targets)}]
            return {"kernels": [*replies, {"name": "b", "error": "Died"}, {"module": "m", "error": "no m"}]}

        return [tool.pieces.Piece("kernels-x-000", do), tool.pieces.Piece("program-y", lambda: {"package": "none"})]

    for name, value in {"pieces": pieces, "site_of": lambda python: tmp_path, "versions": lambda *_: {}}.items():
        monkeypatch.setitem(main.__globals__, name, value)
    known = [{"name": "a", "forward": {"cpu": None}, "adjoint": {"cpu": "refused"}, "looked at": []}]
    known += [
        {"name": "b", "forward": {"cpu": None}},
        {"name": "c", "forward": {"cpu": None}},
        {"name": "d", "unknown": "g"},
    ]
    place = tmp_path / "kernels-x-000.json"
    place.write_text(json.dumps({"date": "2000-01-01", "found": {"kernels": known}}))
    for _ in range(2):
        main(["60", "--python", sys.executable, "--results", str(tmp_path), "--targets", "cpu,sm_90"])
    assert asked == [("sm_90",)]
    assert json.loads(place.read_text()) == {"date": "2000-01-01", "found": {"kernels": [
        {"name": "a", "forward": {"cpu": None, "sm_90": None}, "adjoint": {"cpu": "refused", "sm_90": None},
         "looked at": ["sm_90"]},
        {"name": "b", "forward": {"cpu": None, "sm_90": "Died"}}, *known[2:],
    ]}}  # fmt: skip


def test_a_package_of_ones_own_is_given_by_its_names(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = runpy.run_path(str(TOOL / "__main__.py"))["main"]
    (tmp_path / "warp_thing").mkdir()
    (tmp_path / "warp_thing" / "kernels.py").write_text("@wp.kernel\ndef k(): pass")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, package in {"ours": "warp-thing", "other": "warp-nn"}.items():
        (programs / f"{name}.py").write_text(PROGRAM.replace("warp-nn", package))
    seen: list[str] = []
    settings = {
        "pieces": lambda setting: seen.extend(p.name for p in tool.pieces.pieces(setting)) or [],
        "site_of": lambda python: tmp_path, "versions": lambda *_: {},
    }  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setitem(main.__globals__, name, value)
    given = ["60", "--python", sys.executable, "--results", str(tmp_path / "results")]
    main([*given, "--package", "warp-thing=warp_thing", "--programs", str(programs)])
    assert seen == [
        "imports-warp-thing-warp", "imports-warp-thing-diffkern", "program-ours", "launched-ours",
        "kernels-warp-thing-000",
    ]  # fmt: skip


def test_packages_have_environments_of_their_own(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = runpy.run_path(str(TOOL / "__main__.py"))["main"]
    made: list[tuple[Path, str]] = []
    pieces = [tool.pieces.Piece(f"{kind}-x", lambda: {"package": "none"}) for kind in ("imports", "kernels", "program")]
    settings = {
        "make": lambda folder, requirements: made.append((folder, requirements)) or tmp_path,
        "pieces": lambda setting: pieces, "site_of": lambda python: tmp_path, "versions": lambda *_: {"warp-lang": "1"},
    }  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setitem(main.__globals__, name, value)
    given = ["60", "--environment", str(tmp_path / "e"), "--results", str(tmp_path / "r")]
    main([*given, "--package", "xlb", "--package", "warp-nn", "--only", "kernels,imports"])
    assert made == [(tmp_path / "e" / "xlb", "requirements_xlb.txt"), (tmp_path / "e", "requirements.txt")]
    names = "imports-x kernels-x versions versions-xlb"
    assert " ".join(sorted(path.stem for path in (tmp_path / "r").glob("*.json"))) == names
    packages, data = [tool.packages.by_name("xlb")], results()
    assert "with warp-lang 1.12." in tool.tables.rst(packages, data)
    packages.append(tool.packages.by_name("warp-nn"))
    assert "with warp-nn 1.2; warp-lang 1.12." in tool.tables.rst(packages, data)
    for package in (*tool.packages.PACKAGES, *tool.packages.MORE):
        wanted = (TOOL / package.requirements).read_text().splitlines()
        assert any(line.startswith(f"{package.distribution}==") for line in wanted), package


def test_every_program_says_what_it_is(tool: Any) -> None:
    programs = sorted((TOOL / "programs").glob("[!_]*.py"))
    assert len(programs) >= 12
    for program in programs:
        wish = tool.pieces.constants(program)
        assert {"PACKAGE", "STEPS", "TOLERANCE"} <= set(wish), program
        tool.packages.by_name(wish["PACKAGE"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("solver = SolverImplicitMPM(model)", "``warp.fem``"),
        ("import warp.fem as fem", "``warp.fem``"),
        ("path = newton.utils.download_asset('unitree_g1')", "downloads a model"),
        ("mesh.build_sdf(max_resolution=64)", None),
        ("from newton.geometry import sdf_box", None),
        ("solver = newton.solvers.SolverXPBD(model)", None),
    ],
)
def test_an_example_is_left_out_for_what_its_text_has(tool: Any, text: str, reason: str | None) -> None:
    assert tool.survey.reason(text) == reason


def test_a_survey_has_a_row_for_each_example(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / tool.survey.EXAMPLES / "basic"
    folder.mkdir(parents=True)
    for name, text in {"grains": "SolverImplicitMPM", "late": "", "near": "", "far": "", "stuck": ""}.items():
        (folder / f"example_{name}.py").write_text(text)
    known = {
        "basic.example_near": {"frames": 3, "differences": {"q": 1e-7, "qd": 1e-6}},
        "basic.example_far": {"frames": 3, "differences": {"q": 0.5}},
        "basic.example_stuck": {"frames": 3, "stops": "warp", "error": "Timeout: too long"},
    }
    results, table = tmp_path / "found.json", tmp_path / "table.inc"
    results.write_text(json.dumps(known))
    monkeypatch.setattr(tool.survey, "site_of", lambda _: tmp_path)
    given = ["--python", sys.executable, "--results", str(results), "--rst", str(table)]
    assert tool.survey.main(["0", *given]) == 0
    found = {name: tool.survey.row(one) for name, one in json.loads(results.read_text()).items()}
    assert found == {
        "basic.example_far": "differs: 0.5 after 3 frames",
        "basic.example_grains": "left out: ``warp.fem``",
        "basic.example_late": "not run: the time was up",
        "basic.example_near": "agrees: 1e-06 after 3 frames",
        "basic.example_stuck": "stops under Warp: Timeout: too long",
    }
    assert [line for line in table.read_text().splitlines() if "example_" in line] == [
        f"   * - ``{name}``" for name in sorted(found)
    ]


@pytest.mark.full
def test_a_program_under_both(tool: Any, tmp_path: Path) -> None:
    require("warp")
    program = tmp_path / "halving.py"
    program.write_text(PROGRAM)
    wish = tool.pieces.constants(program)
    folder = tmp_path / "work"
    folder.mkdir()
    found = tool.comparison.compare(Path(sys.executable), program, wish, folder, 120.0)
    assert found["differences"] == {"x": 0.0}
    for under in ("warp", "diffkern"):
        assert {"cold", "warm", "step", "from reference"} == set(found[under])
    assert tool.tables.outcome(found) == "agrees"

"""A lock whose holder Ctrl-C has kept from giving it back is there for the same thread when it asks again."""

import contextlib

from diffkern.cache.lock import exclusive


def holder(path: str, leave: list[object]) -> None:
    context = exclusive(path, 1.0)
    context.__enter__()
    leave.append(context)  # as a traceback keeps the block alive whose __exit__ was interrupted
    raise KeyboardInterrupt


def test_a_holder_that_was_interrupted_is_not_waited_for(tmp_path):
    path = str(tmp_path / "lock")
    kept: list[object] = []
    with contextlib.suppress(KeyboardInterrupt):
        holder(path, kept)
    with exclusive(path, 5.0) as held:
        assert held
    assert kept

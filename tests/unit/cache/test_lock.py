"""The lock: one holder at a time among threads and processes, no stale locks, a time limit."""

from __future__ import annotations

import subprocess
import sys
import threading

from diffkern.cache.lock import exclusive

HOLDER = """
import sys, time
from diffkern.cache.lock import exclusive
with exclusive(sys.argv[1], 1.0) as held:
    print(held, flush=True)
    time.sleep(60)
"""


def test_one_thread_at_a_time(tmp_path):
    path = str(tmp_path / "lock")
    inside = most = 0
    guard = threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(20):
            with exclusive(path, 30.0) as held:
                assert held
                with guard:
                    inside += 1
                    most = max(most, inside)
                with guard:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert not list(tmp_path.iterdir())


def test_a_holder_that_takes_too_long_is_not_waited_for(tmp_path):
    path = str(tmp_path / "lock")
    with exclusive(path, 1.0):
        with exclusive(path, 0.05) as held:
            assert not held


def test_a_killed_holder_leaves_no_lock(tmp_path):
    path = str(tmp_path / "lock")
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    with exclusive(path, 0.05) as held:
        assert not held
    holder.kill()
    holder.communicate()
    with exclusive(path, 5.0) as held:
        assert held


def test_where_no_lock_can_be_had_the_work_is_done_all_the_same(tmp_path):
    with exclusive(str(tmp_path / "absent" / "lock"), 1.0) as held:
        assert not held

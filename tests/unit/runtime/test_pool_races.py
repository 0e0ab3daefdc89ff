"""The thread pool under ThreadSanitizer: its native code with another program's submitters, without data races."""

from __future__ import annotations

import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from diffkern.runtime.native.module_ir import runtime_ir

TOOLS = ("opt", "llc", "gcc")
PROGRAM = """
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
typedef int64_t word;
int dk_pool_run(word, word, word, word, word, word, word);
void dk_pool_reset(void);
void dk_pool_configure(word, word);
word PyThread_get_thread_ident(void) { return (word)pthread_self(); }
#define STUB(name) word name(void) { fprintf(stderr, #name "\\n"); abort(); }
#include "stubs.h"

static void count(word data, word low, word high) {
  word *p = (word *)data;
  for (word i = low; i < high; i++) {
    p[i] += 1;
    for (volatile int k = 0; k < 200; k++);
  }
}
static void nest(word data, word low, word high) {
  for (word i = low; i < high; i++) dk_pool_run((word)count, data + i * 512, 0, 64, 4, 0, 1);
}
static void *submit(void *given) {
  word id = (word)given, *data = calloc(4096, 8);
  for (int r = 0; r < 60; r++) {
    if (r % 7 == 3) dk_pool_run((word)nest, (word)data, 0, 64, 1, 0, 1);
    else dk_pool_run((word)count, (word)data, 0, 4096, 16, 0, 1);
    if (r % 20 == 19) usleep(2000);
    if (id == 0 && r % 15 == 14) dk_pool_configure(r % 2 ? 3 : 9, r % 4 ? 50000 : 0);
  }
  for (int i = 0; i < 4096; i++) if (data[i] != 60) exit(2);
  free(data);
  return 0;
}
int main(void) {
  pthread_t threads[6];
  dk_pool_reset();
  dk_pool_configure(7, 50000);
  for (word i = 0; i < 6; i++) pthread_create(threads + i, 0, submit, (void *)i);
  for (int i = 0; i < 6; i++) pthread_join(threads[i], 0);
  puts("done");
  return 0;
}
"""


def run(folder: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command."""
    environment = {**os.environ, **more}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def build(folder: Path, text: str) -> None:
    """Build the program with the module of the run time, whose memory accesses ThreadSanitizer watches."""
    text = re.sub(r"^target .*$", "", text, flags=re.MULTILINE).replace("uwtable", "uwtable sanitize_thread")
    (folder / "pool.ll").write_text('target triple = "x86_64-pc-linux-gnu"\n' + text)
    declared = set(re.findall(r'declare [^@]*@"?(Py\w+)"?\(', text)) - {"PyThread_get_thread_ident"}
    data = set(re.findall(r'@"?(\w+)"? = external', text))
    stubs = [f"STUB({name})\n" for name in sorted(declared)] + [f"word {name};\n" for name in sorted(data)]
    (folder / "stubs.h").write_text("".join(stubs))
    (folder / "main.c").write_text(PROGRAM)
    opaque = ["-opaque-pointers"] if "LLVM version 14" in run(folder, "opt", "--version").stdout else []
    steps = [
        ["opt", *opaque, "-passes=tsan-module,function(sroa,tsan)", "pool.ll", "-S", "-o", "watched.ll"],
        ["llc", *opaque, "-relocation-model=pic", "-filetype=obj", "watched.ll", "-o", "pool.o"],
        ["gcc", "-O1", "-fsanitize=thread", "main.c", "pool.o", "-o", "program", "-lpthread"],
    ]
    for step in steps:
        made = run(folder, *step)
        if made.returncode:
            pytest.skip(f"{step[0]} of this machine does not build it: {made.stderr[:300]}")


@pytest.mark.full
@pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason=f"needs {', '.join(TOOLS)}")
@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="built for Linux on x86-64")
@pytest.mark.parametrize("faulty", [False, True])
def test_threads_do_not_race(tmp_path: Path, faulty: bool) -> None:
    """Where workers count themselves plainly, a race is found: the watching works."""
    text = runtime_ir(15, sys.platform, platform.machine())
    build(tmp_path, plainly(text) if faulty else text)
    found = run(tmp_path, "./program", TSAN_OPTIONS="exitcode=66 halt_on_error=1")
    assert ("data race" in found.stderr) == faulty, found.stderr[:3000]
    assert faulty or (found.stdout, found.returncode) == ("done\n", 0)


def plainly(text: str) -> str:
    """Make loads and stores of the atomic additions of a worker."""
    begin = text.index('@"dk_worker"(')
    end = text.index("\n}", begin)
    numbers = itertools.count()

    def plain(found: re.Match[str]) -> str:
        result, how, place, value = found.groups()
        total = f'%"plain.{next(numbers)}"'
        load = f"{result} = load i64, ptr {place}"
        return f"{load}\n  {total} = {how} i64 {result}, {value}\n  store i64 {total}, ptr {place}"

    atomic = r"(%\S+) = atomicrmw (add|sub) ptr (%[^,\s]+), i64 (\S+) \w+"
    changed, count = re.subn(atomic, plain, text[begin:end])
    assert count
    return text[:begin] + changed + text[end:]

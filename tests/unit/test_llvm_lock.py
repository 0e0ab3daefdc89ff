"""llvmlite's lock, left with the main thread by an interrupt, does not keep the compiler's thread waiting."""

import threading

import llvmlite.binding as llvm

import diffkern as dk
from diffkern.process.interrupts import give_back


def test_a_lock_that_an_interrupt_left_held_is_given_back():
    own = llvm.ffi.lib._lock._lock
    own.acquire()
    own.acquire()
    give_back()
    assert not own._is_owned()
    taken = []

    def take() -> None:
        taken.append(own.acquire(timeout=10))
        own.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    assert taken == [True]


def test_a_kernel_is_compiled_after_such_an_interrupt():
    @dk.kernel
    def kernel(x: dk.array(dtype=float)):
        x[dk.tid()] = 7.25

    llvm.ffi.lib._lock._lock.acquire()
    x = dk.zeros(4)
    kernel[4](x)
    assert (x.numpy() == 7.25).all()

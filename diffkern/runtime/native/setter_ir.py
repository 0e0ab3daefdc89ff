"""Changing a parameter of a prepared launch in native code.

``dk_set_param`` is a Python built-in function of an index and a value, over tables that Python fills. It writes
numbers, and arrays of the type that is there, into the argument block, and calls a Python function for everything else:
other values, a call in progress, a third argument. A built-in's ``self`` is a tuple (address of the table, Python
function, owner of the memory). ``dk_put_idle`` writes bytes that Python has packed, if no call is in progress.
:mod:`diffkern.runtime.native.setter` fills the tables and describes the words.
"""

from __future__ import annotations

from typing import Any

from diffkern.runtime.native.builder import DOUBLE, FLOAT, I32, I64, Label, Module, Variable, Word

__all__ = ["add_setter"]

# A table: 0 flags, not 0 sends every call to Python; 1 set to 1 by every change; 2 address of the plan (its word 1:
# running); 3 number of slots; 4 class of arrays; 5 list of arrays; 6 to 10 names of attributes: _key, _packed or _alone
# (None where Python has to look at the array), _writable _memory _where; 11 address of the slots.
_FLAGS, _CHANGED, _PLAN, _COUNT, _CLASS, _LIST, _KEY, _PACKED, _WRITABLE, _MEMORY, _WHERE, _SLOTS = range(0, 96, 8)
# A slot: 0 kind; 1 position in the list of arrays; 2 where it stands in the block; 3, 4, 5 of an integer the least and
# the greatest value and the mask of its width; of an array the key of its type, the bytes that describe it, and where
# the plan has the address of its counter; 6 of an array that must not be one of others: the address of their number,
# and of where the block has their addresses; else 0.
_SLOT_WORDS = 7
# Kinds; 0 is for Python. An array is read, or written.
_FLOAT32, _FLOAT64, _INTEGER, _READ, _WRITTEN = range(1, 6)
# Where CPython keeps the class of an object, the last word of its head, and the contents of a bytes object.
_TYPE = object.__basicsize__ - 8
_CONTENTS = bytes.__basicsize__ - 1
_INFINITY = float("inf")


def add_setter(m: Module) -> None:
    """Add ``dk_set_param``, with METH_FASTCALL and METH_KEYWORDS, and ``dk_put_idle``, with METH_FASTCALL."""
    _Setter(m).write()
    _put_idle(m)


def _put_idle(m: Module) -> None:
    """A built-in of an offset and bytes; its ``self`` is a tuple (address of the plan, address of the block).

    Returns True, or None if a call is in progress, and nothing was written.
    """
    made, c = m.routine("dk_put_idle", 3, is_exported=True)
    itself, arguments, _ = made.args
    plan, block = (c.invoke("PyLong_AsVoidPtr", c.invoke("PyTuple_GetItem", itself, k)) for k in range(2))
    # The interpreter's lock is held from here to the end, so that no call can begin in between.
    with c.when(c.compare("!=", c.atomic_load(plan, 8, "acquire"), 0)):
        c.leave_none()
    offset, packed = c.loads(arguments, 2)
    target = c.add(block, c.invoke("PyLong_AsVoidPtr", offset))
    c.copy(target, c.add(packed, _CONTENTS), c.invoke("PyBytes_Size", packed))
    true = c.named("_Py_TrueStruct")
    c.invoke("Py_IncRef", true)
    c.leave(true)


def _attribute(m: Module) -> Any:
    """``attribute(o, name)``: an attribute, which the object keeps; or 0, without an exception."""
    made, c = m.routine("dk_attribute", 2)
    value = c.invoke("PyObject_GetAttr", *made.args)
    with c.when(c.compare("==", value, 0)):
        c.invoke("PyErr_Clear")
        c.leave(0)
    # The object still holds the attribute, and the interpreter's lock is held: the borrowed reference stays valid.
    c.invoke("Py_DecRef", value)
    c.leave(value)
    return made


class _Setter:
    def __init__(self, m: Module) -> None:
        self.attribute_of = _attribute(m)
        made, self.c = m.routine("dk_set_param", 4, is_exported=True)
        self.itself, self.arguments, self.count, self.names = made.args
        self.python: Label = self.c.label("python")

    def write(self) -> None:
        c = self.c
        self.overflow = c.words(1)
        self.table = c.invoke("PyLong_AsVoidPtr", c.invoke("PyTuple_GetItem", self.itself, 0))
        usual = c.b.or_(c.atomic_load(self.table, _FLAGS), c.b.or_(self.names, c.b.xor(self.count, c.word(2))))
        c.require(c.compare("==", usual, 0), self.python)
        # A running call reads the block. Python waits for its end, which cannot be done while the lock is held here.
        idle = c.compare("==", c.atomic_load(c.load(self.table, _PLAN), 8, "acquire"), 0)
        c.require(idle, self.python)
        index, value = c.loads(self.arguments, 2)
        c.require(self.is_a(c.load(index, _TYPE), "PyLong_Type"), self.python)
        # One that is too large for 64 bits comes back as -1.
        position = c.invoke("PyLong_AsLongLongAndOverflow", index, self.overflow)
        c.require(c.b.icmp_unsigned("<", position, c.load(self.table, _COUNT)), self.python)
        slot = c.add(c.load(self.table, _SLOTS), c.mul(position, 8 * _SLOT_WORDS))
        kind, leaf, target, *facts = c.loads(slot, _SLOT_WORDS)
        found = c.load(value, _TYPE)
        with c.when(c.any(c.compare("==", kind, _FLOAT32), c.compare("==", kind, _FLOAT64))):
            self.real(kind, value, found, target)
        with c.when(c.compare("==", kind, _INTEGER)):
            self.integer(value, found, target, *facts[:3])
        with c.when(c.any(c.compare("==", kind, _READ), c.compare("==", kind, _WRITTEN))):
            self.array(kind, value, found, leaf, target, *facts)
        c.go(self.python)
        with c.at(self.python):
            slow = c.invoke("PyTuple_GetItem", self.itself, 1)
            c.leave(c.invoke("PyObject_Vectorcall", slow, self.arguments, self.count, self.names))

    def is_a(self, found: Word, name: str) -> Any:
        return self.c.compare("==", found, self.c.named(name))

    def attribute(self, o: Word, name: int) -> Word:
        return self.c.invoke(self.attribute_of, o, self.c.load(self.table, name))

    def changed(self) -> None:
        self.c.store(1, self.table, _CHANGED)
        self.c.leave_none()

    def real(self, kind: Word, value: Word, found: Word, target: Word) -> None:
        c = self.c
        bits = c.variable()
        with c.either(self.is_a(found, "PyFloat_Type")) as (is_float, other):
            with is_float:
                bits.set(c.b.bitcast(c.invoke("PyFloat_AsDouble", value), I64))
            with other:
                c.require(self.is_a(found, "PyLong_Type"), self.python)
                bits.set(c.b.bitcast(c.invoke("PyLong_AsDouble", value), I64))
                with c.when(c.compare("!=", c.invoke("PyErr_Occurred"), 0)):
                    c.invoke("PyErr_Clear")
                    c.go(self.python)
        with c.when(c.compare("==", kind, _FLOAT64)):
            c.store(bits.get(), target)
            self.changed()
        self.single(bits, target)

    def single(self, bits: Variable, target: Word) -> None:
        """Leave it to Python to refuse a number that is finite, and infinite in single precision."""
        c = self.c
        x = c.b.bitcast(bits.get(), DOUBLE)
        y = c.b.fptrunc(x, FLOAT)
        became = c.b.fcmp_ordered("==", c.invoke("llvm.fabs.f32", y), FLOAT(_INFINITY))
        was = c.b.fcmp_ordered("<", c.invoke("llvm.fabs.f64", x), DOUBLE(_INFINITY))
        c.require(c.b.not_(c.all(became, was)), self.python)
        c.store(c.b.zext(c.b.bitcast(y, I32), I64), target)
        self.changed()

    def integer(self, value: Word, found: Word, target: Word, least: Word, greatest: Word, mask: Word) -> None:
        c = self.c
        c.require(self.is_a(found, "PyLong_Type"), self.python)
        number = c.invoke("PyLong_AsLongLongAndOverflow", value, self.overflow)
        fits = c.compare("==", c.load32(self.overflow), 0)
        c.require(c.all(c.compare(">=", number, least), c.compare("<=", number, greatest), fits), self.python)
        c.store(c.b.and_(number, mask), target)
        self.changed()

    def array(
        self,
        kind: Word,
        value: Word,
        found: Word,
        leaf: Word,
        target: Word,
        key: Word,
        size: Word,
        counter: Word,
        rivals: Word,
    ) -> None:
        c, python = self.c, self.python
        c.require(c.compare("==", found, c.load(self.table, _CLASS)), python)
        c.require(c.compare("==", self.attribute(value, _KEY), key), python)
        packed = self.attribute(value, _PACKED)
        c.require(c.compare("!=", packed, 0), python)
        c.require(c.compare("!=", packed, c.named("_Py_NoneStruct")), python)
        described = c.add(packed, _CONTENTS)
        # Another shape may not fit the launch: Python looks at that. Behind the address are shape and strides.
        shape_bytes = c.b.lshr(c.sub(size, 8), c.word(1))
        differs = c.invoke("memcmp", c.add(described, 8), c.add(target, 8), shape_bytes)
        c.require(c.compare("==", differs, 0), python)
        # Arrays that are no views are the same memory if they begin at one address.
        with c.when(c.compare("!=", rivals, 0)), c.loop(c.load(rivals)) as k:
            address = c.load(c.load(rivals, c.add(c.mul(k, 8), 8)))
            c.require(c.compare("!=", address, c.load_unaligned(described)), python)
        with c.when(c.compare("==", kind, _WRITTEN)):
            self.count_changes(value, counter)
        c.copy(target, described, size)
        kept = c.load(self.table, _LIST)
        c.store(1, self.table, _CHANGED)
        # The last use of the table: what the list lets go of may end the record.
        c.invoke("Py_IncRef", value)
        c.invoke("PyList_SetItem", kept, leaf, value)
        c.leave_none()

    def count_changes(self, value: Word, counter: Word) -> None:
        """Make the plan count the changes of an array's memory."""
        c, python = self.c, self.python
        c.require(c.compare("==", self.attribute(value, _WRITABLE), c.named("_Py_TrueStruct")), python)
        memory = self.attribute(value, _MEMORY)
        c.require(c.compare("!=", memory, 0), python)
        place = self.attribute(memory, _WHERE)
        c.require(c.compare("!=", place, 0), python)
        where = c.invoke("PyLong_AsVoidPtr", place)  # 0 until the counter is asked for
        c.require(c.compare("!=", where, 0), python)
        c.store(where, counter)

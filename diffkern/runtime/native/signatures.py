"""The functions of the C library and of Python that the run time's native code calls, with their types.

Each signature is the type of the result, then those of the arguments: ``v`` nothing, ``p`` a pointer, ``w`` 64 bits,
``i`` 32 bits, ``f`` and ``d`` floating-point numbers, ``b`` one bit, ``c`` a byte.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DATA", "EXTERNAL_NAMES", "SIGNATURES"]

SIGNATURES: Final[dict[str, str]] = {
    "pthread_mutex_init": "ipp", "pthread_mutex_lock": "ip", "pthread_mutex_unlock": "ip",
    "pthread_cond_init": "ipp", "pthread_cond_wait": "ipp", "pthread_cond_signal": "ip", "pthread_cond_broadcast": "ip",
    "pthread_create": "ipppp", "pthread_attr_init": "ip", "pthread_attr_setstacksize": "ipw",
    "pthread_attr_setdetachstate": "ipi", "pthread_attr_destroy": "ip", "pthread_sigmask": "iipp",
    "sigfillset": "ip", "sigdelset": "ipi", "clock_gettime": "iip", "sched_getcpu": "i",
    "sched_getaffinity": "iiwp", "sched_setaffinity": "iiwp",
    "PyErr_CheckSignals": "i", "PyErr_Clear": "v", "PyErr_Occurred": "p", "PyErr_SetString": "vpp",
    "PyEval_RestoreThread": "vp", "PyEval_SaveThread": "p", "PyThread_get_thread_ident": "w",
    "PyLong_AsLongLong": "wp", "PyLong_AsLongLongAndOverflow": "wpp", "PyLong_AsDouble": "dp",
    "PyLong_AsVoidPtr": "pp", "PyLong_FromLong": "pw", "PyFloat_AsDouble": "dp",
    "PyTuple_New": "pw", "PyTuple_GetItem": "ppw", "PyTuple_SetItem": "ipwp", "PyTuple_Size": "wp",
    "PyList_SetItem": "ipwp", "PyDict_New": "p", "PyDict_SetItem": "ippp",
    "PyCapsule_IsValid": "ipp", "PyCapsule_GetPointer": "ppp", "PyErr_Fetch": "vppp", "PyErr_Restore": "vppp",
    "PyErr_GetRaisedException": "p", "PyErr_SetRaisedException": "vp", "Py_IsInitialized": "i",
    "PyGILState_Ensure": "i", "PyGILState_Release": "vi",
    "PyObject_GetAttr": "ppp", "PyObject_SetAttr": "ippp", "PyObject_Call": "pppp",
    "PyObject_CallNoArgs": "pp", "PyBytes_Size": "wp",
    "PyObject_Vectorcall": "pppwp", "Py_IncRef": "vp", "Py_DecRef": "vp",
    "malloc": "ww", "calloc": "www", "free": "vw", "memcmp": "ippw", "madvise": "ipwi",
    "llvm.memcpy.p0.p0.i64": "vppwb", "llvm.memmove.p0.p0.i64": "vppwb", "llvm.memset.p0.i64": "vpcwb",
    "llvm.prefetch.p0": "vpiii",
    "llvm.fabs.f32": "ff", "llvm.fabs.f64": "dd", "llvm.x86.sse2.pause": "v", "llvm.aarch64.hint": "vi",
}  # fmt: skip

DATA: Final = (
    "PyExc_RuntimeError",
    "PyExc_TypeError",
    "PyFloat_Type",
    "PyLong_Type",
    "_Py_NoneStruct",
    "_Py_TrueStruct",
)
"""Variables of Python, by their addresses."""

EXTERNAL_NAMES: Final[frozenset[str]] = frozenset(name for name in SIGNATURES if not name.startswith("llvm.")).union(
    DATA, "memcpy memmove memset bzero __bzero".split()
)
"""The symbols of the C library and of Python that native code may use."""

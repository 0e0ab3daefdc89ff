"""Annotations that Python evaluates when they are asked for, as it does from version 3.14 on.

A decorator takes them for what they mean then, so that a name that is set again later doesn't change a kernel. What
names something that is not there yet becomes text, as if it had been written in quotes.
"""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["keep_annotations", "stated_annotations"]


def stated_annotations(stated: Any) -> dict[str, Any]:
    """Return the annotations of a function or a class; those that cannot be evaluated yet are text."""
    try:
        return inspect.get_annotations(stated)
    except NameError:  # before Python 3.14 they have been evaluated when the function was made
        import annotationlib  # type: ignore[import-not-found,unused-ignore]

        found = annotationlib.get_annotations(stated, format=annotationlib.Format.FORWARDREF)
        return {
            name: annotation.__forward_arg__ if isinstance(annotation, annotationlib.ForwardRef) else annotation
            for name, annotation in found.items()
        }


def keep_annotations(pyfunc: Any) -> None:
    """Evaluate the annotations of a function now, and keep what they mean in it."""
    try:
        _ = pyfunc.__annotations__
    except NameError:
        pyfunc.__annotations__ = stated_annotations(pyfunc)
    except AttributeError:  # an object that is called like a function
        pass

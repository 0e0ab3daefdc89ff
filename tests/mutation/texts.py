"""Faults in what a key takes of annotations written as text, and in finding the text that a function is from.

They run as those of :mod:`mutation.elsewhere` do.
"""

from __future__ import annotations

from diffkern.frontend import canonical, code, encoding, frozen, guards, outline, source, survey, text_annotations
from diffkern.lang import static, text

from .edits import Fault, constant, edit

_ANNOTATIONS = "tests/unit/frontend/test_annotation_texts.py"
_COUNTS = f"{_ANNOTATIONS}::test_what_it_means_counts"
_LIKENESS = "tests/unit/frontend/test_likeness.py"

TEXTS = [
    Fault("annotations of variables that are text have no say in the key",
          edit(survey, "survey_of", 'annotations.append(("", node.annotation.value))', "pass"),
          (f"{_COUNTS}[a variable]",)),
    Fault("annotations of inner functions are evaluated nowhere",
          edit(survey, "survey_of", "annotations.append((node.arg, ast.unparse(node.annotation)))", "pass"),
          (f"{_COUNTS}[a parameter by keyword]",)),
    Fault("which parameter of an inner function is annotated does not count",
          edit(encoding, "_node", '(annotated or name != "annotation")', 'name != "annotation"'),
          (f"{_ANNOTATIONS}::test_which_parameter_of_an_inner_function_has_an_annotation",)),
    Fault("names in an annotation of a func are not looked up again",
          edit(canonical, "captures", "meaning.texts", "[]"), (f"{_COUNTS}[a func: text]",)),
    Fault("any text depends on its names alone",
          edit(guards, "TextGuard.is_decided_by_names", "if not read.is_plain or", "if False and"),
          (f"{_COUNTS}[an attribute of an object]",)),
    Fault("items of any object are always the same",
          edit(guards, "_is_of_library", "return (getattr", "return True or (getattr"), (f"{_COUNTS}[an item]",)),
    Fault("texts within annotations are no texts",
          edit(text_annotations, "texts_in", "yield from texts_in(item)", "pass"), (f"{_COUNTS}[a func: a tuple]",)),
    Fault("what a text means now is what it meant",
          edit(frozen, "frozen", "guard.function == k", "False"),
          (f"{_ANNOTATIONS}::test_programs_and_adjoints",)),
    Fault("a reference is a value in the key",
          edit(guards, "annotation_fields", "not isinstance(annotation, Reference)", "True"),
          (f"{_ANNOTATIONS}::test_a_reference_to_a_variable_of_the_caller_counts",)),
    Fault("what a func says that it returns does not count",
          edit(canonical, "_parameters", "if dialect_of(function).returns_as_annotated and", "if False and"),
          (f"{_ANNOTATIONS}::test_what_a_func_says_that_it_returns_counts_where_it_is_held_to_that",)),
    Fault("attributes of objects are the same whenever they are read",
          constant(canonical, "check_steady", lambda function, guards: None),
          ("tests/unit/test_warp_habits.py::test_an_attribute_that_is_another_one_at_each_reading_is_refused",)),
    Fault("private names are compared by nothing",
          edit(code, "likeness", "_is_same(compiled, code)", "any(map(is_private, _names(compiled)))"),
          (f"{_LIKENESS}::test_an_edited_text_with_private_names_is_refused",)),
    Fault("private names of a class are those of the module",
          constant(source, "spell_private_names", lambda definition, owner: None),
          (f"{_LIKENESS}::test_private_names_are_those_of_their_class",)),
    Fault("any code may have rewritten assertions",
          constant(code, "_is_rewritten", lambda code: True),
          (f"{_LIKENESS}::test_other_assertions_are_refused_where_pytest_has_rewritten_none",)),
    Fault("beside rewritten assertions anything may stand",
          edit(code, "_is_part", "operation in left", "True"),
          (f"{_LIKENESS}::test_assertions_that_pytest_rewrites",)),
    Fault("positions do not tell texts apart",
          constant(code, "_is_placed", lambda a, b: True),
          (f"{_LIKENESS}::test_lambda_expressions_on_one_line_that_python_computes_alike",)),
    Fault("the first of several texts that fit is right",
          edit(source, "_chosen", "if len(bodies) > 1:", "if False:"),
          (f"{_LIKENESS}::test_several_texts_that_fit_are_refused",)),
    Fault("the text of a module that is imported is as likely as any",
          edit(text, "take_text", "frame is not None and not is_script", "False"),
          (f"{_LIKENESS}::test_what_is_made_while_the_module_is_imported_is_from_its_text",)),
    Fault("a file that has its size and time is what it was",
          constant(text, "_is_first", lambda file, code: False),
          (f"{_LIKENESS}::test_an_annotation_edited_within_the_resolution_of_the_clock",)),
    Fault("cached code tells nothing of a file's version",
          edit(text, "is_changed", "return not flags and", "return False and"),
          (f"{_LIKENESS}::test_cached_code_tells_that_an_annotation_was_changed",)),
    Fault("the text of a module in an archive is that which was read first",
          constant(text, "_of_archive", lambda pyfunc: None),
          (f"{_LIKENESS}::test_an_archive_that_is_written_anew",)),
    Fault("a function has one code for ever",
          edit(canonical, "Meaning.holds", "f.__code__ is code and", ""),
          (f"{_LIKENESS}::test_a_function_that_is_given_the_code_of_another_one",)),
    Fault("results of static expressions are those of any code",
          edit(static, "kept_results", "and code is pyfunc.__code__", ""),
          (f"{_LIKENESS}::test_a_function_that_is_given_the_code_of_another_one",)),
    Fault("a form feed ends a body",
          edit(source, "_quick", '[_margin(lines[k]).rfind("\\f") + 1 :]', ""),
          (f"{_LIKENESS}::test_form_feeds_in_a_body",)),
    Fault("what is remembered of a private name is right by its text",
          edit(outline, "_is_remembered", "not (parsed.like.owner and parsed.statics.places)", "True"),
          (f"{_LIKENESS}::test_private_names_in_static_expressions_that_are_remembered",)),
]  # fmt: skip

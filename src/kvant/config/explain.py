"""pydantic's errors in plain words, with what was probably meant."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from kvant.config.scalars import resolve
from kvant.config.settings import Settings
from kvant.config.words import HIDDEN, is_secret, kind, near, show

_KINDS = {
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "path_type": "a path",
    "is_instance_of": "a path",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "must be at least"),
    "less_than_equal": ("le", "must be at most"),
    "greater_than": ("gt", "must be more than"),
    "less_than": ("lt", "must be less than"),
}


def explain(error: ErrorDetails, root: type[BaseModel] = Settings) -> str:
    """What is wrong and the mend; the place and the field's name go before it."""
    path = error["loc"]
    if error["type"] == "extra_forbidden":
        return _unknown(path, root)
    if error["type"] == "missing":
        return "is missing, and has no default"
    value, context = error["input"], error.get("ctx", {})
    shown = HIDDEN if isinstance(value, str) and path and is_secret(str(path[-1])) else show(value)
    code = error["type"]
    if code in _KINDS:
        is_kind = "is not" if value is None or isinstance(value, list | dict) else f"is {kind(value)}, not"
        return f"{shown} {is_kind} {_KINDS[code]}{_converted(code, value, path, root)}"
    if code == "literal_error":
        choices = _choices(path, root)
        return f"{shown} is not one of {_list(choices)}{_nearest(value, choices, path, root)}"
    if code in _BOUNDS:
        key, words = _BOUNDS[code]
        limit = context[key] if context[key] % 1 else int(context[key])
        hint = f"; did you mean {show(limit)}?" if code.endswith("equal") else ""
        return f"{shown} {words} {show(limit)}{hint}"
    if code == "multiple_of":
        step = int(context["multiple_of"])
        below, above = value // step * step, (value // step + 1) * step
        options = [n for n in (below, above) if abs(n - value) == min(value - below, above - value)]
        return f"{shown} is not a multiple of {step}; did you mean {' or '.join(map(str, options))}?"
    if code == "finite_number":
        return f"{shown} is not a finite number"
    return f"{shown} {error['msg']}"


def _unknown(path: tuple[int | str, ...], root: type[BaseModel]) -> str:
    name, owner = str(path[-1]), section_of(path[:-1], root)
    known = owner.model_fields if owner else {}
    text = "unknown field"
    # There are few sections, far from each other: a looser match is still the right one.
    plain = name.lower().replace("-", "_")
    elsewhere = [
        f"{section}.{plain}"
        for section in root.model_fields
        if (model := section_of((section,), root)) and plain in model.model_fields
    ]
    close = near(name, known, 0.6 if path[:-1] else 0.5)
    if plain not in known and elsewhere:
        return f"{text}; did you mean {elsewhere[0]}?"
    if close:
        return f"{text}; did you mean {close}?"
    return f"{text}; known here: {', '.join(known)}"


def section_of(path: Iterable[int | str], root: type[BaseModel] = Settings) -> type[BaseModel] | None:
    """The section that the path leads to from the root of a file, through those that may be null."""
    model: Any = root
    for part in path:
        info = model.model_fields.get(part)
        model = info.annotation if info else None
        options = [option for option in get_args(model) if option is not type(None)]
        if len(options) == 1 and get_origin(model) in (Union, types.UnionType):
            model = options[0]
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return None
    return model  # type: ignore[no-any-return]


def _choices(path: tuple[int | str, ...], root: type[BaseModel]) -> tuple[Any, ...]:
    owner = section_of(path[:-1], root)
    annotation = owner.model_fields[str(path[-1])].annotation if owner else None
    options = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    options = tuple(get_args(option)[0] if get_origin(option) is Annotated else option for option in options)
    return tuple(choice for option in options if get_origin(option) is Literal for choice in get_args(option))


def _list(choices: tuple[Any, ...]) -> str:
    return ", ".join(str(choice) for choice in choices)


def _nearest(value: Any, choices: tuple[Any, ...], path: tuple[int | str, ...], root: type[BaseModel]) -> str:
    numbers = [choice for choice in choices if isinstance(choice, int)]
    close: Any = None
    if numbers and isinstance(value, int):
        close = min(numbers, key=lambda n: abs(n - value))
    elif isinstance(value, str):
        close = near(value, [c for c in choices if isinstance(c, str)], 0.4)
    return f"; did you mean {close}?" if close is not None else _leave_out(value, path, root)


def _converted(code: str, value: Any, path: tuple[int | str, ...], root: type[BaseModel]) -> str:
    """The value that a laxer reader would have made of it."""
    meant: Any = None
    number: Any = resolve(value.strip()) if isinstance(value, str) else value
    if isinstance(number, str) and path and str(path[-1]).endswith("_gib"):
        number = _gib(number)
    is_number = isinstance(number, int | float) and not isinstance(number, bool) and isfinite(number)
    if code == "int_type" and is_number and int(number) == number:
        meant = int(number)
    elif code == "float_type" and is_number:
        meant = number
    elif code == "bool_type":
        words: Mapping[Any, bool] = {"yes": True, "on": True, "true": True, "1": True, "y": True}
        words = {**words, "no": False, "off": False, "false": False, "0": False, "n": False}
        meant = words.get(str(value).strip().lower())
    elif code == "string_type" and isinstance(value, int | float):
        return f"; did you mean '{show(value)}', in quotes?"
    elif code == "tuple_type" and type(value) is int:
        return f"; did you mean [{value}]?"
    return f"; did you mean {show(meant)}?" if meant is not None else _leave_out(value, path, root)


def _gib(text: str) -> Any:
    """The number of GiB in `1GiB`, `512 MB` and the like; other text as it is."""
    found = re.fullmatch(r"([0-9.]+) *([mgt])(i?b)?", text, re.IGNORECASE)
    size = resolve(found[1]) if found else None
    if not found or not isinstance(size, int | float):
        return text
    size *= {"m": 1 / 1024, "g": 1, "t": 1024}[found[2].lower()]
    return int(size) if size == int(size) else size


def _leave_out(value: Any, path: tuple[int | str, ...], root: type[BaseModel]) -> str:
    if value is not None:
        return ""
    owner = section_of(path[:-1], root)
    info = owner.model_fields.get(str(path[-1])) if owner and path else None
    return f"; leave it out for the default, {show(info.default)}" if info else ""

"""Frozen dataclasses that are quick to define.

``dataclass`` is that of the standard library, for readers and for mypy. For a frozen class the standard one compiles six
methods, a third of a millisecond; a command that starts defines hundreds of them. Here only ``__init__`` is compiled, and
the other methods are shared. Other classes are left to the standard library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    from operator import attrgetter
    from reprlib import recursive_repr

    _NOT_GIVEN = object()

    def dataclass(cls=None, *, frozen=False, eq=True, **options):
        """Returns the class as a dataclass, as ``dataclasses.dataclass`` does."""

        def made(cls):
            if not frozen or options or "__slots__" in cls.__dict__:
                return dataclasses.dataclass(cls, frozen=frozen, eq=eq, **options)
            return _frozen(cls, eq)

        return made if cls is None else made(cls)

    def _frozen(cls, eq):
        dataclasses.dataclass(cls, init=False, repr=False, eq=False)
        fields = dataclasses.fields(cls)
        cls.__init__ = _init(cls, fields)
        cls.__setattr__, cls.__delattr__ = _refuse_to_set, _refuse_to_delete
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = _repr
        if eq:
            names = [field.name for field in fields if field.compare]
            if len(names) == 1:
                names *= 2  # of one name attrgetter returns no tuple
            values = attrgetter(*names) if names else _no_values

            def equal(self, other):
                return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

            def hashed(self):
                return hash(values(self))

            if "__eq__" not in cls.__dict__:
                cls.__eq__ = equal
            cls.__hash__ = hashed
        return cls

    def _init(cls, fields):
        """The constructor: it writes into ``__dict__``, which nothing refuses."""
        given = {"_NOT_GIVEN": _NOT_GIVEN}
        by_place, by_name, lines = ["self"], [], ["_attributes = self.__dict__"]
        for i, field in enumerate(fields):
            name, default = field.name, ""
            if field.default_factory is not dataclasses.MISSING:
                given[f"_made{i}"] = field.default_factory
                made = f"_made{i}()"
                value = f"{made} if {name} is _NOT_GIVEN else {name}" if field.init else made
                default = "=_NOT_GIVEN"
            elif field.default is not dataclasses.MISSING:
                given[f"_default{i}"] = field.default
                value, default = (name if field.init else f"_default{i}"), f"=_default{i}"
            else:
                value = name
            if field.init:
                (by_name if field.kw_only else by_place).append(name + default)
            elif not default:
                continue
            lines.append(f"_attributes[{name!r}] = {value}")
        if hasattr(cls, "__post_init__"):
            lines.append("self.__post_init__()")
        arguments = ", ".join([*by_place, *(["*", *by_name] if by_name else [])])
        exec(f"def __init__({arguments}):\n " + "\n ".join(lines), given)
        init = given["__init__"]
        init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
        init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
        return init

    def _refuse_to_set(self, name, value):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_to_delete(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    @recursive_repr()
    def _repr(self):
        shown = (field for field in dataclasses.fields(self) if field.repr)
        return f"{type(self).__qualname__}({', '.join(f'{each.name}={getattr(self, each.name)!r}' for each in shown)})"

    def _no_values(self):
        return ()

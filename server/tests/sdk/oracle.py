"""What a query must answer, told from the protocol's words: filters as trees, which are printed
for the service and evaluated here, one entity after the other."""

import random
from datetime import datetime, timedelta, timezone
from uuid import UUID

from azure.data.tables import EdmType, EntityProperty

OPERATORS = ["eq", "ne", "lt", "le", "gt", "ge"]


def edm(value):
    """A value's type, and its content as something that compares."""
    if isinstance(value, tuple):
        return {EdmType.INT64: "Int64", EdmType.INT32: "Int32"}[EdmType(value[1])], int(value[0])
    for kind, name in [(bool, "Boolean"), (int, "Int32"), (float, "Double"), (bytes, "Binary"),
                       (datetime, "DateTime"), (UUID, "Guid"), (str, "String")]:
        if isinstance(value, kind):
            content = {"Guid": str, "String": lambda it: it.encode()}.get(name, lambda it: it)
            return name, content(value)
    raise TypeError(repr(value))


def literal(value):
    kind, _ = edm(value)
    if kind == "String":
        return "'" + value.replace("'", "''") + "'"
    if kind == "Boolean":
        return "true" if value else "false"
    if kind == "Int32":
        return str(value)
    if kind == "Int64":
        return f"{value[0]}L"
    if kind == "Double":
        return repr(value) if "." in repr(value) or "e" in repr(value) else f"{value}.0"
    if kind == "DateTime":
        return "datetime'" + value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") + "'"
    if kind == "Guid":
        return f"guid'{value}'"
    return f"X'{value.hex()}'"


class Compare:
    def __init__(self, name, operator, value):
        self.name, self.operator, self.value = name, operator, value

    def __str__(self):
        return f"{self.name} {self.operator} {literal(self.value)}"

    def matches(self, entity):
        # A property that is missing makes every comparison false.
        if self.name not in entity:
            return False
        (kind, found), (literal_kind, wanted) = edm(entity[self.name]), edm(self.value)
        # Numbers of the literal widen to the property's type; other types differ.
        widths = {"Int32": 0, "Int64": 1, "Double": 2}
        widens = kind in widths and literal_kind in widths and widths[literal_kind] <= widths[kind]
        if kind != literal_kind and not widens:
            return self.operator in ("ne", "lt", "le")
        if kind == "Double":
            wanted = float(wanted)
        return {
            "eq": found == wanted, "ne": found != wanted, "lt": found < wanted,
            "le": found <= wanted, "gt": found > wanted, "ge": found >= wanted,
        }[self.operator]


class Both:
    def __init__(self, left, right):
        self.left, self.right = left, right

    def __str__(self):
        return f"({self.left}) and ({self.right})"

    def matches(self, entity):
        return self.left.matches(entity) and self.right.matches(entity)


class Either(Both):
    def __str__(self):
        return f"({self.left}) or ({self.right})"

    def matches(self, entity):
        return self.left.matches(entity) or self.right.matches(entity)


class Not:
    def __init__(self, inner):
        self.inner = inner

    def __str__(self):
        return f"not ({self.inner})"

    def matches(self, entity):
        return not self.inner.matches(entity)


def random_value(rng):
    moment = datetime(2020, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=rng.randrange(4))
    return rng.choice([
        rng.choice(["", "a", "B", "b", "bB", "é", "O'Neil", "a b"]),
        rng.randrange(-2, 3),
        EntityProperty(rng.choice([-2**40, -1, 0, 1, 2, 2**40]), EdmType.INT64),
        rng.choice([-1.5, 0.5, 1.0, 2.0, 1e300]),
        rng.choice([True, False]),
        rng.choice([b"", b"\x00", b"\x01\x02", b"\xff"]),
        UUID(int=rng.randrange(3)),
        moment,
    ])


NAMES = ["A", "B", "C"]


def random_entity(rng, partition, row):
    entity = {"PartitionKey": partition, "RowKey": row}
    for name in NAMES:
        if rng.random() < 0.7:
            entity[name] = random_value(rng)
    return entity


def random_filter(rng, partitions, rows, depth=3):
    kind = rng.random() if depth else 0
    if kind < 0.45:
        name = rng.choice(["PartitionKey", "RowKey"] + NAMES)
        operator = rng.choice(OPERATORS)
        if name == "PartitionKey":
            return Compare(name, operator, rng.choice(partitions))
        if name == "RowKey":
            return Compare(name, operator, rng.choice(rows))
        return Compare(name, operator, random_value(rng))
    inner = lambda: random_filter(rng, partitions, rows, depth - 1)
    if kind < 0.7:
        return Both(inner(), inner())
    if kind < 0.9:
        return Either(inner(), inner())
    return Not(inner())

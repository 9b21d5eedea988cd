"""The Python SDK through every feature, each result compared with what the protocol says."""

import asyncio
import random
import threading
from datetime import datetime, timedelta, timezone
from math import isnan
from uuid import UUID

from azure.core import MatchConditions
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import HttpResponseError
from azure.data.tables import (
    AccountSasPermissions, EdmType, EntityProperty, ResourceTypes, TableAccessPolicy,
    TableAnalyticsLogging, TableClient, TableCorsRule, TableMetrics, TableRetentionPolicy,
    TableSasPermissions, TableServiceClient, TableTransactionError, RequestTooLargeError,
    UpdateMode, generate_account_sas, generate_table_sas,
)
from azure.data.tables.aio import TableServiceClient as AsyncTableServiceClient

import oracle
from harness import Account, main, same, test

REPLACE, MERGE = UpdateMode.REPLACE, UpdateMode.MERGE
UNCHANGED = MatchConditions.IfNotModified


class SdkAccount(Account):
    """The account as the SDK has it, and a table for each test."""

    def __init__(self, port):
        super().__init__(port)
        self.connection = (
            f"DefaultEndpointsProtocol=http;AccountName={self.NAME};AccountKey={self.KEY};"
            f"TableEndpoint={self.url};"
        )
        self.service = TableServiceClient.from_connection_string(self.connection)

    def new_table(self):
        return self.service.create_table(self.new_name())


def code_of(error):
    """The error's code: the SDK does not put it on every error."""
    code = getattr(error, "error_code", None) or error.response.headers.get("x-ms-error-code")
    return getattr(code, "value", code)


def expect(status, code, function, *args, **kwargs):
    """The error that a call must end in: its status and its code."""
    try:
        result = function(*args, **kwargs)
    except HttpResponseError as error:
        found = error.status_code, code_of(error)
        assert found == (status, code), f"expected {(status, code)}, found {found}: {error}"
        return error
    raise AssertionError(f"expected {(status, code)}, found {result!r}")


def keys(entities):
    return [(entity["PartitionKey"], entity["RowKey"]) for entity in entities]


def soon():
    return datetime.now(timezone.utc) + timedelta(hours=1)


# Connecting


@test
def emulator_connection_string(account):
    if account.port != 10002:
        print("port 10002 is in use: UseDevelopmentStorage=true is tried with another port")
        return
    service = TableServiceClient.from_connection_string("UseDevelopmentStorage=true")
    table = service.create_table(account.new_name())
    table.create_entity({"PartitionKey": "p", "RowKey": "r"})
    same(keys(table.list_entities()), [("p", "r")])
    table.delete_table()


@test
def credentials(account):
    credential = AzureNamedKeyCredential(account.NAME, account.KEY)
    service = TableServiceClient(account.url, credential=credential)
    table = service.create_table(account.new_name())
    same(TableClient(account.url, table.table_name, credential=credential).upsert_entity(
        {"PartitionKey": "p", "RowKey": "r"}).get("etag") is not None, True)
    wrong = AzureNamedKeyCredential(account.NAME, "AAAA" + account.KEY[4:])
    denied = TableClient(account.url, table.table_name, credential=wrong)
    expect(403, "AuthenticationFailed", denied.get_entity, "p", "r")
    expect(403, "AuthenticationFailed", denied.create_entity, {"PartitionKey": "a", "RowKey": "b"})
    same(keys(table.list_entities()), [("p", "r")])


# Tables


@test
def tables_come_and_go(account):
    name = account.new_name()
    service = account.service
    same(service.create_table(name).table_name, name)
    expect(409, "TableAlreadyExists", service.create_table, name)
    expect(409, "TableAlreadyExists", service.create_table, name.upper())
    same(service.create_table_if_not_exists(name).table_name, name)
    table = service.get_table_client(name)
    table.create_entity({"PartitionKey": "p", "RowKey": "r"})
    # Names are the same in any case.
    same(keys(service.get_table_client(name.lower()).list_entities()), [("p", "r")])
    same([it.name for it in service.query_tables(f"TableName eq '{name}'")], [name])
    service.delete_table(name)
    same([it.name for it in service.query_tables(f"TableName eq '{name}'")], [])
    service.delete_table(name)  # the SDK takes a 404 as done
    expect(404, "TableNotFound", table.get_entity, "p", "r")
    expect(404, "TableNotFound", table.create_entity, {"PartitionKey": "p", "RowKey": "r"})
    expect(404, "TableNotFound", lambda: list(table.list_entities()))
    # A table of the same name can be created at once, and nothing old is in it.
    service.create_table(name)
    same(list(table.list_entities()), [])
    expect(404, "ResourceNotFound", table.get_entity, "p", "r")


@test
def tables_are_listed_in_pages(account):
    prefix = account.new_name("L")
    names = sorted(f"{prefix}{number:02}" for number in range(23))
    for name in reversed(names):
        account.service.create_table(name)
    wanted = f"TableName ge '{prefix}' and TableName lt '{prefix}z'"
    pages = account.service.query_tables(wanted, results_per_page=5).by_page()
    pages = [[table.name for table in page] for page in pages]
    same([len(page) for page in pages], [5, 5, 5, 5, 3])
    same(sum(pages, []), names)
    assert set(names) <= {table.name for table in account.service.list_tables()}
    listed = [table.name for table in account.service.list_tables(results_per_page=7)]
    same(listed, [table.name for table in account.service.list_tables()])
    by_parameter = account.service.query_tables("TableName eq @name", parameters={"name": names[3]})
    same([table.name for table in by_parameter], [names[3]])
    for name in names:
        account.service.delete_table(name)


@test
def table_names_have_a_form(account):
    for name in ["a-b", "1abc", "ab", "a" * 64, "a b", "ta'ble"]:
        try:
            account.service.create_table(name)
        except (ValueError, HttpResponseError) as error:
            cause = error.__cause__ or error
            status = getattr(cause, "status_code", 400)
            same(status, 400)
        else:
            raise AssertionError(f"{name} was taken")
    account.service.create_table("abc")
    account.service.delete_table("abc")
    longest = account.new_name("N").ljust(63, "x")
    account.service.create_table(longest)
    account.service.delete_table(longest)


# Single entities


@test
def entities_come_and_go(account):
    table = account.new_table()
    entity = {"PartitionKey": "p", "RowKey": "r", "A": 1, "B": "two"}
    created = table.create_entity(entity)
    assert created["etag"].startswith("W/\"datetime'"), created
    found = table.get_entity("p", "r")
    same(dict(found), entity)
    same(found.metadata["etag"], created["etag"])
    age = datetime.now(timezone.utc) - found.metadata["timestamp"]
    assert abs(age) < timedelta(minutes=1), age
    expect(409, "EntityAlreadyExists", table.create_entity, entity)

    merged = table.update_entity({"PartitionKey": "p", "RowKey": "r", "A": 2.5, "C": True}, MERGE)
    same(dict(table.get_entity("p", "r")), {**entity, "A": 2.5, "C": True})
    assert merged["etag"] != created["etag"]
    table.update_entity({"PartitionKey": "p", "RowKey": "r", "D": b"d"}, REPLACE)
    same(dict(table.get_entity("p", "r")), {"PartitionKey": "p", "RowKey": "r", "D": b"d"})
    table.upsert_entity({"PartitionKey": "p", "RowKey": "r", "E": 5}, MERGE)
    same(table.get_entity("p", "r")["D"], b"d")
    table.upsert_entity({"PartitionKey": "p", "RowKey": "r", "F": 6}, REPLACE)
    same(dict(table.get_entity("p", "r")), {"PartitionKey": "p", "RowKey": "r", "F": 6})
    for mode, row in [(MERGE, "m"), (REPLACE, "n")]:
        table.upsert_entity({"PartitionKey": "p", "RowKey": row, "A": 1}, mode)
        same(table.get_entity("p", row)["A"], 1)

    table.delete_entity("p", "r")
    expect(404, "ResourceNotFound", table.get_entity, "p", "r")
    table.delete_entity("p", "r")
    for mode in (MERGE, REPLACE):
        missing = {"PartitionKey": "p", "RowKey": "r"}
        expect(404, "ResourceNotFound", table.update_entity, missing, mode)
    expect(404, "ResourceNotFound", table.update_entity, {"PartitionKey": "p", "RowKey": "r"},
           REPLACE, etag=created["etag"], match_condition=UNCHANGED)
    same(keys(table.list_entities()), [("p", "m"), ("p", "n")])


@test
def etags_guard_changes(account):
    table = account.new_table()
    entity = {"PartitionKey": "p", "RowKey": "r", "A": 1}
    first = table.create_entity(entity)["etag"]
    second = table.update_entity(entity, REPLACE, etag=first, match_condition=UNCHANGED)["etag"]
    assert first != second
    for stale in (first, 'W/"wrong"', "W/\"datetime'2000-01-01T00%3A00%3A00Z'\""):
        for mode in (MERGE, REPLACE):
            expect(412, "UpdateConditionNotSatisfied", table.update_entity, entity, mode,
                   etag=stale, match_condition=UNCHANGED)
        expect(412, "UpdateConditionNotSatisfied", table.delete_entity, "p", "r", etag=stale,
               match_condition=UNCHANGED)
    found = table.get_entity("p", "r")
    same(found.metadata["etag"], second)
    third = table.update_entity(found, MERGE, match_condition=UNCHANGED)["etag"]
    expect(412, "UpdateConditionNotSatisfied", table.delete_entity, found,
           match_condition=UNCHANGED)
    table.delete_entity("p", "r", etag=third, match_condition=UNCHANGED)
    expect(404, "ResourceNotFound", table.get_entity, "p", "r")
    # An entity that is back has another tag.
    table.create_entity(entity)
    expect(412, "UpdateConditionNotSatisfied", table.delete_entity, "p", "r", etag=third,
           match_condition=UNCHANGED)


@test
def one_of_many_wins(account):
    table = account.new_table()
    outcomes = []

    def insert(number):
        try:
            table.create_entity({"PartitionKey": "p", "RowKey": "r", "By": number})
            outcomes.append(number)
        except HttpResponseError as error:
            same(code_of(error), "EntityAlreadyExists")

    def add(times):
        for _ in range(times):
            while True:
                entity = table.get_entity("p", "r")
                entity["Sum"] = entity.get("Sum", 0) + 1
                try:
                    table.update_entity(entity, REPLACE, match_condition=UNCHANGED)
                    break
                except HttpResponseError as error:
                    same(error.status_code, 412)

    for work, arguments in [(insert, range(8)), (add, [10] * 4)]:
        threads = [threading.Thread(target=work, args=(argument,)) for argument in arguments]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    same(len(outcomes), 1)
    found = table.get_entity("p", "r")
    same((found["By"], found["Sum"]), (outcomes[0], 40))


# Values


@test
def every_type_comes_back(account):
    table = account.new_table()
    moment = datetime(2008, 10, 1, 15, 27, 34, 483817, tzinfo=timezone.utc)
    values = {
        "String": "text", "Empty": "", "Unicode": "é 名前 \U0001F600 \" \\ \n\r\t \x01 </a>",
        "LongText": "ä" * 32768, "Looks": "--changeset_x\r\nHTTP/1.1 400 Bad Request",
        "True": True, "False": False, "Zero": 0, "Smallest": -2**31, "Largest": 2**31 - 1,
        "Double": 5.0, "Tiny": 5e-324, "Huge": 1.7976931348623157e308, "Third": 1 / 3,
        "Infinite": float("inf"), "Negative": float("-inf"), "Binary": bytes(range(256)),
        "NoBytes": b"", "LongBytes": b"\xff" * 65536, "Moment": moment,
        "Guid": UUID("c9da6455-213d-42c9-9a79-3e9149a57833"),
        "Int64": EntityProperty(2**63 - 1, EdmType.INT64),
        "Int64Small": EntityProperty(5, EdmType.INT64),
        "Int64Least": EntityProperty(-2**63, EdmType.INT64),
        "Überschrift": "a name with an umlaut",
    }
    entity = {"PartitionKey": "p", "RowKey": "r", **values, "Null": None}
    entity["NotANumber"] = float("nan")
    table.create_entity(entity)
    for found in (table.get_entity("p", "r"), *table.list_entities()):
        assert isnan(found.pop("NotANumber"))
        same(found, {"PartitionKey": "p", "RowKey": "r", **values})
        for name, value in values.items():
            same((name, type(found[name]).__mro__[-2]), (name, type(value).__mro__[-2]))


@test
def annotated_forms_are_taken(account):
    table = account.new_table()
    sent = {
        "A": (5, EdmType.INT32), "B": (True, EdmType.BOOLEAN), "C": ("1.5", EdmType.DOUBLE),
        "D": ("2008-10-01T15:27:34.4838174Z", EdmType.DATETIME), "E": (7, EdmType.INT64),
        "F": ("c9da6455213d42c99a793e9149a57833", EdmType.GUID), "G": ("g", EdmType.STRING),
        "H": (b"h", EdmType.BINARY), "I": (None, EdmType.INT64),
        "J": ("1601-01-01T00:00:00Z", EdmType.DATETIME),
    }
    table.create_entity({"PartitionKey": "p", "RowKey": "r", **sent})
    found = table.get_entity("p", "r")
    same((found["A"], found["B"], found["C"], found["E"].value), (5, True, 1.5, 7))
    same(found["D"].tables_service_value, "2008-10-01T15:27:34.4838174Z")
    same((found["F"], found["G"], found["H"]),
         (UUID("c9da6455-213d-42c9-9a79-3e9149a57833"), "g", b"h"))
    assert "I" not in found
    same(found["J"].tables_service_value, "1601-01-01T00:00:00Z")
    # A merge changes types, and leaves what it does not have or has as null.
    table.update_entity({"PartitionKey": "p", "RowKey": "r", "A": "five", "B": None}, MERGE)
    found = table.get_entity("p", "r")
    same((found["A"], found["B"]), ("five", True))


@test
def wrong_values_are_refused(account):
    table = account.new_table()

    def refused(status, code, **properties):
        entity = {"PartitionKey": "p", "RowKey": "r", **properties}
        expect(status, code, table.create_entity, entity)

    refused(400, "InvalidInput", A=("yesterday", EdmType.DATETIME))
    refused(400, "OutOfRangeInput", A=("1600-12-31T00:00:00Z", EdmType.DATETIME))
    refused(400, "InvalidInput", A=("not a guid", EdmType.GUID))
    refused(400, "InvalidInput", A=("x", EdmType.DOUBLE))
    refused(400, "PropertyValueTooLarge", A="a" * 32769)
    refused(400, "PropertyValueTooLarge", A=b"a" * 65537)
    refused(400, "TooManyProperties", **{f"P{number}": 1 for number in range(253)})
    refused(400, "PropertyNameInvalid", **{"a-b": 1})
    refused(400, "PropertyNameInvalid", **{"1a": 1})
    refused(400, "PropertyNameTooLong", **{"a" * 256: 1})
    refused(400, "EntityTooLarge", **{f"B{number}": b"a" * 65536 for number in range(16)})
    largest = {f"P{number}": 1 for number in range(251)}
    entity = {"PartitionKey": "p", "RowKey": "r", **largest}
    table.create_entity({**entity, "a" * 255: 1})
    expect(400, "TooManyProperties", table.update_entity,
           {"PartitionKey": "p", "RowKey": "r", "One": 1}, MERGE)
    same(len(table.get_entity("p", "r")), 2 + 252)


@test
def keys_of_any_text(account):
    table = account.new_table()
    rows = ["", " ", "a'b", "x',RowKey='y", "50%", "%2F", "a+b", "a&b=c", "é名\U0001F600", "(", ")",
            "a,b", "a\"b", "<&>", "a|b", "$", "~", "!*'();:@", "ä" * 512]
    for partition in rows:
        table.create_entity({"PartitionKey": partition, "RowKey": "r", "Key": partition})
        same(table.get_entity(partition, "r")["Key"], partition)
        quoted = partition.replace("'", "''")
        same(keys(table.query_entities(f"PartitionKey eq '{quoted}'")), [(partition, "r")])
        table.update_entity({"PartitionKey": partition, "RowKey": "r", "Key": 1}, MERGE)
    for row in rows:
        entity = {"PartitionKey": "p", "RowKey": row, "Key": row}
        table.upsert_entity(entity)
        same(dict(table.get_entity("p", row)), entity)
        found = list(table.query_entities("PartitionKey eq 'p' and RowKey eq @row",
                                          parameters={"row": row}))
        same(found, [entity])
        table.delete_entity(entity)
        expect(404, "ResourceNotFound", table.get_entity, "p", row)
    same(sorted(keys(table.list_entities())), sorted((row, "r") for row in rows))


@test
def wrong_keys_are_refused(account):
    table = account.new_table()
    for character in "/\\#?\n\x7f\x85":
        for pair in (("a" + character, "r"), ("p", "a" + character)):
            entity = dict(zip(("PartitionKey", "RowKey"), pair))
            expect(400, "OutOfRangeInput", table.create_entity, entity)
    for pair in (("a" * 513, "r"), ("p", "a" * 513)):
        entity = dict(zip(("PartitionKey", "RowKey"), pair))
        error = None
        try:
            table.create_entity(entity)
        except HttpResponseError as raised:
            error = raised
        assert error and error.status_code == 400, error
        assert code_of(error) in ("PropertyValueTooLarge", "KeyValueTooLarge"), error
    same(list(table.list_entities()), [])


# Queries


@test
def filters_say_what_the_oracle_says(account):
    rng = random.Random(20)
    table = account.new_table()
    partitions, rows = ["", "B", "a", "aé", "b"], ["", "0", "B", "a", "bB", "é", "z"]
    entities = {}
    for partition in partitions:
        operations = []
        for row in rows:
            entity = oracle.random_entity(rng, partition, row)
            entities[partition, row] = entity
            operations.append(("create", entity))
        table.submit_transaction(operations)
    order = sorted(entities, key=lambda key: tuple(part.encode() for part in key))
    same(keys(table.list_entities()), order)
    for number in range(250):
        condition = oracle.random_filter(rng, partitions, rows)
        expected = [key for key in order if condition.matches(entities[key])]
        page = rng.choice([None, 1, 3])
        found = keys(table.query_entities(str(condition), results_per_page=page))
        assert found == expected, f"{condition}\nexpected {expected}\nfound {found}"


@test
def filters_in_every_form(account):
    table = account.new_table()
    moment = datetime(2020, 1, 2, 3, 4, 5, 678900, tzinfo=timezone.utc)
    table.create_entity({
        "PartitionKey": "p", "RowKey": "r", "I": 5, "L": EntityProperty(2**40, EdmType.INT64),
        "D": 1e10, "S": "it's", "B": b"\x0a\xff", "T": True, "W": moment, "G": UUID(int=5),
    })
    for text in [
        "I eq 5", "5 eq I", "I lt 6 and I gt 4", "L eq 1099511627776L", "L eq 1099511627776",
        "D eq 1e10", "D eq 1E+10", "D eq 10000000000.0", "D eq 10000000000", "S eq 'it''s'",
        "B eq X'0aff'", "B eq binary'0AFF'", "T", "T eq true", "T eq True", "not (T eq false)",
        "W eq datetime'2020-01-02T03:04:05.6789Z'", "W lt datetime'2020-01-02T03:04:05.6789001Z'",
        "G eq guid'00000000-0000-0000-0000-000000000005'", "(I eq 5)and(T eq true)", "true",
        "I eq 9 or I eq 5 and T eq true", "not (Missing eq 1)", "Timestamp gt datetime'2020-01-01'",
        "PartitionKey ge 'p' and PartitionKey lt 'q'", "", "I ne 6", "not T or T",
    ]:
        same((text, keys(table.query_entities(text))), (text, [("p", "r")]))
    for text in ["I eq 5L and I lt 2.5e0 and I gt 9", "Missing ne 1", "false", "S eq 'IT''S'", "not T"]:
        same((text, keys(table.query_entities(text))), (text, []))
    for text in ["aaa bbb ccc", "I eq", "I eq null", "I EQ 5", "(I eq 5", "I eq 5)", "S eq 'open",
                 "starts(S, 'i')", "I eq 5 and", "W eq datetime'never'"]:
        expect(400, "InvalidInput", lambda text=text: list(table.query_entities(text)))
    for text in ["I eq L", "5 eq 5", "startswith(S, 'i')"]:
        expect(501, "NotImplemented", lambda text=text: list(table.query_entities(text)))
    parameters = {"i": 5, "l": 2**40, "d": 1e10, "s": "it's", "b": b"\x0a\xff", "t": True,
                  "w": moment, "g": UUID(int=5)}
    for name in parameters:
        text = f"{name.upper()} eq @{name}"
        same((text, keys(table.query_entities(text, parameters=parameters))), (text, [("p", "r")]))


@test
def selected_properties(account):
    table = account.new_table()
    table.create_entity({"PartitionKey": "p", "RowKey": "1", "A": 1, "B": b"b"})
    table.create_entity({"PartitionKey": "p", "RowKey": "2", "B": b"c"})
    found = [dict(entity) for entity in table.list_entities(select=["A", "RowKey"])]
    same(found, [{"RowKey": "1", "A": 1}, {"RowKey": "2", "A": None}])
    found = list(table.query_entities("A eq 1", select="B"))
    same([dict(entity) for entity in found], [{"B": b"b"}])
    assert found[0].metadata["etag"].startswith("W/")
    same(dict(table.get_entity("p", "1", select=["A", "C"])), {"A": 1, "C": None})
    everything = dict(table.get_entity("p", "1", select="*"))
    same(everything, {"PartitionKey": "p", "RowKey": "1", "A": 1, "B": b"b"})
    with_time = table.get_entity("p", "1", select=["Timestamp"])
    assert with_time.metadata["timestamp"] is not None


@test
def pages_and_their_tokens(account):
    table = account.new_table()
    expected = []
    for partition in ["", "a", "é"]:
        rows = [""] + [f"{number:03}" for number in range(39)]
        table.submit_transaction(
            [("upsert", {"PartitionKey": partition, "RowKey": row}) for row in rows])
        expected += [(partition, row) for row in rows]
    for size in (1, 7, 40, 120, 1000):
        pages = [keys(page) for page in table.list_entities(results_per_page=size).by_page()]
        same(sum(pages, []), expected)
        same({len(page) for page in pages[:-1]} | {size}, {size})
        assert len(pages[-1]) > 0, "the last page has no token before it"
    # A token is a position: it can be kept, and what it names may be gone.
    pages = table.list_entities(results_per_page=10).by_page()
    first = keys(next(pages))
    token = pages.continuation_token
    table.delete_entity(*expected[10])
    rest = table.list_entities(results_per_page=10).by_page(continuation_token=token)
    same(first + [key for page in rest for key in keys(page)], expected[:10] + expected[11:])
    # With a filter a page has as many as asked for, and the last page no token.
    pages = table.query_entities("RowKey ge '03'", results_per_page=9).by_page()
    same([len(page) for page in map(list, pages)], [9, 9, 9])


@test
def more_than_a_page(account):
    table = account.new_table()
    for hundred in range(12):
        table.submit_transaction([
            ("create", {"PartitionKey": f"{hundred:02}", "RowKey": f"{row:02}", "N": row})
            for row in range(100)])
    pages = [len(list(page)) for page in table.list_entities().by_page()]
    same(sum(pages), 1200)
    assert max(pages) <= 1000, pages
    same(len(list(table.query_entities("N eq 17"))), 12)
    expect(400, "InvalidInput", lambda: list(table.list_entities(results_per_page=1001)))


# Transactions


@test
def transactions(account):
    table = account.new_table()
    row = lambda name, **properties: {"PartitionKey": "p", "RowKey": name, **properties}
    for name in "mrdux":
        table.create_entity(row(name, A=1, B=1))
    results = table.submit_transaction([
        ("create", row("new", A="--changeset_\r\n--batch_ HTTP/1.1 400")),
        ("update", row("m", A=2), {"mode": MERGE}),
        ("update", row("r", A=2), {"mode": REPLACE}),
        ("delete", row("d")),
        ("upsert", row("u", A=3), {"mode": MERGE}),
        ("upsert", row("é'&", A=4), {"mode": REPLACE}),
    ])
    same(len(results), 6)
    etags = [result.get("etag") for result in results]
    same([etag is not None for etag in etags], [True, True, True, False, True, True])
    found = {entity["RowKey"]: dict(entity) for entity in table.list_entities()}
    expected = [
        row("new", A="--changeset_\r\n--batch_ HTTP/1.1 400"), row("m", A=2, B=1), row("r", A=2),
        row("u", A=3, B=1), row("x", A=1, B=1), row("é'&", A=4),
    ]
    same(found, {entity["RowKey"]: entity for entity in expected})
    same(table.get_entity("p", "m").metadata["etag"], etags[1])
    # Tags guard operations in it.
    table.submit_transaction([
        ("update", row("m", A=5), {"etag": etags[1], "match_condition": UNCHANGED}),
        ("delete", row("r"), {"etag": etags[2], "match_condition": UNCHANGED}),
    ])
    # A hundred operations are taken.
    table.submit_transaction([("upsert", row(f"{number:03}")) for number in range(100)])
    same(len(list(table.list_entities())), 105)
    same(table.submit_transaction([]), [])


@test
def failed_transactions_change_nothing(account):
    table = account.new_table()
    row = lambda name, **properties: {"PartitionKey": "p", "RowKey": name, **properties}
    etag = table.create_entity(row("there", A=1))["etag"]
    table.update_entity(row("there", A=2))
    new = ("create", row("new"))

    def fails(status, code, index, operations, client=table):
        error = expect(status, code, client.submit_transaction, operations)
        assert isinstance(error, TableTransactionError), type(error)
        same(error.index, index)
        assert error.message.startswith(f"{index}:"), error.message
        return error

    error = fails(409, "EntityAlreadyExists", 1, [new, ("create", row("there"))])
    assert error.message.startswith("1:The specified entity already exists."), error.message
    fails(404, "ResourceNotFound", 2, [new, ("upsert", row("a")), ("update", row("missing"))])
    fails(404, "ResourceNotFound", 1, [new, ("delete", row("missing"))])
    fails(412, "UpdateConditionNotSatisfied", 1,
          [new, ("update", row("there"), {"etag": etag, "match_condition": UNCHANGED})])
    error = fails(400, "InvalidDuplicateRow", 1, [new, ("upsert", row("new"))])
    assert "An entity can appear only once in a batch request." in error.message, error.message
    error = fails(400, "InvalidInput", 99, [("upsert", row(str(n))) for n in range(101)])
    assert "exceeds the maximum 100 changes per change set" in error.message
    fails(400, "PropertyValueTooLarge", 1, [new, ("create", row("big", A="a" * 32769))])
    fails(400, "OutOfRangeInput", 1, [new, ("create", row("a/b"))])
    fails(400, "PropertyNameInvalid", 0, [("create", row("n", **{"a-b": 1})), new])
    missing = account.service.get_table_client(account.new_name())
    fails(404, "TableNotFound", 0, [new], missing)
    large = [("create", row(str(n), A="a" * 32768, B="b" * 32768)) for n in range(70)]
    try:
        table.submit_transaction(large)
    except RequestTooLargeError as error:
        same(error.status_code, 413)
    else:
        raise AssertionError("4 MiB were taken")
    same([dict(entity) for entity in table.list_entities()], [row("there", A=2)])


@test
def readers_see_whole_transactions(account):
    table = account.new_table()
    row = lambda name, number: {"PartitionKey": "p", "RowKey": name, "N": number}
    table.submit_transaction([("create", row(name, 0)) for name in "abcde"])
    torn = []
    done = threading.Event()

    def read():
        while not done.is_set():
            seen = {entity["N"] for entity in table.query_entities("PartitionKey eq 'p'")}
            if len(seen) != 1:
                torn.append(seen)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(1, 40):
        table.submit_transaction([("upsert", row(name, number)) for name in "abcde"])
    done.set()
    for reader in readers:
        reader.join()
    same(torn, [])


# Authorization


@test
def account_signatures(account):
    table = account.new_table()
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "A": 1})

    def service(types, permission, **more):
        token = generate_account_sas(
            AzureNamedKeyCredential(account.NAME, account.KEY), types, permission, soon(), **more)
        return TableServiceClient(account.url, credential=AzureSasCredential(token))

    everything = service(
        ResourceTypes(service=True, container=True, object=True),
        AccountSasPermissions(read=True, write=True, delete=True, list=True, add=True, create=True,
                              update=True, process=True))
    name = account.new_name()
    everything.create_table(name)
    everything.get_table_client(name).create_entity({"PartitionKey": "p", "RowKey": "r"})
    assert name in [it.name for it in everything.list_tables()]
    everything.delete_table(name)

    reader = service(ResourceTypes(object=True), AccountSasPermissions(read=True))
    client = reader.get_table_client(table.table_name)
    same(client.get_entity("p", "r")["A"], 1)
    same(len(list(client.list_entities())), 1)
    denied = "AuthorizationPermissionMismatch"
    for work in (lambda: client.create_entity({"PartitionKey": "p", "RowKey": "s"}),
                 lambda: client.upsert_entity({"PartitionKey": "p", "RowKey": "r"}),
                 lambda: client.update_entity({"PartitionKey": "p", "RowKey": "r"}),
                 lambda: client.delete_entity("p", "r")):
        expect(403, denied, work)
    expect(403, "AuthorizationResourceTypeMismatch", lambda: list(reader.list_tables()))

    adder = service(ResourceTypes(object=True), AccountSasPermissions(add=True, update=True))
    client = adder.get_table_client(table.table_name)
    client.upsert_entity({"PartitionKey": "p", "RowKey": "t"})
    expect(403, denied, client.get_entity, "p", "t")
    expect(403, denied, client.delete_entity, "p", "t")

    late = generate_account_sas(
        AzureNamedKeyCredential(account.NAME, account.KEY), ResourceTypes(object=True),
        AccountSasPermissions(read=True), datetime.now(timezone.utc) - timedelta(hours=1))
    client = TableClient(account.url, table.table_name, credential=AzureSasCredential(late))
    expect(403, "AuthenticationFailed", client.get_entity, "p", "r")
    forged = late.replace("sig=", "sig=AA")
    client = TableClient(account.url, table.table_name, credential=AzureSasCredential(forged))
    expect(403, "AuthenticationFailed", client.get_entity, "p", "r")


@test
def table_signatures(account):
    table = account.new_table()
    rows = [(partition, row) for partition in "abc" for row in "123"]
    for partition, row in rows:
        table.create_entity({"PartitionKey": partition, "RowKey": row})

    def client(permission, **more):
        more.setdefault("expiry", soon())
        token = generate_table_sas(
            AzureNamedKeyCredential(account.NAME, account.KEY), table.table_name,
            permission=permission, **more)
        return TableClient(account.url, table.table_name, credential=AzureSasCredential(token))

    reader = client(TableSasPermissions(read=True))
    same(keys(reader.list_entities()), rows)
    expect(403, "AuthorizationPermissionMismatch", reader.delete_entity, "a", "1")
    expect(403, "AuthorizationPermissionMismatch", reader.submit_transaction,
           [("upsert", {"PartitionKey": "a", "RowKey": "1"})])
    # Bounds are inclusive, and cut the answers to queries.
    part = client(TableSasPermissions(read=True, add=True, update=True, delete=True),
                  start_pk="a", start_rk="2", end_pk="b", end_rk="2")
    same(keys(part.list_entities()), rows[1:5])
    same(keys(part.query_entities("PartitionKey eq 'b'")), rows[3:5])
    same(part.get_entity("b", "2")["RowKey"], "2")
    for partition, row in [("a", "1"), ("b", "3"), ("c", "1")]:
        try:
            part.get_entity(partition, row)
        except HttpResponseError as error:
            assert error.status_code in (403, 404), error
        else:
            raise AssertionError(f"{partition} {row} is out of bounds")
        expect(403, "AuthorizationFailure", part.upsert_entity,
               {"PartitionKey": partition, "RowKey": row})
    part.upsert_entity({"PartitionKey": "b", "RowKey": "1", "A": 1})
    part.submit_transaction([("upsert", {"PartitionKey": "b", "RowKey": "0"})])
    other = account.new_table()
    token = generate_table_sas(AzureNamedKeyCredential(account.NAME, account.KEY),
                               other.table_name, permission="raud", expiry=soon())
    wrong = TableClient(account.url, table.table_name, credential=AzureSasCredential(token))
    try:
        list(wrong.list_entities())
    except HttpResponseError as error:
        same(error.status_code, 403)
    else:
        raise AssertionError("another table's signature was taken")


@test
def access_policies(account):
    table = account.new_table()
    same(table.get_table_access_policy(), {})
    begin = datetime(2020, 1, 1, tzinfo=timezone.utc)
    policies = {
        "full": TableAccessPolicy(permission="raud", expiry=soon(), start=begin),
        "partial": TableAccessPolicy(permission="r"), "none": None,
    }
    table.set_table_access_policy(policies)
    found = table.get_table_access_policy()
    same(set(found), {"full", "partial", "none"})
    same((found["full"].permission, found["full"].start), ("raud", begin))
    same(found["partial"].permission, "r")

    credential = AzureNamedKeyCredential(account.NAME, account.KEY)
    token = generate_table_sas(credential, table.table_name, policy_id="full")
    holder = TableClient(account.url, table.table_name, credential=AzureSasCredential(token))
    holder.create_entity({"PartitionKey": "p", "RowKey": "r"})
    same(keys(holder.list_entities()), [("p", "r")])
    table.set_table_access_policy({"full": TableAccessPolicy(permission="r", expiry=soon())})
    expect(403, "AuthorizationPermissionMismatch", holder.delete_entity, "p", "r")
    table.set_table_access_policy({})
    expect(403, "AuthenticationFailed", lambda: list(holder.list_entities()))
    same(table.get_table_access_policy(), {})
    try:
        table.set_table_access_policy({str(number): TableAccessPolicy() for number in range(6)})
    except (ValueError, HttpResponseError):
        pass
    else:
        raise AssertionError("six policies were taken")
    missing = account.service.get_table_client(account.new_name())
    expect(404, "TableNotFound", missing.get_table_access_policy)


@test
def service_properties_and_statistics(account):
    service = account.service
    before = service.get_service_properties()
    logging = TableAnalyticsLogging(read=True, write=True, delete=True,
                                    retention_policy=TableRetentionPolicy(enabled=True, days=5))
    hour = TableMetrics(enabled=True, include_apis=True,
                        retention_policy=TableRetentionPolicy(enabled=True, days=7))
    minute = TableMetrics(enabled=False)
    rule = TableCorsRule(["www.xyz.com", "www.ab.com"], ["GET", "PUT"], max_age_in_seconds=500,
                         exposed_headers=["x-ms-meta-*"], allowed_headers=["x-ms-*"])
    service.set_service_properties(analytics_logging=logging, hour_metrics=hour,
                                   minute_metrics=minute, cors=[rule])
    found = service.get_service_properties()
    same((found["analytics_logging"].read, found["analytics_logging"].retention_policy.days),
         (True, 5))
    same((found["hour_metrics"].include_apis, found["hour_metrics"].retention_policy.days),
         (True, 7))
    same(found["minute_metrics"].enabled, False)
    same((found["cors"][0].allowed_origins, found["cors"][0].max_age_in_seconds),
         (["www.xyz.com", "www.ab.com"], 500))
    # What is not mentioned stays.
    service.set_service_properties(cors=[])
    found = service.get_service_properties()
    same((found["cors"] or [], found["analytics_logging"].read), ([], True))
    for wrong in ({"cors": [rule] * 6},
                  {"hour_metrics": TableMetrics(enabled=True, include_apis=True,
                   retention_policy=TableRetentionPolicy(enabled=True, days=366))}):
        try:
            service.set_service_properties(**wrong)
        except HttpResponseError as error:
            same(error.status_code, 400)
        else:
            raise AssertionError(f"{wrong} was taken")
    service.set_service_properties(
        analytics_logging=before["analytics_logging"], hour_metrics=before["hour_metrics"],
        minute_metrics=before["minute_metrics"], cors=before["cors"])
    statistics = service.get_service_stats()["geo_replication"]
    same(statistics["status"], "live")
    assert abs(datetime.now(timezone.utc) - statistics["last_sync_time"]) < timedelta(minutes=1)


# Asynchronous


@test
def asynchronous_client(account):
    async def work():
        async with AsyncTableServiceClient.from_connection_string(account.connection) as service:
            table = await service.create_table(account.new_name())
            rows = [{"PartitionKey": "p", "RowKey": f"{n:02}", "N": n} for n in range(30)]
            await asyncio.gather(*(table.create_entity(row) for row in rows))
            found = [dict(entity) async for entity in table.list_entities(results_per_page=4)]
            same(found, rows)
            await table.submit_transaction([("delete", row) for row in rows])
            same([entity async for entity in table.list_entities()], [])
            await table.delete_table()

    asyncio.run(work())


if __name__ == "__main__":
    main("python", SdkAccount)

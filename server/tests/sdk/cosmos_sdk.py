"""`azure-cosmosdb-table`, the Python SDK until 2020, through every feature."""

import logging
from datetime import datetime
from math import isnan

from azure.common import AzureException
from azure.cosmosdb.table import (
    EdmType, EntityProperty, TableBatch, TablePayloadFormat, TablePermissions, TableService,
)
from azure.cosmosdb.table.common.models import (
    AccessPolicy, AccountPermissions, CorsRule, Logging, Metrics, ResourceTypes, RetentionPolicy,
)
from azure.cosmosdb.table.common.retry import no_retry

from harness import Account, main, same, test

# It logs every error.
logging.disable(logging.CRITICAL)

EXPIRY = datetime(2099, 1, 1)


class CosmosAccount(Account):
    """The account as the SDK has it, and a table for each test."""

    def __init__(self, port):
        super().__init__(port)
        self.service = self.connect(f"AccountKey={self.KEY}")

    def connect(self, credential):
        endpoint = (
            f"AccountName={self.NAME};TableEndpoint={self.url};"
            f"TableSecondaryEndpoint={self.url}-secondary;"
        )
        service = TableService(connection_string=f"{endpoint}{credential}")
        service.protocol = "http"
        # It repeats failed transactions, which are answered with 202, for a minute.
        service.retry = no_retry
        return service

    def new_table(self):
        name = self.new_name()
        same(self.service.create_table(name, fail_on_exist=True), True)
        return name


def expect(status, code, function, *args, **kwargs):
    """The error that a call must end in: its status and its code, where the SDK puts it."""
    try:
        result = function(*args, **kwargs)
    except AzureException as error:
        found = error.status_code, getattr(error, "code", None) or error.error_code
        assert found == (status, code), f"expected {(status, code)}, found {found}: {error}"
        return error
    raise AssertionError(f"expected {(status, code)}, found {result!r}")


def entity(row, **properties):
    return {"PartitionKey": "p", "RowKey": row, **properties}


def own(found):
    """An entity's properties, without what the service adds."""
    properties = {name: getattr(it, "value", it) for name, it in found.items()}
    return {name: it for name, it in properties.items() if name not in ("etag", "Timestamp")}


@test
def tables_come_and_go(account):
    service, name = account.service, account.new_name()
    same([service.create_table(name), service.create_table(name)], [True, False])
    expect(409, "TableAlreadyExists", service.create_table, name, fail_on_exist=True)
    same(service.exists(name), True)
    same([service.delete_table(name), service.delete_table(name)], [True, False])
    expect(404, "ResourceNotFound", service.delete_table, name, fail_not_exist=True)
    same(service.exists(name), False)
    expect(404, "TableNotFound", lambda: list(service.query_entities(name)))
    expect(400, "InvalidResourceName", service.create_table, "a-b")


@test
def tables_are_listed_in_pages(account):
    service, prefix = account.service, account.new_name()
    names = [f"{prefix}{number}" for number in range(7)]
    for name in names:
        service.create_table(name)
    found, marker = [], None
    while True:
        page = service.list_tables(num_results=3, marker=marker)
        found += [table.name for table in page]
        marker = page.next_marker
        if not marker:
            break
    same([name for name in found if name.startswith(prefix)], names)


@test
def entities_come_and_go(account):
    service, table = account.service, account.new_table()
    tag = service.insert_entity(table, entity("r", A=1))
    expect(409, "EntityAlreadyExists", service.insert_entity, table, entity("r"))
    same(service.get_entity(table, "p", "r").etag, tag)
    service.update_entity(table, entity("r", B=2), if_match=tag)
    for change in (service.update_entity, service.merge_entity):
        expect(412, "UpdateConditionNotSatisfied", change, table, entity("r"), if_match=tag)
    expect(412, "UpdateConditionNotSatisfied", service.delete_entity, table, "p", "r", if_match=tag)
    service.merge_entity(table, entity("r", C="three"))
    service.insert_or_merge_entity(table, entity("r", D=4))
    same(own(service.get_entity(table, "p", "r")), entity("r", B=2, C="three", D=4))
    service.insert_or_replace_entity(table, entity("r", E=5))
    same(own(service.get_entity(table, "p", "r")), entity("r", E=5))
    service.delete_entity(table, "p", "r")
    for gone in (service.get_entity, service.delete_entity):
        expect(404, "ResourceNotFound", gone, table, "p", "r")


@test
def every_type_comes_back(account):
    service, table = account.service, account.new_table()
    values = {
        "text": "é 名前 \U0001F600 \" \\ \r\n \1", "empty": "", "yes": True, "no": False,
        "big": 2**63 - 1, "real": 0.1, "five": 5.0, "infinite": float("-inf"),
    }
    given = entity("r", **values)
    given.update(
        nothing=None, nan=float("nan"), moment=datetime(2008, 10, 1, 15, 27, 34),
        small=EntityProperty(EdmType.INT32, -5), bytes=EntityProperty(EdmType.BINARY, b"\0\xff"),
        guid=EntityProperty(EdmType.GUID, "c9da6455-213d-42c9-9a79-3e9149a57833"),
    )
    service.insert_entity(table, given)
    for accept in (TablePayloadFormat.JSON_MINIMAL_METADATA, TablePayloadFormat.JSON_FULL_METADATA):
        found = own(service.get_entity(table, "p", "r", accept=accept))
        assert isnan(found.pop("nan"))
        same(found.pop("moment").replace(tzinfo=None), given["moment"])
        for name in ("small", "bytes", "guid"):
            same(found.pop(name), given[name].value)
        same(found, entity("r", **values))
    bare = service.get_entity(table, "p", "r", accept=TablePayloadFormat.JSON_NO_METADATA)
    same([bare["big"], bare["bytes"], bare["five"]], [str(2**63 - 1), "AP8=", 5.0])
    selected = service.get_entity(table, "p", "r", select="real,none")
    same(own(selected), {"real": 0.1, "none": None})


@test
def keys_of_any_text(account):
    service, table = account.service, account.new_table()
    for key in [" ", "a b", "it's", "é名\U0001F600", "a%20b", "100%", "a+b", "a&b", "x',RowKey='y"]:
        keys = {"PartitionKey": key, "RowKey": key}
        service.insert_entity(table, keys)
        service.merge_entity(table, {**keys, "A": 1})
        same(own(service.get_entity(table, key, key)), {**keys, "A": 1})
        service.delete_entity(table, key, key)
    same(list(service.query_entities(table)), [])


@test
def queries(account):
    service, table = account.service, account.new_table()
    for number in range(25):
        service.insert_entity(table, entity(f"{number:02}", N=number))
    rows = lambda **query: [it.RowKey for it in service.query_entities(table, **query)]
    same(rows(filter="N gt 22 or N eq 3L"), ["03", "23", "24"])
    same(rows(), [f"{number:02}" for number in range(25)])
    first = service.query_entities(table, num_results=10)
    same([it.RowKey for it in first], [f"{number:02}" for number in range(10)])
    same(rows(num_results=10, marker=first.next_marker), [f"{number:02}" for number in range(10, 20)])
    expect(400, "InvalidInput", lambda: rows(filter="aaa bbb ccc"))


@test
def transactions(account):
    service, table = account.service, account.new_table()
    text = "é\n--changesetresponse_ HTTP/1.1 400"
    batch = TableBatch()
    for number in range(4):
        batch.insert_entity(entity(f"{number}", A=text))
    tag = service.commit_batch(table, batch)[0]
    with service.batch(table) as batch:
        batch.update_entity(entity("0", B=1), if_match=tag)
        batch.merge_entity(entity("1", B=1))
        batch.delete_entity("p", "2")
        batch.insert_or_replace_entity(entity("3", B=1))
        batch.insert_or_merge_entity(entity("é 'k", B=1))
    wanted = [
        entity("0", B=1), entity("1", A=text, B=1), entity("3", B=1), entity("é 'k", B=1),
    ]
    same([own(it) for it in service.query_entities(table)], wanted)
    for status, code, change in [
        (409, "EntityAlreadyExists", lambda batch: batch.insert_entity(entity("1"))),
        (404, "ResourceNotFound", lambda batch: batch.delete_entity("p", "none")),
        (412, "UpdateConditionNotSatisfied",
            lambda batch: batch.update_entity(entity("1"), if_match=tag)),
    ]:
        batch = TableBatch()
        batch.insert_entity(entity("new"))
        change(batch)
        same(str(expect(status, code, service.commit_batch, table, batch))[:2], "1:")
    same([own(it) for it in service.query_entities(table)], wanted)


@test
def signatures_and_policies(account):
    service, table = account.service, account.new_table()
    service.insert_entity(table, entity("r"))
    same(service.get_table_acl(table), {})
    reading = AccessPolicy(permission=TablePermissions.QUERY, expiry=EXPIRY)
    service.set_table_acl(table, {"one": reading, "empty": AccessPolicy()})
    permissions = {id: policy.permission for id, policy in service.get_table_acl(table).items()}
    same(permissions, {"one": "r", "empty": None})

    def holder(**terms):
        token = service.generate_table_shared_access_signature(table, **terms)
        return account.connect(f"SharedAccessSignature={token}")

    whole = holder(permission=TablePermissions(True, True, True, True), expiry=EXPIRY)
    whole.insert_or_replace_entity(table, entity("s"))
    whole.delete_entity(table, "p", "s")
    reader = holder(id="one")
    part = {"start_pk": "p", "start_rk": "s", "end_pk": "p", "end_rk": "z"}
    part = holder(permission=TablePermissions.QUERY, expiry=EXPIRY, **part)
    for found, rows in [(reader, ["r"]), (part, [])]:
        same([it.RowKey for it in found.query_entities(table)], rows)
        expect(403, "AuthorizationPermissionMismatch", found.delete_entity, table, "p", "r")
    service.set_table_acl(table)
    expect(403, "AuthenticationFailed", lambda: list(reader.query_entities(table)))

    def of_account(permissions):
        types = ResourceTypes.CONTAINER + ResourceTypes.OBJECT
        token = service.generate_account_shared_access_signature(types, permissions, EXPIRY)
        return account.connect(f"SharedAccessSignature={token}")

    maker = of_account(AccountPermissions(create=True, delete=True))
    name = account.new_name()
    same([maker.create_table(name), maker.delete_table(name)], [True, True])
    lister = of_account(AccountPermissions.LIST)
    expect(403, "AuthorizationPermissionMismatch", lister.create_table, name)


@test
def service_properties_and_statistics(account):
    service = account.service
    rule = CorsRule(["http://a"], ["GET", "PUT"], 5, ["x-ms-*"], ["x-a"])
    metrics = Metrics(True, True, RetentionPolicy(True, 5))
    service.set_table_service_properties(
        logging=Logging(True, False, True, RetentionPolicy(True, 5)), hour_metrics=metrics,
        minute_metrics=Metrics(False), cors=[rule],
    )
    found = service.get_table_service_properties()
    same((found.logging.delete, found.logging.read, found.logging.write), (True, False, True))
    same((found.hour_metrics.include_apis, found.minute_metrics.enabled), (True, False))
    same([vars(it) for it in found.cors], [vars(rule)])
    service.set_table_service_properties(
        logging=Logging(False, False, False, RetentionPolicy(False)), hour_metrics=Metrics(False),
        cors=[],
    )
    same(service.get_table_service_stats().geo_replication.status, "live")


if __name__ == "__main__":
    main("cosmosdb-table", CosmosAccount)

"""The Python SDKs that spoke Atom, `azure` 0.8 and 0.11, through every feature."""

import re
import socket
from datetime import datetime

import azure
from azure import (
    WindowsAzureBatchOperationError, WindowsAzureConflictError, WindowsAzureError,
    WindowsAzureMissingResourceError,
)
from azure.storage import AccessPolicy, EntityProperty, TableService

from harness import Account, main, same, test

HOST = ".table.localhost"


def resolve(host, *args, resolved=socket.getaddrinfo, **kwargs):
    """Names of accounts lead to the server: with an emulator's address these SDKs send no batch."""
    return resolved("127.0.0.1" if host.endswith(HOST) else host, *args, **kwargs)


socket.getaddrinfo = resolve


class AtomAccount(Account):
    """The account as these SDKs have it, and a table for each test."""

    def __init__(self, port):
        super().__init__(port)
        self.service = self.connect(self.KEY)

    def connect(self, key=None, **kwargs):
        host = f"{HOST}:{self.port}"
        return TableService(self.NAME, key, protocol="http", host_base=host, **kwargs)

    def new_table(self):
        name = self.new_name("t")
        same(self.service.create_table(name, fail_on_exist=True), True)
        return name


def refused(kind, function, *args, **kwargs):
    """The error that a call must end in: all that these SDKs say of it is its kind, and maybe a text."""
    try:
        result = function(*args, **kwargs)
    except WindowsAzureError as error:
        same(type(error), kind)
        return error
    raise AssertionError(f"expected {kind.__name__}, found {result!r}")


def code_of(error):
    """The code in the XML that an error's text has."""
    return re.search("<error xmlns=\"[^\"]*\"><code>([A-Za-z]*)</code>", str(error))[1]


def entity(row, **properties):
    return {"PartitionKey": "p", "RowKey": row, **properties}


def own(found):
    """An entity's properties, without what the service adds."""
    properties = {name: getattr(it, "value", it) for name, it in vars(found).items()}
    for name in ("etag", "Timestamp"):
        properties.pop(name, None)
    return properties


def keys(entities):
    return [(it.PartitionKey, it.RowKey) for it in entities]


@test
def tables_come_and_go(account):
    service, name = account.service, account.new_name()
    same([service.create_table(name), service.create_table(name)], [True, False])
    refused(WindowsAzureConflictError, service.create_table, name.upper(), fail_on_exist=True)
    same([table.name for table in service.query_tables(name)], [name])
    same([service.delete_table(name), service.delete_table(name)], [True, False])
    refused(WindowsAzureMissingResourceError, service.delete_table, name, fail_not_exist=True)
    refused(WindowsAzureMissingResourceError, service.query_entities, name)
    error = refused(WindowsAzureError, service.create_table, "a-b", fail_on_exist=True)
    same(code_of(error), "InvalidResourceName")


@test
def tables_are_listed_in_pages(account):
    service, prefix = account.service, account.new_name()
    names = [f"{prefix}{number}" for number in range(7)]
    for name in names:
        service.create_table(name)
    found, next_table = [], None
    while True:
        page = service.query_tables(top=3, next_table_name=next_table)
        found += [table.name for table in page]
        if not hasattr(page, "x_ms_continuation"):
            break
        same(len(page), 3)
        next_table = page.x_ms_continuation["NextTableName"]
    same([name for name in found if name.startswith(prefix)], names)


@test
def entities_come_and_go(account):
    service, table = account.service, account.new_table()
    same(own(service.insert_entity(table, entity("r", A=1))), entity("r", A=1))
    refused(WindowsAzureConflictError, service.insert_entity, table, entity("r"))
    tag = service.get_entity(table, "p", "r").etag
    new = service.update_entity(table, "p", "r", entity("r", B=2), if_match=tag)["etag"]
    for change in (service.update_entity, service.merge_entity):
        error = refused(WindowsAzureError, change, table, "p", "r", entity("r"), if_match=tag)
        same(code_of(error), "UpdateConditionNotSatisfied")
    error = refused(WindowsAzureError, service.delete_entity, table, "p", "r", if_match=tag)
    same(code_of(error), "UpdateConditionNotSatisfied")
    same(service.get_entity(table, "p", "r").etag, new)
    service.merge_entity(table, "p", "r", entity("r", C="three"))
    same(own(service.get_entity(table, "p", "r")), entity("r", B=2, C="three"))
    service.insert_or_merge_entity(table, "p", "r", entity("r", D=4))
    same(own(service.get_entity(table, "p", "r")), entity("r", B=2, C="three", D=4))
    service.insert_or_replace_entity(table, "p", "r", entity("r", E=5))
    same(own(service.get_entity(table, "p", "r")), entity("r", E=5))
    service.delete_entity(table, "p", "r")
    for gone in (service.get_entity, service.delete_entity):
        refused(WindowsAzureMissingResourceError, gone, table, "p", "r")
    for change in (service.update_entity, service.merge_entity):
        refused(WindowsAzureMissingResourceError, change, table, "p", "r", entity("r"))


@test
def every_type_comes_back(account):
    service, table = account.service, account.new_table()
    guid = "c9da6455-213d-42c9-9a79-3e9149a57833"
    values = {
        "text": "é 名前 \U0001F600 \" ' & < > ]]>", "blank": "  ", "lines": " a\n\tb ", "empty": "",
        "yes": True, "no": False, "small": -(2**31), "big": 2**63 - 1, "real": 0.1, "huge": 1e300,
        "five": 5.0, "_1": "é", "Größe": 1,
    }
    given = entity("r", **values)
    given.update(
        nothing=None, moment=datetime(2008, 10, 1, 15, 27, 34),
        bytes=EntityProperty("Edm.Binary", b"\0\1\xfe\xff"), guid=EntityProperty("Edm.Guid", guid),
        nan=EntityProperty("Edm.Double", "NaN"), infinite=EntityProperty("Edm.Double", "-INF"),
    )
    service.insert_entity(table, given)
    found = own(service.get_entity(table, "p", "r"))
    same(found.pop("moment").replace(tzinfo=None), given["moment"])
    same([found.pop("bytes"), found.pop("guid")], [b"\0\1\xfe\xff", guid])
    same([repr(found.pop(name)) for name in ("nan", "infinite")], ["nan", "-inf"])
    same(found, entity("r", **values))
    same({name: type(found[name]) for name in values}, {name: type(it) for name, it in values.items()})
    same(own(service.get_entity(table, "p", "r", "small,text,none")), {
        "small": values["small"], "text": values["text"],
    })


@test
def keys_of_any_text(account):
    service, table = account.service, account.new_table()
    # These SDKs leave it to their user to double a quote in an address.
    for key in ["", " ", "a b", "it's", "é名\U0001F600", "a%20b", "100%", "a+b", "a&b=c", "(a,b)", "<\"$;@>"]:
        service.insert_entity(table, {"PartitionKey": key, "RowKey": key})
        at = key.replace("'", "''")
        same(keys([service.get_entity(table, at, at)]), [(key, key)])
        service.delete_entity(table, at, at)
    same(list(service.query_entities(table)), [])


@test
def queries(account):
    service, table = account.service, account.new_table()
    for number in range(25):
        service.insert_entity(table, entity(f"{number:02}", N=number, M=datetime(2010, 1, 1 + number)))
    rows = lambda **query: [it.RowKey for it in service.query_entities(table, **query)]
    same(rows(filter="N gt 22"), ["23", "24"])
    same(rows(filter="N eq 3 or M lt datetime'2010-01-02T00:00:00'"), ["00", "03"])
    found, after = [], {}
    while True:
        page = service.query_entities(table, top=10, **after)
        found += [it.RowKey for it in page]
        if not hasattr(page, "x_ms_continuation"):
            break
        token = page.x_ms_continuation
        after = {
            "next_partition_key": token["NextPartitionKey"], "next_row_key": token["NextRowKey"],
        }
    same(found, [f"{number:02}" for number in range(25)])
    same([own(it) for it in service.query_entities(table, select="N,none", top=1)], [{"N": 0}])
    error = refused(WindowsAzureError, service.query_entities, table, filter="aaa bbb ccc")
    same(code_of(error), "InvalidInput")
    assert "Syntax error at position 7" in str(error), error


@test
def transactions(account):
    service, table = account.service, account.new_table()
    text = "é\nHTTP/1.1 400 Bad Request\n\nx"
    service.begin_batch()
    for number in range(4):
        service.insert_entity(table, entity(f"{number}", A=text))
    service.commit_batch()
    same([it.A for it in service.query_entities(table)], [text] * 4)
    tag = service.get_entity(table, "p", "0").etag
    service.begin_batch()
    service.update_entity(table, "p", "0", entity("0", B=1), if_match=tag)
    service.merge_entity(table, "p", "1", entity("1", B=1))
    service.delete_entity(table, "p", "2")
    service.insert_or_replace_entity(table, "p", "3", entity("3", B=1))
    service.insert_or_merge_entity(table, "p", "é k", entity("é k", B=1))
    service.commit_batch()
    wanted = [
        entity("0", B=1), entity("1", A=text, B=1), entity("3", B=1), entity("é k", B=1),
    ]
    same([own(it) for it in service.query_entities(table)], wanted)
    for code, change in [
        ("EntityAlreadyExists", lambda: service.insert_entity(table, entity("1"))),
        ("ResourceNotFound", lambda: service.delete_entity(table, "p", "none")),
        ("ResourceNotFound", lambda: service.merge_entity(table, "p", "none", entity("none"))),
        ("UpdateConditionNotSatisfied",
            lambda: service.update_entity(table, "p", "1", entity("1"), if_match=tag)),
    ]:
        service.begin_batch()
        service.insert_entity(table, entity("new"))
        change()
        error = refused(WindowsAzureBatchOperationError, service.commit_batch)
        same((error.code, str(error)[:2]), (code, "1:"))
    same([own(it) for it in service.query_entities(table)], wanted)


@test
def service_properties(account):
    service = account.service
    name = "metrics" if azure.__version__.startswith("0.8") else "hour_metrics"
    properties = service.get_table_service_properties()
    metrics = getattr(properties, name)
    same((properties.logging.write, metrics.enabled), (False, False))
    properties.logging.write = metrics.enabled = metrics.include_apis = True
    metrics.retention_policy.enabled, metrics.retention_policy.days = True, 5
    service.set_table_service_properties(properties)
    properties = service.get_table_service_properties()
    metrics = getattr(properties, name)
    same((properties.logging.write, metrics.enabled), (True, True))
    same(str(metrics.include_apis).lower(), "true")
    same((metrics.retention_policy.enabled, int(metrics.retention_policy.days)), (True, 5))
    properties.logging.write = metrics.enabled = False
    metrics.include_apis = None
    service.set_table_service_properties(properties)


@test
def signatures_and_policies(account):
    service, table = account.service, account.new_table()
    if not hasattr(service, "set_table_acl"):
        return  # not in 0.8
    from azure.storage import SharedAccessPolicy, SignedIdentifier, SignedIdentifiers

    service.insert_entity(table, entity("r"))
    same(list(service.get_table_acl(table)), [])
    policies, policy = SignedIdentifiers(), SignedIdentifier()
    policy.id, policy.access_policy = "one", AccessPolicy("2011-10-11", "2099-10-12T00:00:00Z", "r")
    policies.signed_identifiers.append(policy)
    service.set_table_acl(table, policies)
    same([(it.id, it.access_policy.permission) for it in service.get_table_acl(table)], [("one", "r")])
    expiry = "2099-10-12T00:00:00Z"
    for version in ("2012-02-12", "2013-08-15", "2014-02-14"):
        def holder(policy):
            token = service.generate_shared_access_signature(table, policy, version)
            return account.connect(sas_token=token)

        whole = holder(SharedAccessPolicy(AccessPolicy("2011-10-11", expiry, "raud")))
        whole.insert_or_replace_entity(table, "p", "s", entity("s"))
        same(keys(whole.query_entities(table)), [("p", "r"), ("p", "s")])
        whole.delete_entity(table, "p", "s")
        reader = holder(SharedAccessPolicy(None, "one"))
        same(keys(reader.query_entities(table)), [("p", "r")])
        # Before 2015-04-05 there is nothing where a table's signature does not reach.
        refused(WindowsAzureMissingResourceError, reader.delete_entity, table, "p", "r")
        part = AccessPolicy("", expiry, "r", start_pk="p", start_rk="s", end_pk="p", end_rk="z")
        same(keys(holder(SharedAccessPolicy(part)).query_entities(table)), [])
    service.set_table_acl(table)
    refused(WindowsAzureError, reader.query_entities, table)


@test
def wrong_key(account):
    wrong = account.connect("AAAA" + account.KEY[4:])
    same(code_of(refused(WindowsAzureError, wrong.query_tables)), "AuthenticationFailed")


if __name__ == "__main__":
    main(f"atom {azure.__version__}", AtomAccount)

"""A small runner: tests are functions, each gets a table of its own; the last line counts them."""

import sys
import time
import traceback
import uuid

from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableServiceClient

TESTS = []


def test(function):
    TESTS.append(function)
    return function


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


def same(found, expected):
    assert found == expected, f"expected {expected!r}, found {found!r}"


class Account:
    """How the tests reach the server: the emulator's account, and a table for each test."""

    NAME = "devstoreaccount1"
    KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    def __init__(self, port):
        self.port = port
        self.url = f"http://127.0.0.1:{port}/{self.NAME}"
        self.connection = (
            f"DefaultEndpointsProtocol=http;AccountName={self.NAME};AccountKey={self.KEY};"
            f"TableEndpoint={self.url};"
        )
        self.service = TableServiceClient.from_connection_string(self.connection)

    @staticmethod
    def new_name(prefix="T"):
        return prefix + uuid.uuid4().hex[:20]

    def new_table(self):
        return self.service.create_table(self.new_name())


def main(name):
    account = Account(int(sys.argv[1]))
    only = sys.argv[2:]
    passed = failed = 0
    for function in TESTS:
        if only and function.__name__ not in only:
            continue
        began = time.monotonic()
        try:
            function(account)
        except Exception:
            failed += 1
            print(f"FAILED {name} {function.__name__}\n{traceback.format_exc()}", flush=True)
        else:
            passed += 1
            print(f"ok {name} {function.__name__} {time.monotonic() - began:.2f} s", flush=True)
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(failed > 0)

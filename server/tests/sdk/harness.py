"""A small runner: tests are functions that get the account; the last line counts them."""

import sys
import time
import traceback
import uuid

TESTS = []


def test(function):
    TESTS.append(function)
    return function


def same(found, expected):
    assert found == expected, f"expected {expected!r}, found {found!r}"


class Account:
    """How the tests reach the server: the emulator's account."""

    NAME = "devstoreaccount1"
    KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    def __init__(self, port):
        self.port = port
        self.url = f"http://127.0.0.1:{port}/{self.NAME}"

    @staticmethod
    def new_name(prefix="T"):
        return prefix + uuid.uuid4().hex[:20]


def main(name, account=Account):
    """Runs the tests with what `account` makes of the port that the command line has."""
    account = account(int(sys.argv[1]))
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

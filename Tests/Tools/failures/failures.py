#!/usr/bin/python3
"""Prints the failures of a run of `swift test`: what was expected, what came, and how to run that test again.

usage: failures.py EVENTS...

EVENTS are files that `swift test --event-stream-output-path` wrote.
"""

import json
import os
import re
import sys

MOST_ISSUES = 5  # of a test
MOST_LETTERS = 1500  # of a message


def shortened(text):
    if len(text) <= MOST_LETTERS:
        return text
    half = MOST_LETTERS // 2
    return f"{text[:half]} […] {text[-half:]}"


def indented(text, by):
    return "\n".join(by + line for line in shortened(text).splitlines())


def pattern(test_id):
    """What `--filter` selects the test by: its identifier up to the parenthesis, without the place in the source."""
    return re.sub(r"\(.*", r"\(", test_id)


def place(location):
    path = location.get("_filePath") or location.get("filePath") or location["fileID"]
    return f"{os.path.relpath(path) if os.path.isabs(path) else path}:{location['line']}"


def read(path):
    """The tests by identifier, their issues, those that have begun and not ended, and whether the run came to its end."""
    tests, issues, running, is_over = {}, {}, {}, False
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                record = json.loads(line)
            except ValueError:
                continue  # the test process ended while it wrote
            payload = record["payload"]
            if record["kind"] == "test":
                tests[payload["id"]] = payload
                continue
            kind, test = payload["kind"], payload.get("testID")
            if kind == "issueRecorded" and any(one["symbol"] == "fail" for one in payload["messages"]):
                issues.setdefault(test, []).append(payload)
            elif kind == "testStarted":
                running[test] = True
            elif kind == "testEnded":
                running.pop(test, None)
            elif kind == "runEnded":
                is_over = True
    return tests, issues, [] if is_over else list(running), is_over


def title(tests, test):
    payload = tests.get(test, {})
    name = payload.get("displayName") or payload.get("name") or test
    suite = "/".join(test.split("/")[:-2]) if payload.get("kind") == "function" else test
    return f"{suite}: {name}"


def again(tests, test):
    if tests.get(test, {}).get("kind") == "function":
        return f"  again: scripts/test --filter '{pattern(test)}'"
    return f"  again: scripts/test --filter '{re.sub('/[^/]*:[0-9]+:[0-9]+$', '', test)}'"


def show(path):
    tests, issues, running, is_over = read(path)
    for test, found in issues.items():
        print(f"✘ {title(tests, test) if test else 'no test'}")
        for issue in found[:MOST_ISSUES]:
            case = issue.get("_testCase") or issue.get("testCase")
            location = issue["issue"].get("sourceLocation")
            with_arguments = f" with {case['displayName']}" if case and case.get("displayName") else ""
            print(f"  {place(location) if location else 'somewhere'}{with_arguments}")
            for message in issue["messages"]:
                print(indented(message["text"], "    "))
        if len(found) > MOST_ISSUES:
            print(f"  and {len(found) - MOST_ISSUES} more")
        if test:
            print(again(tests, test))
    if not is_over:
        print("✘ The test process ended before the tests did. These had begun:")
        for test in (one for one in running if tests.get(one, {}).get("kind") == "function"):
            print(f"  {title(tests, test)}\n{again(tests, test)}")


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("--help", "-h"):
        print(__doc__)
        return 64
    for path in filter(os.path.exists, sys.argv[1:]):
        show(path)
    return 0


sys.exit(main())

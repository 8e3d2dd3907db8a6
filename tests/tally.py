"""Read a test runner's JUnit report and print one line: "PART: N passed, N failed[, N skipped]".

usage: tally.py PART EXIT_STATUS REPORT [details]

With "details" it prints what failed too, for a runner that says so in its report only.  A line
"skipped: WHY" in a test's output is printed with the test's name: ctest counts such a test as passed.
Exit status 1 when a test failed, when the runner itself failed, or when nothing was run at all.
"""

import sys
import xml.etree.ElementTree as ElementTree


def outcome(case):
    """One word for one <testcase> of ctest, pytest or busted."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    skipped = case.find("skipped")
    if skipped is None:
        return "passed"
    # ctest lists a test whose program is missing as skipped, too.
    if case.get("status") == "notrun" and not skipped.get("message", "").startswith("SKIP_"):
        return "failed"
    return "skipped"


def print_failure(element, name):
    for failure in [*element.findall("failure"), *element.findall("error")]:
        print(f"FAILED {name}\n{(failure.text or '').strip()}")


def print_skips(case):
    for line in (case.findtext("system-out") or "").splitlines():
        if line.startswith("skipped: "):
            print(f"{case.get('name')}: {line}")


def count_outcomes(report, details):
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for element in ElementTree.parse(report).iter():
        if element.tag == "testcase":
            count[outcome(element)] += 1
            print_skips(element)
        elif element.tag in ("testsuites", "testsuite"):
            # busted puts a test file that cannot be loaded here.
            count["failed"] += len(element.findall("error"))
        if details:
            print_failure(element, element.get("name", report))
    return count


def main(part, exit_status, report, details=""):
    try:
        count = count_outcomes(report, details)
    except (OSError, ElementTree.ParseError) as reason:
        print(f"{part}: no report: {reason}")
        count = {"passed": 0, "failed": 0, "skipped": 0}
    if count["failed"] == 0 and (exit_status != 0 or count["passed"] == 0):
        print(f"{part}: the runner ended with status {exit_status} and {count['passed']} tests")
        count["failed"] = 1
    text = f"{part}: {count['passed']} passed, {count['failed']} failed"
    if count["skipped"]:
        text += f", {count['skipped']} skipped"
    print(text)
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))

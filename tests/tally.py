"""Read a test runner's JUnit report and print one line: "PART: N passed, N failed[, N skipped]".

usage: tally.py PART EXIT_STATUS REPORT

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


def main(part, exit_status, report):
    count = {"passed": 0, "failed": 0, "skipped": 0}
    try:
        cases = ElementTree.parse(report).iter("testcase")
        for case in cases:
            count[outcome(case)] += 1
    except (OSError, ElementTree.ParseError) as reason:
        print(f"{part}: no report: {reason}")
    if count["failed"] == 0 and (exit_status != 0 or count["passed"] == 0):
        print(f"{part}: the runner ended with status {exit_status} and {count['passed']} tests")
        count["failed"] = 1
    text = f"{part}: {count['passed']} passed, {count['failed']} failed"
    if count["skipped"]:
        text += f", {count['skipped']} skipped"
    print(text)
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))

"""check.py FOLDER PROGRAM...: each program, the guide's in one dialect of C, prints what it shows."""

import difflib
import subprocess
import sys
from pathlib import Path


def main(folder, *programs):
    wanted = Path(folder, "output").read_text(encoding="utf-8")
    failed = not programs
    for program in programs:
        done = subprocess.run(
            [program, "shop.lua", "shop.py"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode or done.stderr or done.stdout != wanted:
            failed = True
            print(f"FAILED: {Path(program).name}, status {done.returncode}\n{done.stderr}")
            lines = difflib.unified_diff(
                wanted.splitlines(), done.stdout.splitlines(), "the guide", "printed", lineterm=""
            )
            print("\n".join(lines))
    if not failed:
        print("\nok")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

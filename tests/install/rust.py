"""The Rust of docs/start/winrt.md, built by cargo with the installed library, and run.

usage: rust.py CARGO PAGE PREFIX BUILD

Exits with 77 where the crate windows-core cannot be had.
"""

import re
import subprocess
import sys
from pathlib import Path

MANIFEST = """[package]
name = "winrt"
version = "0.1.0"
edition = "2024"

[dependencies]
windows-core = "0.100"
"""


def main(cargo, page, prefix, build):
    blocks = re.findall(r"^```rust\n(.*?)^```$", Path(page).read_text(encoding="utf-8"), re.M | re.S)
    declarations, links = blocks
    code = Path(__file__).parent.joinpath("rust", "main.rs").read_text(encoding="utf-8")
    source = Path(build, "src")
    source.mkdir(parents=True, exist_ok=True)
    source.joinpath("main.rs").write_text(f"#![allow(non_snake_case)]\n{declarations}\n{code}")
    links = links.replace("/opt/stacksplice", prefix)
    Path(build, "build.rs").write_text(f"fn main() {{\n{links}}}\n")
    Path(build, "Cargo.toml").write_text(MANIFEST)
    if subprocess.run([cargo, "fetch"], cwd=build).returncode:
        print("skipped: cargo cannot fetch windows-core")
        return 77
    return subprocess.run([cargo, "run", "--quiet", "--offline"], cwd=build).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

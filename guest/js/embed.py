#!/usr/bin/env python3
"""Turn a text file into a C header with a NUL-terminated byte array and its length.

usage: embed.py INPUT OUTPUT    (prelude.js -> prelude_js[], prelude_js_length)
"""

import pathlib
import sys


def main() -> None:
    source, target = map(pathlib.Path, sys.argv[1:])
    data = source.read_bytes()
    if b"\0" in data:
        sys.exit(f"{source}: contains a NUL byte")
    name = source.name.replace(".", "_")
    lines = [", ".join(str(b) for b in data[i : i + 24]) + "," for i in range(0, len(data), 24)]
    target.write_text(
        f"/* Generated from {source.name}. */\n"
        f"enum {{ {name}_length = {len(data)} }};\n"
        f"static const unsigned char {name}[{name}_length + 1] = {{\n" + "\n".join(lines) + "\n0};\n"
    )


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Write the licence notice that a C source opens with, as plain text.

usage: notice.py SOURCE OUTPUT
"""

import pathlib
import re
import sys


def notice(source: str) -> str:
    """The text of the comment that `source` starts with."""
    match = re.match(r"\s*/\*(.*?)\*/", source, re.S)
    if match is None or "Permission is hereby granted" not in match.group(1):
        raise ValueError("does not open with a licence notice")
    lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in match.group(1).splitlines()]
    return "\n".join(lines).strip() + "\n"


def main() -> None:
    source, target = map(pathlib.Path, sys.argv[1:])
    try:
        target.write_text(notice(source.read_text()))
    except ValueError as error:
        sys.exit(f"{source}: {error}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Write the header that states which guest module a program was built with.

usage: identity.py GUEST_WASM OUTPUT
"""

import hashlib
import pathlib
import sys


def main() -> None:
    module, target = map(pathlib.Path, sys.argv[1:])
    digest = hashlib.sha256(module.read_bytes()).hexdigest()
    target.write_text(
        "/* Generated from guest.wasm: the identity of the JavaScript environment. */\n"
        "#ifndef PLIM_GUEST_IDENTITY_H\n"
        "#define PLIM_GUEST_IDENTITY_H\n"
        f'#define PLIM_GUEST_SHA256 "{digest}"\n'
        "#endif\n"
    )


if __name__ == "__main__":
    main()

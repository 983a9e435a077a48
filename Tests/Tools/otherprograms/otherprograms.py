#!/usr/bin/python3
"""Turns a trafficd into one of a later version, whose BPF objects are others.

usage: otherprograms.py TRAFFICD

One letter of a name in the objects becomes another, so to a daemon these are other programs, with the same work to do.
The objects are in trafficd as bpfembed writes them: compressed (RFC 1950), in hexadecimal digits.
"""

import binascii
import re
import string
import sys
import zlib

NAME = b"urgent_mark"


def other(match: re.Match) -> bytes:
    before = match.group()
    try:
        item = zlib.decompress(binascii.unhexlify(before))
    except (binascii.Error, zlib.error):
        return before  # not one of them
    for letter in string.ascii_lowercase.encode():
        name = NAME[:-1] + bytes([letter])
        digits = binascii.hexlify(zlib.compress(item.replace(NAME, name), 9))
        # Nobody reads what follows the end.
        if name != NAME and NAME in item and len(digits) <= len(before):
            return digits.ljust(len(before), b"0")
    return before


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__)
        return 64
    with open(sys.argv[1], "rb") as file:
        before = file.read()
    # The beginning of what zlib compresses best.
    after = re.sub(rb"78da[0-9a-f]{1000,}", other, before)
    if after == before:
        print(f"otherprograms.py: there are no BPF objects in {sys.argv[1]} that can be changed", file=sys.stderr)
        return 1
    with open(sys.argv[1], "wb") as file:
        file.write(after)
    return 0


sys.exit(main())

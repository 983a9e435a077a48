#!/usr/bin/python3
"""Turns a trafficd into one of a later version, whose BPF objects are others.

usage: otherprograms.py TRAFFICD

The objects state a shorter licence, so to a daemon these are other programs, with the same work to do. The objects are
in trafficd as bpfembed writes them: compressed (RFC 1950), in hexadecimal digits. A shorter text is shorter also
when it is compressed; another text of the same length may need more bytes than the old one had.
"""

import binascii
import re
import sys
import zlib

LICENCE = b"Dual BSD/GPL\0"
# The kernel lets programs under it call the same functions (license_is_gpl_compatible).
SHORTER = b"GPL".ljust(len(LICENCE), b"\0")


def other(match: re.Match) -> bytes:
    before = match.group()
    try:
        item = zlib.decompress(binascii.unhexlify(before))
    except (binascii.Error, zlib.error):
        return before  # not one of them
    if LICENCE not in item:
        return before
    digits = binascii.hexlify(zlib.compress(item.replace(LICENCE, SHORTER), 9))
    if len(digits) > len(before):
        sys.exit("otherprograms.py: an object has no room for its other form")
    # Nobody reads what follows the end.
    return digits.ljust(len(before), b"0")


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

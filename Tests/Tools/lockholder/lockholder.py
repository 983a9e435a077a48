#!/usr/bin/env python3
"""Keeps the kernel's lock of a TCP socket of its own, until standard input ends.

send() reads its bytes with the socket locked. Here they are in a page that nobody fills in (userfaultfd(2)), so the call
waits. A file of a file system in user space does the same for any user.
"""
import ctypes
import fcntl
import mmap
import os
import socket
import struct
import sys
import threading
import time

USERFAULTFD = {"x86_64": 323, "aarch64": 282}[os.uname().machine]
UFFDIO_API, UFFDIO_REGISTER = 0xC018AA3F, 0xC020AA00
UFFD_API, MISSING_PAGES = 0xAA, 1

libc = ctypes.CDLL(None, use_errno=True)
descriptor = libc.syscall(USERFAULTFD, os.O_CLOEXEC)
if descriptor < 0:
    sys.exit(f"userfaultfd: {os.strerror(ctypes.get_errno())}")
fcntl.ioctl(descriptor, UFFDIO_API, struct.pack("QQQ", UFFD_API, 0, 0))
page = mmap.mmap(-1, mmap.PAGESIZE)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
fcntl.ioctl(descriptor, UFFDIO_REGISTER, struct.pack("QQQQ", address, mmap.PAGESIZE, MISSING_PAGES, 0))

listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
arguments = (client.fileno(), ctypes.c_void_p(address), mmap.PAGESIZE, 0)
sender = threading.Thread(target=libc.send, args=arguments, daemon=True)
sender.start()
while "userfault" not in open(f"/proc/self/task/{sender.native_id}/wchan").read():
    time.sleep(0.01)
print("holds", flush=True)
sys.stdin.read()
os._exit(0)

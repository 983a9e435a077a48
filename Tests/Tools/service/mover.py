#!/usr/bin/python3
"""Moves bytes as it is told, and adds up what its calls have moved.

usage: mover.py ORDERS

Each line of the file ORDERS is a number of bytes, which go over a connection of their own, to this program itself. After
each, and at first, standard output has a line with the sum.
"""
import socket
import sys

listener = socket.create_server(("127.0.0.1", 0))
total = 0
print(total, flush=True)
for line in open(sys.argv[1]):
    client = socket.create_connection(listener.getsockname())
    server = listener.accept()[0]
    client.sendall(bytes(int(line)))
    total += int(line)
    left = int(line)
    while left:
        left -= len(server.recv(65536))
    client.close()
    server.close()
    print(total, flush=True)

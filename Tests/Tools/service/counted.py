#!/usr/bin/python3
"""Prints the payload that a process has sent and received, by the JSON of `trafficctl processes` on standard input.

usage: counted.py PID
"""
import json
import sys

for process in json.load(sys.stdin)["processes"]:
    if process["pid"] == int(sys.argv[1]):
        print(process["payload_sent_bytes"], process["payload_received_bytes"])

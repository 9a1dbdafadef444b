#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts traces to Chrome traces and reads them as a viewer does: they are JSON, asynchronous events come in pairs that do
not cross pairs of their kind, and the live bytes follow from the events.
usage: chrome_trace_test.py TIDEPOOL FOLDER_OF_TRACES"""
import gzip
import json
import os
import subprocess
import sys
import tempfile


def check(document):
    open_events, live, counted, time = {}, 0, 0, float("-inf")
    for event in document["traceEvents"]:
        phase = event["ph"]
        if phase == "M":
            continue
        assert event["ts"] >= time, event
        time = event["ts"]
        if phase == "b":
            key = (event["cat"], event["id"])
            assert key not in open_events, event
            open_events[key] = event["name"]
        elif phase == "e":
            assert open_events.pop((event["cat"], event["id"])) == event["name"], event
        elif phase == "C" and event["name"] == "live":
            counted = event["args"]["bytes"]
        elif event["name"] == "[memory]":
            live += event["args"]["Bytes"]
    assert not open_events, open_events
    assert live == counted, (live, counted)


def main(tidepool, traces):
    checked = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in sorted(os.listdir(traces)):
            if not name.endswith(".csv.gz"):
                continue
            copy = os.path.join(folder, name + ".json.gz")
            subprocess.run([tidepool, "convert", os.path.join(traces, name), copy], check=True)
            with gzip.open(copy, "rt", encoding="utf-8") as file:
                check(json.load(file))
            checked += 1
    assert checked >= 3, checked
    print(checked, "traces")


main(*sys.argv[1:])

#!/usr/bin/env python3
"""Looks at the daemon's page with a browser, and prints what it observed: a JSON object in a line for each case.

usage: check_page.py --url URL [options] CASE...

Exits with 1 and says why on standard error if something is wrong by itself. Whether the numbers are right is for the
caller to judge, who knows what was moved.
"""

import argparse
import json
import sys

from selenium.common.exceptions import WebDriverException

import case_accessibility
import case_history
import case_live
import case_load
import case_rows
import case_screenshots
import case_token
import case_views
from browser import Browser, Failure

CASES = {
    "load": case_load.load,
    "links": case_load.links,
    "process": case_rows.process,
    "live": case_live.live,
    "exact": case_rows.exact,
    "filter": case_rows.filter,
    "drill": case_rows.drill,
    "history": case_history.history,
    "zones": case_history.zones,
    "audit": case_history.audit,
    "hosts": case_views.hosts,
    "scopes": case_views.scopes,
    "alerts": case_views.alerts,
    "alert-burst": case_views.alert_burst,
    "hidden": case_views.hidden,
    "hostile": case_rows.hostile,
    "restart": case_live.restart,
    "pause": case_live.pause,
    "rates": case_live.rates,
    "token": case_token.token,
    "withheld": case_token.withheld,
    "accessibility": case_accessibility.accessibility,
    "screenshots": case_screenshots.screenshots,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--url", required=True, help="where the page is: http://127.0.0.1:10419/")
    parser.add_argument("--token", help="the token of the listener; of `token`, the right one")
    parser.add_argument("--pid", type=int, help="of process, live, drill, hosts, hidden and hostile")
    parser.add_argument("--filter", default="", help="of filter and history: the terms")
    parser.add_argument("--interface", default="lo", help="of audit")
    parser.add_argument("--screenshots", metavar="DIR", help="where screenshots go")
    parser.add_argument("cases", nargs="+", choices=list(CASES), metavar="CASE", help=", ".join(CASES))
    options = parser.parse_args()
    if not options.url.endswith("/"):
        options.url += "/"
    failures = 0
    for name in options.cases:
        browser = Browser(options.url)
        try:
            observed = CASES[name](browser, options)
            print(json.dumps({"case": name, **observed}), flush=True)
        except (Failure, WebDriverException) as failure:
            failures += 1
            text = failure.msg if isinstance(failure, WebDriverException) else failure
            print(f"{name}: {text}", file=sys.stderr, flush=True)
        finally:
            browser.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""Views of the whole host: remote addresses, scopes and interfaces, alerts; and a tab that is hidden."""

from browser import ROWS, Failure, bytes_of, digits, rows_of
from case_rows import row_of, settled


def hosts(browser, options):
    """The remote addresses of a process, with the bytes of its open sockets."""
    browser.open(f"#/hosts?filter=pid:{options.pid}", token=options.token)
    browser.wait_for("table[data-table=hosts] tbody tr")
    rows = settled(browser, ROWS + "return rowsOf('hosts')")
    return {"rows": [{"address": row["address"], "sockets": int(row["sockets"]), **bytes_of(row)} for row in rows]}


def scopes(browser, options):
    """The sums of each scope and of each interface, and the page's total, all of one snapshot."""
    browser.open("#/scopes", token=options.token)
    browser.wait_for("table[data-table=scopes] tbody tr")
    browser.wait_for("table[data-table=interfaces] tbody tr")
    of_one_moment = browser.script(ROWS + """
        return { scopes: rowsOf('scopes'), interfaces: rowsOf('interfaces'),
            all: document.getElementById('all-received').title }""")
    return {
        "scopes": {row["scope"]: bytes_of(row) for row in of_one_moment["scopes"]},
        "interfaces": {row["interface"]: bytes_of(row) for row in of_one_moment["interfaces"]},
        "all_received": digits(of_one_moment["all"]),
    }


def alerts(browser, options):
    """The alerts in force."""
    browser.open("#/alerts", token=options.token)
    browser.wait_for("table[data-table=alerts] tbody tr")
    rows = rows_of(browser, "alerts")
    return {"rows": [{"rule": row["rule"], "bytes": digits(row["bytes"])} for row in rows]}


def alert_burst(browser, options):
    """Many changes at once make one request for the list, and the list of changes keeps the newest."""
    browser.open(token=options.token)
    seen = browser.driver.execute_async_script("""
        const done = arguments[0];
        import('/page/alerts.js').then(({ AlertsView }) => {
            const view = new AlertsView();
            const [fetch, requests] = [window.fetch, []];
            window.fetch = (url, ...rest) => {
                if (String(url).endsWith('/v1/alerts')) requests.push(url);
                return fetch(url, ...rest);
            };
            for (let id = 1; id <= 500; id += 1) {
                view.note({ id, at: '2026-01-01T00:00:00Z', change: 'began', dropped_before: 0,
                    alert: { rule: `r${id}`, since: '2026-01-01T00:00:00Z', bytes: id, bytes_per_second: 1 } });
            }
            setTimeout(() => {
                window.fetch = fetch;
                done({ requests: requests.length, changes: view.list.children.length,
                    newest: view.list.firstChild.textContent });
            }, 3000);
        })""")
    if seen["requests"] != 1 or seen["changes"] != 200 or "r500 " not in seen["newest"]:
        raise Failure(f"500 changes made this: {seen}")
    return seen


def hidden(browser, options):
    """A tab that is not shown asks for nothing, and goes on when it is shown."""
    browser.open(token=options.token)
    row_of(browser, options.pid)

    def show(is_shown):
        browser.script("""
            Object.defineProperty(document, 'hidden', { configurable: true, get: () => !arguments[0] });
            document.dispatchEvent(new Event('visibilitychange'))""", is_shown)

    def snapshot():
        return browser.driver.execute_async_script("""
            const done = arguments[0];
            import('/page/live.js').then(({ live }) => done([live.state, live.snapshot?.taken_at]))""")

    show(False)
    state, first = snapshot()
    browser.collect()
    count = len(browser.requests)
    browser.script("return new Promise((resolve) => setTimeout(resolve, 3000))")
    browser.collect()
    if state != "hidden" or snapshot()[1] != first or len(browser.requests) > count:
        raise Failure(f"the tab is hidden ({state}), and asked for {browser.requests[count:]}")
    show(True)
    browser.wait("another snapshot", lambda: snapshot()[1] != first)
    return {}

"""Processes, sockets and APIs: the rows, the filter, and the way from one to the next."""

from browser import By, Failure, Keys, digits


def row_of(browser, pid):
    selector = f"table[data-table=processes] tr:has(a[href^='#/processes/{pid}-'])"
    # A table shows 200 rows at first.
    def find():
        rows = browser.all(selector)
        more = browser.shown("#view .table > .more")
        if not rows and more:
            # By script: the rows may grow fewer meanwhile, and the button goes.
            browser.script("arguments[0].click()", more[0])
        return rows
    return browser.wait(f"a row of process {pid}", find)[0], selector


def identity_of(browser, selector="table[data-table=processes] tbody tr"):
    """The id of the process in the first row that fits."""
    return browser.attribute(f"{selector} th a", "href").split("/")[2].split("?")[0]


def cells(browser, selector):
    """Of the first row that fits: text and hint of each cell."""
    return browser.script("""
        const cells = document.querySelector(arguments[0])?.cells ?? [];
        return Object.fromEntries([...cells].map((cell) => {
            const inner = cell.querySelector('[title]') ?? cell;
            return [cell.dataset.column, { text: cell.textContent, hint: inner.title }];
        }))""", selector)


def facts(browser, name):
    return browser.script("""
        return Object.fromEntries([...document.querySelectorAll(`[data-facts=${arguments[0]}] dd[data-fact]`)]
            .map((entry) => [entry.dataset.fact, entry.textContent]))""", name)


def process(browser, options):
    """The exact bytes of a process, in the table and in its details."""
    browser.open(token=options.token)
    _, selector = row_of(browser, options.pid)
    shown = cells(browser, selector)
    identity = identity_of(browser, selector)
    browser.go(f"#/processes/{identity}")
    detail = browser.wait("the details", lambda: facts(browser, "process"))
    return {
        "process_id": identity, "name": shown["process"]["text"], "heading": browser.text("#title"),
        "table": {way: digits(shown[way]["hint"]) for way in ("sent", "received")},
        "table_text": {way: shown[way]["text"] for way in ("sent", "received")},
        "detail": {way: digits(detail[way]) for way in ("sent", "received")},
        "detail_wire": {way: digits(detail[f"wire-{way}"]) for way in ("sent", "received")},
    }


def filter(browser, options):
    """How many rows pass, on the page and of how many; and what the page says of a wrong filter."""
    browser.open(token=options.token)
    browser.wait_for("table[data-table=processes] tbody tr")
    count = "return document.querySelectorAll('table[data-table=processes] tbody tr').length"
    before = browser.script(count)
    field = browser.wait_for("#filter")

    def enter(text):
        field.clear()
        field.send_keys(text, Keys.ENTER)

    terms = options.filter or "rx>1"
    enter(terms)
    browser.wait("the filter in the address", lambda: "filter=" in browser.driver.current_url)
    browser.wait("a snapshot with the filter", lambda: browser.driver.execute_async_script("""
        const [filter, done] = arguments;
        import('/page/live.js').then(({ live }) => done(live.filter === filter && live.snapshot !== null))""", terms))
    names = settled(browser, """
        const links = [...document.querySelectorAll('table[data-table=processes] th a')];
        return links.map((link) => link.getAttribute('href').split('/')[2].split('?')[0]).sort()""")
    enter("rx>nothing")
    problem = browser.wait("what is wrong with the filter", lambda: browser.text("#filter-problem"))
    if browser.attribute("#filter", "aria-invalid") != "true":
        raise Failure("the filter is wrong, and its field does not say so")
    enter("")
    browser.wait("no problem any more", lambda: not browser.shown("#filter-problem"))
    browser.wait("the rows again", lambda: browser.script(count) > 0)
    return {"rows_before": before, "rows": len(names), "process_ids": names, "problem": problem}


def settled(browser, script):
    """What three looks in a row agree on."""
    seen = []
    def look():
        seen.append(browser.script(script))
        browser.script("return new Promise((resolve) => setTimeout(resolve, 1100))")
        return len(seen) >= 3 and seen[-3] == seen[-2] == seen[-1]
    browser.wait("rows that stay", look)
    return seen[-1]


def drill(browser, options):
    """From a process to its API and to a socket of it, by the keyboard alone."""
    browser.open(f"#/processes?filter=pid:{options.pid}", token=options.token)
    row_of(browser, options.pid)
    browser.press("j", Keys.ENTER)
    browser.wait_for("table[data-table=process-apis] tbody tr")
    process_heading = browser.text("#title")
    apis = browser.script("return document.querySelectorAll('table[data-table=process-apis] tbody tr').length")
    # A row opens once its API is in the list of the service too.
    browser.wait("an API that opens", lambda: browser.all("table[data-table=process-apis] tbody a"))
    browser.press("j", Keys.ENTER)
    browser.wait("the API", lambda: browser.driver.current_url.split("#")[1].startswith("/apis/"))
    browser.wait("facts of the API", lambda: facts(browser, "api"))
    api_heading = browser.text("#title")
    def exchange_with_socket():
        browser.press("j")
        return browser.script("return document.activeElement.matches('table[data-table=exchanges] a')")
    browser.wait("an exchange whose socket is open", exchange_with_socket)
    browser.press(Keys.ENTER)
    browser.wait("the socket", lambda: facts(browser, "socket"))
    socket_heading = browser.text("#title")
    detail = facts(browser, "socket")
    verdict = browser.wait("an audit of the socket", lambda: browser.text(".verdict"))
    browser.press(Keys.ESCAPE)
    browser.wait("the list again", lambda: browser.shown("table[data-table=sockets]"))
    errors = browser.errors()
    if errors:
        raise Failure(f"the console has errors: {errors}")
    return {
        "process": process_heading, "apis": apis, "api": api_heading, "socket": socket_heading,
        "owners": detail["owners"],
        "socket_bytes": {way: digits(detail[way]) for way in ("sent", "received")}, "verdict": verdict,
    }


def hostile(browser, options):
    """A name with markup is text: it makes no element and runs nothing."""
    browser.open(token=options.token)
    _, selector = row_of(browser, options.pid)
    name = cells(browser, selector)["process"]["text"]
    browser.go(f"#/processes/{identity_of(browser, selector)}")
    browser.wait("the details", lambda: facts(browser, "process"))
    heading = browser.text("#title")
    made = browser.script("""
        const tags = ['IMG', 'SCRIPT', 'IFRAME', 'OBJECT', 'EMBED', 'STYLE', 'BASE'];
        return [...document.querySelectorAll('#view *, #title *, #health *')]
            .filter((element) => tags.includes(element.tagName) || element.hasAttribute('onerror'))
            .map((element) => element.outerHTML.slice(0, 200))""")
    links = browser.script("""
        return [...document.querySelectorAll('a[href]')].map((link) => link.getAttribute('href'))
            .filter((target) => !target.startsWith('#'))""")
    try:
        alert = browser.driver.switch_to.alert.text
    except Exception:  # There is none: the driver says so by an error of its own.
        alert = None
    errors = browser.errors()
    if made or links or alert is not None or errors:
        raise Failure(f"elements {made}, links {links}, dialog {alert!r}, errors {errors}")
    return {"name": name, "heading": heading, "elements_made": made, "dialog": alert}


NUMBERS = ["0", "999", "1000", "999500", "9007199254740991", "9007199254740993", "18446744073709551615"]


def exact(browser, options):
    """How the page writes numbers, also those that a double can't hold: with every digit, summed and subtracted exactly."""
    browser.open(token=options.token)
    browser.wait_for("table[data-table=processes] tbody tr")
    written = browser.driver.execute_async_script("""
        const [numbers, done] = arguments;
        Promise.all([import('/page/api.js'), import('/page/text.js')]).then(([{ parse }, text]) => {
            const { amount, exact, minus, plus } = text;
            const values = parse(`{"numbers":[${numbers}]}`).numbers;
            const sum = values.reduce(plus);
            const rest = values.slice(0, -1).reduce(minus, values.at(-1));
            done({ exact: values.map(exact), amount: values.map(amount), sum: exact(sum), rest: exact(rest) });
        })""", NUMBERS)
    wrong = [number for number, text in zip(NUMBERS, written["exact"]) if digits(text) != int(number)]
    *others, largest = map(int, NUMBERS)
    if wrong or digits(written["sum"]) != sum(others) + largest or digits(written["rest"]) != largest - sum(others):
        raise Failure(f"{wrong} are not exact: {written}")
    return {"numbers": NUMBERS, **written}


__all__ = ["By", "cells", "drill", "exact", "facts", "filter", "hostile", "identity_of", "process", "row_of",
           "settled"]

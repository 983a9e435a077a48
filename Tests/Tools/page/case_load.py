"""The first look at the page."""

from browser import Failure

VIEWS = ["processes", "apis", "sockets", "hosts", "scopes", "history", "audit", "alerts"]


def load(browser, options):
    """How fast it comes, and that it asks no other host for anything and breaks no rule of its security policy."""
    browser.open(token=options.token)
    browser.wait_for("table[data-table=processes] tbody tr")
    # The entry may come a moment after the paint.
    paint = browser.wait("a first paint", lambda: browser.script("""
        return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"""))
    bytes_of_files = browser.script("""
        return performance.getEntriesByType('resource').filter(({ name }) => name.includes('/page/'))
            .reduce((sum, { decodedBodySize }) => sum + decodedBodySize, 0)""")
    for view in VIEWS:
        browser.view(view)
        browser.wait_for("#view table, #view .refusal, #view .empty")
    errors = browser.errors(expected=("status of 401", "status of 403", "status of 404"))
    foreign = browser.foreign_requests()
    if errors:
        raise Failure(f"the console has errors: {errors}")
    if foreign:
        raise Failure(f"the page asked another host: {foreign}")
    return {
        "first_contentful_paint_ms": round(paint), "console_errors": errors, "foreign_requests": foreign,
        "requests": len(browser.requests), "page_bytes": bytes_of_files, "title": browser.driver.title,
    }


def links(browser, options):
    """An address that names no view shows Processes, also where the name is one that every object of a script has."""
    browser.open(token=options.token)
    browser.wait_for("table[data-table=processes] tbody tr")
    places = ["#/constructor", "#/__proto__?by=constructor", "#nonsense?a=%&&=?#/%ff"]
    for place in places:
        for visit in (browser.open, browser.go):
            browser.view("scopes")
            visit(place)
            browser.wait(f"Processes at {place}", lambda: browser.text("#title") == "Processes")
            browser.wait_for("#view table[data-table=processes] tbody tr")
    errors = browser.errors(expected=("status of 401",))
    if errors:
        raise Failure(f"the console has errors: {errors}")
    return {"places": places}

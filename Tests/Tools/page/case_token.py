"""Who may see what: a token that the listener wants, and views that are withheld."""

from browser import Failure, Keys


def token(browser, options):
    """The page asks for the token, says that a wrong one is wrong, and works with the right one."""
    browser.open()
    dialog = browser.wait_for("#token-dialog[open]")
    first = browser.text("#token-text")
    focused = browser.script("return document.activeElement.id")
    browser.wait_for("#token").send_keys("a wrong token", Keys.ENTER)
    second = browser.wait("the word that the token is wrong", lambda: (
        browser.shown("#token-dialog[open]") and browser.text("#token-text") != first and browser.text("#token-text")))
    browser.wait_for("#token").send_keys(options.token, Keys.ENTER)
    browser.wait_for("table[data-table=processes] tbody tr")
    if browser.shown("#token-dialog[open]"):
        raise Failure("the token is right, and the page still asks for it")
    stored = browser.script("""
        return Object.values(localStorage).some((value) => value.includes(arguments[0]))""", options.token)
    in_address = options.token in browser.driver.current_url
    if stored or in_address:
        raise Failure("the token outlives the tab, or is in the address")
    errors = browser.errors(expected=("status of 401", "status of 403"))
    if errors:
        raise Failure(f"the console has errors: {errors}")
    return {"asked": first, "focus": focused, "wrong": second, "dialog": dialog is not None}


def withheld(browser, options):
    """Views that the daemon withholds say so, and offer to enter a token."""
    browser.open(token=options.token)
    browser.wait_for("table[data-table=processes] tbody tr")
    said = {}
    for view in ("sockets", "history", "audit", "alerts"):
        browser.view(view)
        said[view] = browser.wait_for("#view .refusal").text
        if not browser.shown("#view .refusal [data-action=token]"):
            raise Failure(f"{view} is withheld, and the page does not offer to enter a token: {said[view]!r}")
        if browser.shown("#view table tbody tr"):
            raise Failure(f"{view} is withheld, and the page shows rows of it")
    return {"views": said}

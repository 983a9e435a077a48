"""What people need who don't see the page, don't use a mouse, or have a phone."""

import pathlib

from browser import Failure, Keys
from case_load import VIEWS
from case_rows import identity_of

RULES = pathlib.Path(__file__).with_name("accessibility.js").read_text()

# The note is of a socket that closed meanwhile.
CONTENT = "#view table, #view .refusal, #view .empty, #view .note"

STOPS = """
    return [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex]')]
        .filter((element) => element.tabIndex >= 0 && !element.disabled && element.checkVisibility())
        .filter((element) => !element.closest('dialog'))
        .map((element) => element.stop ??= Math.random())"""

FOCUSED = """
    const element = document.activeElement;
    if (!element || element === document.body) return null;
    const style = getComputedStyle(element);
    const hasOutline = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
    const isVisible = hasOutline || style.boxShadow !== 'none';
    return [element.stop ?? 0, isVisible, element.outerHTML.slice(0, 120)]"""


def tab_stops(browser):
    """Presses Tab until the focus leaves the page. Returns what it never reached, and where it can't be seen."""
    # Rows that come and go would move the goal.
    browser.press(" ")
    wanted = browser.script(STOPS)
    browser.script("document.activeElement.blur(); getSelection().removeAllRanges()")
    reached, invisible = set(), []
    for _ in range(len(wanted) + 10):
        browser.press(Keys.TAB)
        focused = browser.script(FOCUSED)
        if focused is None or focused[0] in reached and len(reached) >= len(wanted):
            break
        reached.add(focused[0])
        if not focused[1]:
            invisible.append(focused[2])
    browser.script("document.activeElement.blur()")
    browser.press(" ")
    missed = [stop for stop in wanted if stop not in reached]
    return len(wanted), browser.script("""
        return [...document.querySelectorAll('*')].filter(({ stop }) => arguments[0].includes(stop))
            .map((element) => element.outerHTML.slice(0, 120))""", missed), invisible


def accessibility(browser, options):
    browser.open(token=options.token)
    browser.wait_for("table[data-table=processes] tbody tr")
    process = identity_of(browser)
    places = [f"#/{view}" for view in VIEWS]
    for view in ("apis", "sockets"):
        # One of the list in full; there are none if no program reports, or if sockets are withheld.
        browser.view(view)
        browser.wait_for("#view tbody tr, #view .empty, #view .refusal")
        places += [target for target in [browser.attribute("#view tbody a", "href")] if target]
    places += [f"#/processes/{process}?tab=audit", "#/history?show=month", "#/hosts?from=reports"]
    broken, least, stops = [], 21, {}
    for theme in ("light", "dark"):
        browser.theme(theme)
        for place in places:
            browser.open(place)
            browser.wait_for(CONTENT)
            browser.wait("the health line", lambda: browser.shown("#health-method"))
            result = browser.script(RULES)
            broken += [f"{place}, {theme}: {rule}" for rule in result["broken"]]
            least = min(least, result["least_contrast"])
            if theme == "light":
                stops[place], missed, invisible = tab_stops(browser)
                broken += [f"{place}: Tab never reaches {element}" for element in missed]
                broken += [f"{place}: the focus can't be seen on {element}" for element in invisible]
    for key, dialog in (("?", "help"), ("c", "capture")):
        browser.press(key)
        browser.wait(f"the dialog {dialog}", lambda: browser.shown(f"#{dialog}[open]"))
        broken += [f"dialog {dialog}: {rule}" for rule in browser.script(RULES)["broken"]]
        browser.press(Keys.ESCAPE)
        browser.wait("no dialog", lambda: not browser.shown("dialog[open]"))
    browser.resize(360, 800)
    for place in places:
        browser.open(place)
        browser.wait_for(CONTENT)
        width, wide = browser.script("""
            const wide = [...document.querySelectorAll('body *')].filter((element) => element.checkVisibility()
                && element.getBoundingClientRect().right > innerWidth + 1
                && !element.closest('.scrolls, .hidden, .canvas'));
            const parts = wide.slice(0, 3).map((element) => element.outerHTML.slice(0, 120));
            return [document.documentElement.scrollWidth, parts]""")
        if width > 360 or wide:
            broken.append(f"{place}: at 360 px the page is {width} px wide: {wide}")
    if broken:
        raise Failure("\n  ".join(["rules are broken:", *dict.fromkeys(broken)]))
    return {"places": len(places), "least_contrast": least, "tab_stops": stops}

"""Pictures of all views, in three widths and both themes."""

import os

from browser import Failure
from case_load import VIEWS
from case_rows import identity_of

WIDTHS = {360: 800, 768: 1024, 1440: 900}


def screenshots(browser, options):
    if not options.screenshots:
        raise Failure("--screenshots DIR is missing")
    os.makedirs(options.screenshots, exist_ok=True)
    browser.open(token=options.token)
    browser.wait_for("table[data-table=processes] tbody tr")
    # The one that moves most has the most to show.
    process = identity_of(browser)
    places = {view: f"#/{view}" for view in VIEWS}
    places["process"] = f"#/processes/{process}?tab=sockets"
    places["month"] = "#/history?show=month"
    names = []
    for theme in ("light", "dark"):
        browser.theme(theme)
        for width, height in WIDTHS.items():
            browser.resize(width, height)
            for name, place in places.items():
                browser.open(place)
                browser.wait_for("#view table tbody tr, #view .refusal, #view .empty")
                browser.script("return new Promise((resolve) => setTimeout(resolve, 400))")
                file = os.path.join(options.screenshots, f"{name}-{width}-{theme}.png")
                browser.driver.save_screenshot(file)
                names.append(os.path.basename(file))
    return {"files": names}

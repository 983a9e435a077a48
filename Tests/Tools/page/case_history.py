"""The past, and whether every byte is accounted for."""

from urllib.parse import quote

from selenium.webdriver import ActionChains

from browser import Failure, bytes_of, rows_of


def range_of(browser):
    values = browser.script("""
        const { from, until } = document.querySelector('[data-chart=history]')?.dataset ?? {};
        return from && [Number(from), Number(until)]""")
    return values


def history(browser, options):
    """A chart that can be zoomed by dragging, its sums, a day, and the report of a month; and sums with a filter."""
    browser.open(f"#/history?range=day&filter={quote(options.filter)}", token=options.token)
    filtered = browser.wait("sums with the filter", lambda: rows_of(browser, "history-bytes"))[0]
    browser.open("#/history?range=day", token=options.token)
    before = browser.wait("a chart", lambda: browser.shown("[data-chart=history] canvas") and range_of(browser))
    total = browser.wait("sums", lambda: rows_of(browser, "history-bytes"))[0]
    over = browser.wait_for("[data-chart=history] .u-over")
    width = over.size["width"]
    # The newest fifth, which has bytes even if the daemon is young.
    ActionChains(browser.driver).move_to_element_with_offset(over, int(width * 0.25), 40).click_and_hold() \
        .move_by_offset(int(width * 0.1), 0).move_by_offset(int(width * 0.1), 0).release().perform()
    after = browser.wait("another range", lambda: (
        "since=" in browser.driver.current_url and range_of(browser) != before and range_of(browser)))
    if not after[1] - after[0] < (before[1] - before[0]) / 2:
        raise Failure(f"dragging over a fifth of the chart made {before} into {after}")
    browser.driver.back()
    browser.wait("the range of before, by the browser's button", lambda: (
        range_of(browser) and abs((range_of(browser)[1] - range_of(browser)[0]) - (before[1] - before[0])) < 600))
    before_day = range_of(browser)
    browser.go("#/history?show=day")
    day = browser.wait("a day", lambda: browser.text("[data-fact=day]"))
    browser.wait("the bars of the day", lambda: range_of(browser) != before_day)
    today = bytes_of(browser.wait("sums of the day", lambda: rows_of(browser, "history-bytes"))[0])
    browser.wait_for("[data-action=previous-day]").click()
    previous_day = browser.wait("the day before", lambda: (
        browser.text("[data-fact=day]") != day and browser.text("[data-fact=day]")))
    browser.go("#/history?show=month")
    month = browser.wait("a month", lambda: browser.text("[data-fact=month]"))
    of_month = bytes_of(browser.wait("sums of the month", lambda: rows_of(browser, "month"))[0])
    if any(of_month[way] < today[way] for way in today):
        raise Failure(f"a day has {today}, and its month {of_month}")
    browser.wait_for("[data-action=previous-month]").click()
    previous_month = browser.wait("the month before", lambda: (
        browser.text("[data-fact=month]") not in ("", month) and browser.text("[data-fact=month]")))
    return {
        "zoom_before": before, "zoom_after": after, "day": day, "previous_day": previous_day,
        "total": bytes_of(total), "filtered": bytes_of(filtered),
        "month": month, "previous_month": previous_month,
    }


# The zone, a day, when the day began and the next one, and when the next month began: seconds since 1970, by date(1).
CALENDAR = [
    ["Europe/Berlin", [2026, 10, 25], 1792879200, 1792969200, 1793487600],  # 25 hours
    ["Europe/Berlin", [2026, 3, 29], 1774738800, 1774821600, 1774994400],  # 23 hours
    ["America/St_Johns", [2026, 12, 31], 1798687800, 1798774200, 1798774200],
    ["UTC", [2028, 2, 29], 1835395200, 1835481600, 1835481600],
    # The clock is put forward at midnight.
    ["America/Santiago", [2026, 9, 6], 1788667200, 1788750000, 1790823600],
    ["America/Santiago", [2026, 9, 5], 1788580800, 1788667200, 1790823600],
    ["Atlantic/Azores", [2026, 3, 29], 1774746000, 1774828800, 1775001600],
]


def zones(browser, options):
    """Days and months of the host's clock, in a browser of any other zone."""

    def day(zone):
        """The day that the page shows to a browser in the zone."""
        browser.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": zone})
        browser.open("#/history?show=day", token=options.token)
        return browser.wait("a day", lambda: range_of(browser) and browser.text("[data-fact=day]"))

    days = [day(zone) for zone in ["UTC", "Pacific/Kiritimati", "Pacific/Niue", "UTC"]]
    # Midnight may come in between.
    if not set(days[1:3]) <= {days[0], days[3]}:
        raise Failure(f"browsers in four zones show the days {days}")
    for zone, date, begin, end, month in CALENDAR:
        made = browser.script("""
            const [zone, date] = arguments;
            return import("/page/zone.js").then(({ dayStart, dayOf, next }) => {
                const start = dayStart(...date, zone), first = dayStart(date[0], date[1], 1, zone);
                const ends = [next("day", start, zone), next("month", first, zone)];
                return [dayOf(start, zone), ...[start, ...ends].map((time) => time / 1000)];
            });""", zone, date)
        if made != [date, begin, end, month]:
            raise Failure(f"{date} in {zone} is {made}, and not {[date, begin, end, month]}")
    return {"days": days}


def audit(browser, options):
    """The lines with their exact bytes, and the verdict."""
    browser.open("#/audit" + (f"?interface={options.interface}" if options.interface else ""), token=options.token)

    def look_again():
        """While others move bytes, the counters of an interface may be of another moment than those of its sockets."""
        verdict = browser.attribute("[data-verdict]", "data-verdict")
        if verdict and verdict != "right":
            # Without the old verdict, so that this asks again only when the answer is there.
            browser.script("""
                document.querySelector('[data-verdict]').dataset.verdict = '';
                document.querySelector('[data-action=audit-again]').click()""")
        elif not verdict:
            # A daemon that has just begun has not read the packets at interfaces yet, and refuses.
            browser.script("""
                [...document.querySelectorAll('main button')].find((button) => button.textContent === 'Try again')
                    ?.click()""")
        return verdict == "right"

    browser.wait("the verdict `right`", look_again)
    verdict = browser.attribute("[data-verdict]", "data-verdict")
    sections = browser.script("""
        return [...document.querySelectorAll('table.waterfall')].map((table) => ({
            name: table.caption.textContent,
            lines: [...table.tBodies[0].rows].map((row) => ({
                line: row.dataset.line,
                sent: row.querySelector('[data-direction=sent]').textContent,
                received: row.querySelector('[data-direction=received]').textContent,
            })),
        }))""")
    for section in sections:
        for line in section["lines"]:
            for way in ("sent", "received"):
                text = line[way].replace(",", "").replace("+", "").replace("−", "-")
                line[way] = int(text) if text else None
    return {"verdict": verdict, "text": browser.text(".verdict"), "sections": sections}

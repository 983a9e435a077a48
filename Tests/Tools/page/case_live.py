"""What changes while one looks: bytes that grow, a pause, a daemon that restarts."""

import json
import re
import sys

from browser import Failure, digits
from case_rows import cells, row_of


def received(browser, selector):
    shown = cells(browser, selector)
    return shown and {way: digits(shown[way]["hint"]) for way in ("sent", "received")}


def live(browser, options):
    """Bytes of a process grow without a reload, in rows that stay the same elements."""
    browser.open(token=options.token)
    _, selector = row_of(browser, options.pid)
    browser.script("window.isSamePage = true; document.querySelector(arguments[0]).isSameRow = true", selector)
    first = received(browser, selector)
    browser.wait("more bytes", lambda: sum(received(browser, selector).values()) > sum(first.values()))
    second = received(browser, selector)
    is_same = browser.script("""
        return window.isSamePage === true && document.querySelector(arguments[0]).isSameRow === true""", selector)
    if not is_same:
        raise Failure("the page or the row was made anew")
    summary = browser.wait("a text of the chart", lambda: browser.script(
        "return document.querySelector('[data-summary=rate]').textContent"))
    return {"first": first, "second": second, "chart_summary": summary}


def pause(browser, options):
    """Space stops the numbers, and lets them go on."""
    browser.open(token=options.token)
    _, selector = row_of(browser, options.pid)
    browser.press(" ")
    banner = browser.wait("the word that the page is paused", lambda: browser.text("#banner"))
    first = received(browser, selector)
    browser.script("return new Promise((resolve) => setTimeout(resolve, 3000))")
    second = received(browser, selector)
    if first != second:
        raise Failure(f"the page is paused, and {first} became {second}")
    browser.press(" ")
    browser.wait("more bytes", lambda: sum(received(browser, selector).values()) > sum(second.values()))
    return {"banner": banner}


def largest_rate(browser):
    """The highest rate that the chart's text says, in bytes per second."""
    text = browser.script("return document.querySelector('[data-summary=rate]').textContent")
    rates = re.findall(r"([\d.]+) ([kMGTPEZ]?)B/s", text)
    if not rates:
        raise Failure(f"the chart's text has no rate: {text!r}")
    return max(float(number) * 1000 ** " kMGTPEZ".index(prefix or " ") for number, prefix in rates)


def rates(browser, options):
    """What the page keeps of rates: of seven made-up minutes the last five, and rows that moved something in them."""
    browser.open(token=options.token)
    seen = browser.driver.execute_async_script("""
        const [done] = arguments;
        import('/page/live.js').then(({ live }) => {
            const log = new live.rates.constructor();
            const rates = (sent) => ({ payload_sent_bytes_per_second: sent, payload_received_bytes_per_second: 0 });
            const add = (second, moved) => log.add({
                taken_at: new Date(second * 1000).toISOString(), totals: { rates: rates(9) },
                processes: Object.entries(moved).map(([process_id, sent]) => ({ process_id, rates: rates(sent) })),
            });
            const keys = () => [...log.rows.keys()].sort();
            const seen = {};
            for (let second = 0; second < 420; second += 1) {
                add(second, { early: second < 10 ? 7 : 0, steady: 5, idle: 0 });
                if (second === 200) seen.before = keys();
            }
            seen.after = keys();
            [seen.times, seen.steady] = structuredClone(log.series('steady'));
            seen.early = log.series('early')[1];
            log.gap();
            log.gap();
            seen.gap = log.series('total')[1].slice(-3);
            log.forgetTotal();
            seen.forgotten = [keys(), log.series('total')[1].at(0)];
            add(100, { steady: 1 });
            seen.back = log.series('steady');
            done(seen);
        })""")
    wanted = {
        "before": ["early", "steady", "total"], "after": ["steady", "total"],
        "times": list(range(120, 420)), "steady": [5] * 300, "early": [None] * 300,
        "gap": [9, 9, None], "forgotten": [["steady"], None], "back": [[100], [1], [0]],
    }
    for key, value in wanted.items():
        if seen[key] != value:
            raise Failure(f"the log of rates: {key} is {seen[key]}")
    return {}


def restart(browser, options):
    """What the page says while the daemon is gone and after it is back.

    Says `ready` on standard output, then the caller ends the daemon; says `lost`, then the caller starts it again. The
    caller may end and start it at once: then both are said.
    """
    browser.open(token=options.token)
    browser.wait_for("table[data-table=processes] tbody tr")
    before = largest_rate(browser)
    # The page takes a word away after a while, so it is kept here.
    browser.script("""
        window.words = {};
        const banner = document.querySelector('#banner');
        const keep = () => { if (banner.textContent) window.words[banner.dataset.state] = banner.textContent; };
        new MutationObserver(keep).observe(banner, { attributes: true, childList: true, subtree: true });""")

    def word(*states):
        words = browser.script("return window.words")
        return next((words[state] for state in states if words.get(state)), None)

    def say(word):
        print(json.dumps({"case": "restart", "now": word}), flush=True)

    say("ready")
    browser.wait("the word that the daemon does not answer", lambda: word("lost", "restarted"))
    say("lost")
    if not sys.stdin.isatty():
        sys.stdin.readline()
    back = browser.wait("the word that the daemon is back", lambda: word("restarted"))
    browser.wait_for("table[data-table=processes] tbody tr")
    # A spike would come with the first snapshots.
    browser.script("return new Promise((resolve) => setTimeout(resolve, 4000))")
    browser.wait("a page that looks as if the daemon were back",
                 lambda: not browser.script("return document.body.classList.contains('stale')"))
    after = largest_rate(browser)
    if after > 100 * before and after > 1e9:
        raise Failure(f"the restart made a spike: from at most {before:.0f} to {after:.0f} bytes per second")
    return {"back": back}

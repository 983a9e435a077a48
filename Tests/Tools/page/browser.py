"""A browser without a screen, and the ways in which the cases look at the page."""

import json
import time
import urllib.parse

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

# No case may fail because the machine is slow.
PATIENCE = 300


class Failure(Exception):
    """What is wrong, in one sentence."""


def start(options):
    """Starts Chrome. Selenium gives its driver half a minute, and a port that another program may take: then anew."""
    end = time.monotonic() + PATIENCE
    while True:
        service = Service("/usr/bin/chromedriver")
        try:
            return webdriver.Chrome(service=service, options=options)
        except WebDriverException:
            service.stop()
            if time.monotonic() > end:
                raise


class Browser:
    def __init__(self, url, width=1440, height=900):
        options = Options()
        host = urllib.parse.urlsplit(url).hostname
        arguments = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--no-first-run", "--disable-background-networking", "--force-color-profile=srgb",
                     "--ignore-certificate-errors", f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {host}")
        for argument in arguments:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        options.set_capability("unhandledPromptBehavior", "ignore")
        self.driver = start(options)
        self.driver.set_page_load_timeout(PATIENCE)
        self.driver.set_script_timeout(PATIENCE)
        self.url = url
        self.console = []
        self.requests = []
        self.resize(width, height)

    def close(self):
        self.driver.quit()

    def resize(self, width, height):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def open(self, route="", token=None):
        """Loads the page anew, at a place of it such as `#/apis`."""
        if token:
            self.driver.get(self.url)
            self.script("sessionStorage.setItem('trafficd-token', arguments[0])", token)
        self.driver.get("about:blank")
        self.driver.get(self.url + route)
        return self

    def go(self, route):
        self.script("location.hash = arguments[0]", route)

    def view(self, name):
        """Shows one of the eight views."""
        self.go(f"#/{name}")
        link = f"#views [data-view={name}]"
        self.wait(f"the view {name}", lambda: self.attribute(link, "aria-current") == "page")

    def theme(self, theme):
        self.script("""
            const values = JSON.parse(localStorage.getItem('trafficd-page') ?? '{}');
            localStorage.setItem('trafficd-page', JSON.stringify({ ...values, theme: arguments[0] }))""", theme)

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def wait(self, what, read, patience=PATIENCE):
        """Waits until `read()` returns something true, and returns that."""
        end = time.monotonic() + patience
        while True:
            value = read()
            if value:
                return value
            if time.monotonic() > end:
                raise Failure(f"after {patience} s still not: {what}. The page says: {self.text('main')[:600]!r}")
            time.sleep(0.1)

    def wait_for(self, selector):
        return self.wait(f"an element {selector}", lambda: self.shown(selector))[0]

    def shown(self, selector):
        return self.script("""
            return [...document.querySelectorAll(arguments[0])]
                .filter((element) => element.checkVisibility())""", selector)

    def text(self, selector):
        return self.script("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def attribute(self, selector, name):
        return self.script("return document.querySelector(arguments[0])?.getAttribute(arguments[1])", selector, name)

    def press(self, *keys):
        """Presses keys wherever the focus is, as a user without a mouse does."""
        for key in keys:
            webdriver.ActionChains(self.driver).send_keys(key).perform()

    def collect(self):
        """Takes the browser's logs, which can be read once: what the console said, and which requests were made."""
        self.console += [entry for entry in self.driver.get_log("browser")]
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
        return self

    def errors(self, expected=()):
        """Errors of scripts and of the security policy. `expected` has parts of those that a case causes itself."""
        self.collect()
        return [entry["message"] for entry in self.console
                if entry["level"] == "SEVERE" and not any(part in entry["message"] for part in expected)]

    def foreign_requests(self):
        self.collect()
        own = self.url.split("/", 3)[:3]
        schemes = ("data:", "blob:", "about:", "chrome:", "chrome-")
        return [url for url in self.requests if url.split("/", 3)[:3] != own and not url.startswith(schemes)]


ROWS = """
    const rowsOf = (table) => [...document.querySelectorAll(`table[data-table=${table}] tbody tr`)]
        .map((row) => Object.fromEntries([...row.cells].map((cell) => [cell.dataset.column ?? cell.dataset.value ?? 'name',
            (cell.querySelector('[title]') ?? cell).title || cell.textContent])));"""


def rows_of(browser, table):
    """The cells of each row, by column: the exact number in the hint, where there is one."""
    return browser.script(f"{ROWS} return rowsOf(arguments[0])", table)


def bytes_of(row):
    return {way: digits(row[way]) for way in ("sent", "received")}


def digits(text):
    """The exact bytes in `1.23 MB (1,234,567 bytes)`, `12 B` or a hint `1,234,567 bytes`; None if it is unknown."""
    part = text.split("(")[-1] if "(" in text else text
    number = part.replace(",", "").split()[0] if part.strip() else ""
    return int(number) if number.isdigit() else None


__all__ = ["Browser", "By", "Failure", "Keys", "PATIENCE", "ROWS", "bytes_of", "digits", "rows_of"]

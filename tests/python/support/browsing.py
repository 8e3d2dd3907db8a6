"""Pages in a real browser without a window: Debian's chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
_SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)

# The elements whose own text has too little contrast with what is behind it: WCAG 2.2, 1.4.3.
_PALE = """
const number = (text) => text.match(/[\\d.]+/g).map(Number);
const linear = (part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
function behind(element) {
  for (; element; element = element.parentElement) {
    const color = number(getComputedStyle(element).backgroundColor);
    if (color.length < 4 || color[3] === 1) return color;
  }
  return [255, 255, 255];
}
return Array.from(document.querySelectorAll("body *")).filter((element) => {
  const own = Array.from(element.childNodes).some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || !element.checkVisibility() || element.closest("script")) return false;
  const style = getComputedStyle(element);
  const pair = [light(number(element.closest("svg") ? style.fill : style.color)), light(behind(element))];
  return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05) < 4.5;
}).map((element) => `${element.tagName}.${element.getAttribute("class")}: ${element.textContent.trim()}`);
"""

# What a screen reader would stumble over.
_UNNAMED = """
const found = [];
const ids = Array.from(document.querySelectorAll("[id]"), (element) => element.id);
if (new Set(ids).size !== ids.length) found.push("an id that two elements have");
for (const element of document.querySelectorAll("[aria-labelledby]"))
  if (!document.getElementById(element.getAttribute("aria-labelledby"))?.textContent.trim())
    found.push(`no name for ${element.tagName}`);
for (const element of document.querySelectorAll("svg, [role=region], [role=group], nav, iframe"))
  if (!element.matches("[aria-label], [aria-labelledby], [title]"))
    found.push(`no name for ${element.tagName}`);
for (const element of document.querySelectorAll("button, a, summary"))
  if (!element.textContent.trim()) found.push(`an empty ${element.tagName}`);
let before = 0;
for (const element of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
  const level = Number(element.tagName[1]);
  if (level > before + 1) found.push(`${element.tagName} follows H${before}`);
  before = level;
}
if (document.querySelectorAll("main").length !== 1) found.push("not one main part");
return found;
"""


class Browser:
    """One browser, which shows one page after the other."""

    def __init__(self, driver: Any, folder: Path) -> None:
        self._driver = driver
        self._folder = folder

    def show(self, html: str, width: int = 1100, theme: str = "light") -> None:
        file = self._folder / "page.html"
        file.write_text(html, encoding="utf-8")
        feature = {"name": "prefers-color-scheme", "value": theme}
        self._command("Emulation.setEmulatedMedia", {"features": [feature]})
        self._size(width, 900)
        self._driver.get(file.as_uri())

    def _command(self, name: str, values: dict[str, Any]) -> None:
        self._driver.execute_cdp_cmd(name, values)

    def _size(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._command("Emulation.setDeviceMetricsOverride", size)

    def run(self, script: str) -> Any:
        return self._driver.execute_script(script)

    def press(self, keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self._driver).send_keys(keys).perform()

    def messages(self) -> list[dict[str, Any]]:
        """What the console has got since this was asked last."""
        messages: list[dict[str, Any]] = self._driver.get_log("browser")
        return messages

    def picture(self, file: Path, width: int, height: int) -> None:
        self._size(width, height)
        self.run("return document.body.offsetHeight")
        self._driver.save_screenshot(str(file))

    def pdf(self) -> str:
        text: str = self._driver.print_page()
        return text

    def pale(self) -> list[str]:
        found: list[str] = self.run(_PALE)
        return found

    def unnamed(self) -> list[str]:
        found: list[str] = self.run(_UNNAMED)
        return found

    @contextmanager
    def inside(self, selector: str) -> Iterator[None]:
        """In the frame that SELECTOR finds."""
        self._driver.switch_to.frame(self._driver.find_element("css selector", selector))
        yield
        self._driver.switch_to.default_content()


@contextmanager
def browser_in(folder: Path) -> Iterator[Browser]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for switch in (*_SWITCHES, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield Browser(driver, folder)
    finally:
        driver.quit()

"""The page in a headless Chromium, as a person uses it: by mouse, by keyboard, on a narrow screen."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote_plus

import httpx
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from mrag.models.scripted import Rule
from serve.access import Keyring
from tests.harbour import ALMA, ANSWER, FERRY, RULES, Harbour
from tests.served import keyring, listening

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver")

OPTIONS = (
    "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking "
    "disable-component-update disable-sync"
)
QUESTION = "When was Alma built?"


class Page:
    """One window of a browser."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> Page:
        self.driver.get(url)
        return self

    def one(self, css: str) -> WebElement:
        """The first such element, once it is there and shown."""
        self.until(lambda: any(found.is_displayed() for found in self.all(css)))
        return next(found for found in self.all(css) if found.is_displayed())

    def all(self, css: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def text(self, css: str) -> str:
        return self.one(css).text

    def until(self, holds: Callable[[], bool]) -> None:
        WebDriverWait(self.driver, 10, 0.05).until(lambda _: holds())

    def ask(self, question: str = QUESTION) -> None:
        self.one("#question").send_keys(question + Keys.ENTER)

    def errors(self) -> list[str]:
        """What the console says of faults and refused resources."""
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for name in [*OPTIONS.split(), f"user-data-dir={tmp_path_factory.mktemp('chromium')}"]:
        options.add_argument(f"--{name}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield browser
    browser.quit()


@pytest.fixture
def page(driver: webdriver.Chrome) -> Page:
    driver.set_window_size(1000, 1000)
    return Page(driver)


def harbour(root: Path, rules: Sequence[Rule] = RULES, keys: Keyring | None = None) -> Harbour:
    """One whose collections are searched as they are configured."""
    method = {"retrieval": {"name": "keys"}, "reader": {"name": "sane", "w": 2, "k": 1}}
    return Harbour(root, rules, keys, method=method)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with listening(harbour(tmp_path).api) as url:
        yield url


def test_a_question_is_answered_and_its_citation_leads_to_the_quote(page: Page, url: str) -> None:
    page.open(url).ask()
    page.until(lambda: page.text("#answer") == f"{ANSWER} [1]")
    stages = [stage.text.split()[0] for stage in page.all("#stages li")]
    assert stages == ["retrieve", "select", "extract", "generate"]
    assert ALMA in page.text("#rows tbody tr")
    assert page.one("#rows tbody tr").get_attribute("class") == "cited"
    page.one("#answer a").click()
    assert page.driver.switch_to.active_element.get_attribute("id") == "row-1"
    page.one("#rows a").click()
    page.until(lambda: page.text("#document-title") == f"About {FERRY}")
    assert page.text("#units .cited mark") == ALMA
    page.driver.back()
    assert page.text("#answer") == f"{ANSWER} [1]"
    assert page.errors() == []


def test_the_pool_shows_what_was_selected(page: Page, url: str) -> None:
    page.open(url).ask()
    page.one("#pool summary").click()
    page.until(lambda: len(page.all("#candidates li")) == 2)
    selected = [
        item for item in page.all("#candidates li") if item.find_elements(By.CSS_SELECTOR, ".selected")
    ]
    assert len(selected) == 1
    assert page.errors() == []


def test_a_quote_with_an_elision_is_marked_from_end_to_end(page: Page, url: str) -> None:
    first, *_, last = ALMA.split()
    quote = quote_plus(f"{first} … {last}")
    page.open(f"{url}/#document=boats%2Falma%20%231.md&collection=harbour&units=1&quote={quote}")
    page.until(lambda: page.text("#units .cited mark") == ALMA)


def test_a_document_shows_who_points_to_its_units(page: Page, url: str) -> None:
    page.open(f"{url}/#document=boats%2Falma%20%231.md&collection=harbour")
    unit = page.one("#unit-1")
    assert "marker" in (unit.get_attribute("class") or "")
    assert "unit 1: 1 record" in unit.text
    page.one("#unit-1 summary").click()
    assert "When was Alma built?" in page.text("#unit-1 .records li")


def test_a_citation_of_the_chat_opens_the_document_at_its_quote(page: Page, url: str) -> None:
    body = {"model": "harbour:sane", "messages": [{"role": "user", "content": QUESTION}]}
    message = httpx.post(f"{url}/v1/chat/completions", json=body).json()["choices"][0]["message"]
    page.open(message["annotations"][0]["url_citation"]["url"])
    page.until(lambda: page.text("#document-title") == f"About {FERRY}")
    assert page.text("#units .cited mark") == ALMA


def test_everything_can_be_reached_by_keyboard(page: Page, url: str) -> None:
    page.open(url).ask()
    page.one("#rows a")
    reached = set()
    for _ in range(20):
        active = page.driver.switch_to.active_element
        reached.add(active.get_attribute("id") or active.tag_name)
        active.send_keys(Keys.TAB)
    assert {"question", "collection", "reader", "send", "a", "summary"} <= reached


def test_a_narrow_screen_needs_no_scrolling_sideways(page: Page, url: str) -> None:
    phone = {"width": 320, "height": 700, "deviceScaleFactor": 1, "mobile": True}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        page.open(url).ask()
        page.one("#rows a")
        page.one("#pool summary").click()
        page.one("#candidates li")
        width = page.driver.execute_script(  # type: ignore[no-untyped-call]
            "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert width == [320, 320]
        assert page.errors() == []
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_collection_is_chosen_from_those_there_are(page: Page, url: str) -> None:
    page.open(url)
    page.until(lambda: len(page.all("#collection option")) == 3)
    assert [option.text for option in page.all("#collection option")] == ["as configured", "harbour", "quay"]
    page.one("#collection").send_keys("quay")
    page.ask("How long is the quay?")
    page.until(lambda: "quay" in page.text("#source-list, #context"))


def test_markup_in_documents_and_replies_stays_text(page: Page, tmp_path: Path) -> None:
    hostile = "<img src=x onerror=\"document.title='gone'\"><b>Alma</b>"
    rules = (*RULES[:2], Rule(hostile, purpose="answer"))
    with listening(harbour(tmp_path, rules).api) as url:
        page.open(url).ask()
        page.until(lambda: hostile in page.text("#answer"))
        assert not page.all("#answer img, #answer b")
        assert page.driver.title == "mrag"


def test_a_service_with_tokens_asks_for_one(page: Page, tmp_path: Path) -> None:
    with listening(harbour(tmp_path, keys=keyring("secret")).api) as url:
        page.open(url)
        page.one("#token").send_keys("secret" + Keys.ENTER)
        page.until(lambda: len(page.all("#collection option")) == 3)
        page.ask()
        page.until(lambda: page.text("#answer") == f"{ANSWER} [1]")


def test_a_citation_of_a_service_with_tokens_asks_for_one_and_then_opens(page: Page, tmp_path: Path) -> None:
    with listening(harbour(tmp_path, keys=keyring("secret")).api) as url:
        page.open(f"{url}/#document=boats%2Falma%20%231.md&collection=harbour&units=1")
        page.one("#token").send_keys("secret" + Keys.ENTER)
        page.until(lambda: page.text("#document-title") == f"About {FERRY}")
        assert page.one("#units .cited").text.startswith(ALMA)
        assert not page.all("#token")[0].is_displayed()


def test_a_second_question_takes_the_place_of_the_first(page: Page, tmp_path: Path) -> None:
    slow = Rule({"selected": [1]}, purpose="select", contains=("The first question",), delay_s=20)
    with listening(harbour(tmp_path, (slow, *RULES)).api) as url:
        page.open(url).ask("The first question about Alma?")
        page.until(lambda: page.text("#status") == "Selecting candidates…")
        page.one("#question").clear()
        page.ask("When was Alma built?")
        page.until(lambda: page.text("#answer") == f"{ANSWER} [1]")
        assert page.all("#status")[0].text == ""


def test_what_the_service_refuses_is_told_in_its_own_words(page: Page, tmp_path: Path) -> None:
    with listening(harbour(tmp_path).api) as url:
        page.open(f"{url}/#document=nothing.md&collection=harbour")
        assert "has no document 'nothing.md'" in page.text("#document-error")
    page.driver.execute_script("location.hash = ''")  # type: ignore[no-untyped-call]
    page.ask("Is anybody there?")
    page.until(lambda: page.text("#error") == "The service can't be reached: is it running?")


def test_a_running_question_can_be_stopped(page: Page, tmp_path: Path) -> None:
    rules = (Rule({"selected": [1]}, purpose="select", delay_s=30), *RULES[1:])
    with listening(harbour(tmp_path, rules).api) as url:
        page.open(url).ask()
        page.one("#stop").click()
        page.until(lambda: page.text("#status") == "Stopped.")
        assert page.all("#answer")[0].text == ""


def test_the_page_may_load_and_call_nothing_from_elsewhere(url: str) -> None:
    for path in ("/", "/static/page.js", "/static/page.css"):
        headers = httpx.get(url + path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    for text in (httpx.get(url + path).text for path in ("/", "/static/page.js", "/static/page.css")):
        assert "http://" not in text
        assert "https://" not in text

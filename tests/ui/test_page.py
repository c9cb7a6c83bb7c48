"""The status page in a real browser, in front of a real gateway with a simulated Ollama and a backend that is not there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway.server.app import App
from tests.support.browser import DOWN, ENTER, ESCAPE, TAB, Browser
from tests.support.clients import fetch
from tests.support.fake_ollama import FakeOllama
from tests.support.process import free_port
from tests.ui import scene

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.needs("chromedriver"), pytest.mark.asyncio(loop_scope="module")]

PHONE, DESK = 375, 1280
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "stream": True}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with Browser(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def browser(chromium: Browser) -> Browser:
    """The browser of all tests here, as new: each gateway has a port, and so a storage, of its own."""
    await chromium.go("about:blank")
    await chromium.resize(DESK, dark=False)
    await chromium.look()
    chromium.messages.clear()
    chromium.requests.clear()
    return chromium


@pytest_asyncio.fixture(loop_scope="module")
async def backends() -> AsyncIterator[dict[str, Any]]:
    async with FakeOllama() as ollama:
        await fetch(f"{ollama.url}/api/chat", CHAT)  # loads the model
        yield {
            "desk": {"kind": "ollama", "url": ollama.url},
            "attic": {"kind": "vllm", "url": f"http://127.0.0.1:{free_port()}"},
        }


@pytest_asyncio.fixture(loop_scope="module")
async def app(tmp_path: Path, backends: dict[str, Any]) -> AsyncIterator[App]:
    async with scene.gateway(tmp_path, backends) as app:
        scene.fill(app.gateway)
        yield app


def data_port(app: App) -> str:
    host, port = next(iter(app.sites.values())).bound
    return f"http://{host}:{port}"


async def assert_calm(browser: Browser) -> None:
    """Nothing in the console, no other host, no markup from names."""
    await browser.look()
    assert browser.messages == []
    assert browser.hosts == {"127.0.0.1"}
    assert await browser.run("return document.title") == "Warmgate"
    assert await browser.run("return document.querySelectorAll('main img, dialog img, body script').length") == 0


async def test_a_request_appears_while_it_is_watched(app: App, browser: Browser) -> None:
    await browser.go(scene.page_of(app))
    await browser.wait("#link", "live")
    assert await browser.find("#rows tr[data-id='live-1']") == []
    reply = await fetch(f"{data_port(app)}/api/chat", CHAT, ("X-Request-Id", "live-1"), ("User-Agent", "a-watched-agent"))
    assert reply.status == 200
    await browser.wait("#rows tr:first-child[data-id='live-1']", "a-watched-agent")
    assert "until" in await browser.text("#backends .models")
    scene.start(app.gateway, "live-2", 1001)
    await browser.wait("#running", "1 request running")
    scene.start(app.gateway, "live-2", 1002)  # an id of the client's that is used twice
    await browser.wait("#running", "2 requests running")
    reply = await fetch(f"{data_port(app)}/api/chat", CHAT, ("X-Request-Id", "live-1"), ("User-Agent", "a-second-agent"))
    await browser.wait("#rows tr:first-child[data-id='live-1']", "a-second-agent")
    assert len(await browser.find("#rows tr[data-id='live-1']")) == 2
    await assert_calm(browser)


async def test_the_headline_counts_what_is_known(app: App, browser: Browser) -> None:
    await browser.go(scene.page_of(app))
    await browser.wait("#window", "Over the last 32 requests")
    rows = app.gateway.log.rows()
    known = [row for row in rows if row["cached"] is not None]
    reused = sum(row["cached"] for row in known) / sum(row["prompt"] for row in known)
    assert f"{100 * reused:.0f} %" in await browser.text("#reused .value")
    assert "1 inferred; 1 not reported" in await browser.text("#reused .note")
    own = sum(row["saved"]["canonical"] for row in rows)
    assert await browser.text("#saved .value") == f"{own // 60:.0f} min {own % 60:.0f} s"
    assert "cold" in await browser.text("#ttft .value")
    assert (await browser.text("#breakers li")).split("\n")[:2] == ["system changed · identity", "16.8 s"]


async def test_keys_open_the_explanation_with_the_diff(app: App, browser: Browser) -> None:
    await browser.go(scene.page_of(app))
    await browser.wait("#rows tr", "system changed")
    await browser.run("document.querySelector('#rows tr').focus()")
    await browser.press(*[DOWN] * 6, ENTER)  # from hostile-1, the newest, to cold-1
    await browser.wait("#drawer-title", "System changed")
    assert "09:15:33" in await browser.text(".diff pre")
    assert await browser.run("return [...document.querySelectorAll('.diff del, .diff ins')].map((e) => e.textContent)") == [
        "09:15:33",
        "09:16:41",
    ]
    assert "In identity, at byte 62. The rule clock knows such changes." in await browser.text(".difference")
    assert "canonical: { mode: rewrite }" in await browser.text(".fix")
    assert "640 of 2.6k reused" in await browser.text(".sections")
    await browser.reload()  # the address names the request
    await browser.wait("#drawer-title", "System changed")
    await browser.press(ESCAPE)
    await browser.run("document.querySelector('#rows tr').focus()")
    await browser.press(*[DOWN] * 6, ENTER)
    await browser.wait("#drawer-title", "System changed")
    await browser.press(ESCAPE)
    assert await browser.run("return [document.querySelector('#drawer').open, document.activeElement.dataset.id]") == [
        False,
        "cold-1",
    ]
    await browser.press(TAB)
    assert await browser.run("return document.activeElement.closest('#rows')") is None  # one stop for the whole table
    await assert_calm(browser)


async def test_what_the_gateway_itself_explains(tmp_path: Path, backends: dict[str, Any], browser: Browser) -> None:
    """Nothing prepared: two requests with another time in them, as the gateway logs and explains them."""
    async with scene.gateway(tmp_path, backends, canonical={"mode": "off"}, explain={"store": "text"}) as app:
        for minute in (15, 16):
            text = f"You are Pelle. {'Be kind. ' * 400}\nCurrent time: 2026-10-02 09:{minute}:33\n{'Be brief. ' * 400}"
            messages = [{"role": "system", "content": text}, *CHAT["messages"]]
            await fetch(f"{data_port(app)}/api/chat", {**CHAT, "messages": messages}, ("X-Request-Id", f"at-{minute}"))
        await browser.go(scene.page_of(app))
        await browser.click(await browser.wait("#rows tr[data-id='at-16']", "system changed · place and time"))
        await browser.wait("#drawer-title", "System changed")
        assert "09:15:33" in await browser.text(".diff del")
        assert "09:16:33" in await browser.text(".diff ins")
        assert "clock" in await browser.text(".sentence")
        assert "`" not in await browser.text("#drawer")
        await browser.click(await browser.wait("#drawer-body button", "at-15"))
        await browser.wait("#drawer-title", "First seen")
    await browser.wait("#link", "connection lost")


async def test_a_click_opens_and_filters_choose(app: App, browser: Browser) -> None:
    await browser.go(scene.page_of(app))
    await browser.wait("#rows tr", "tools changed")
    await browser.run("""const select = document.querySelector("[name='reason']");
        select.value = "tools_changed"; select.dispatchEvent(new Event("change", { bubbles: true }))""")
    assert await browser.run("return [...document.querySelectorAll('#rows tr')].map((row) => row.dataset.id)") == ["cold-3"]
    await browser.click((await browser.find("#rows tr"))[0])
    await browser.wait("#drawer-title", "Tools changed")
    await browser.click(await browser.wait("#drawer-body button", "warm-1"))
    await browser.wait("#drawer-body", "had no prompt that could be compared")


async def test_without_the_text_the_place_is_shown(app: App, browser: Browser) -> None:
    place = {"section": "history", "offset": 2048, "exact": False, "within": 1024, "before": None, "after": None}
    scene.add(app.gateway, scene.record("digest-1", **scene.COLD), scene.explanation("digest-1", difference=place))
    await browser.go(scene.page_of(app))
    await browser.click(await browser.wait("#rows tr[data-id='digest-1']"))
    await browser.wait(".difference", "In history, near byte 2048, within 1024 bytes.")
    assert "explain: { store: text }" in await browser.text(".difference")
    assert await browser.find(".diff") == []


async def test_hostile_names_are_text(app: App, browser: Browser) -> None:
    await browser.go(scene.page_of(app))
    row = await browser.wait("#rows tr[data-id='hostile-1']", scene.HOSTILE)
    await browser.click(row)
    await browser.wait("#drawer .sentence", scene.HOSTILE)
    assert await browser.run("return [...document.querySelector(\"[name='model']\").options].map((o) => o.value)") == [
        "", scene.HOSTILE, "gemma-3-27b-it-qat", "qwen3:8b",
    ]  # fmt: skip
    await assert_calm(browser)


async def test_a_restarted_gateway_is_found_again(tmp_path: Path, backends: dict[str, Any], browser: Browser) -> None:
    admin = f"127.0.0.1:{free_port()}"
    async with scene.gateway(tmp_path, backends, admin=admin) as app:
        scene.add(app.gateway, scene.record("before"))
        await browser.go(scene.page_of(app))
        await browser.wait("#rows tr[data-id='before']")
    await browser.wait("#link", "connection lost")
    async with scene.gateway(tmp_path, backends, admin=admin) as app:
        scene.add(app.gateway, scene.record("after"))
        await browser.wait("#link", "live")
        await browser.wait("#rows tr[data-id='after']")
        assert await browser.find("#rows tr[data-id='before']") == []


@pytest.mark.needs("module:axe_core_python")
async def test_signing_in_and_out(tmp_path: Path, backends: dict[str, Any], browser: Browser) -> None:
    async with scene.gateway(tmp_path, backends, token="sesame") as app:
        scene.fill(app.gateway)
        await browser.go(scene.page_of(app))
        await browser.type(await browser.wait("#token"), "wrong" + ENTER)
        await browser.wait("#signin-fault", "This is not the token")
        assert await browser.find("#rows tr") == []
        assert await violations(browser) == []
        await browser.type((await browser.find("#token"))[0], "sesame" + ENTER)
        await browser.wait("#rows tr[data-id='cold-1']")
        assert await browser.run("return document.cookie") == ""
        await browser.reload()
        await browser.wait("#rows tr[data-id='cold-1']")
        await browser.click(await browser.wait("#signout"))
        await browser.wait("#signin")
        await browser.reload()
        await browser.wait("#signin")


@pytest.mark.parametrize(
    ("system_dark", "turns", "dark"), [(False, 0, False), (True, 0, True), (False, 1, True), (True, 2, False)]
)
async def test_both_themes(app: App, browser: Browser, system_dark: bool, turns: int, dark: bool) -> None:
    await browser.resize(DESK, dark=system_dark)
    await browser.go(scene.page_of(app))
    for _ in range(turns):
        await browser.click(await browser.wait("#theme"))
    await browser.reload()  # what was chosen is kept
    await browser.wait("#rows tr")
    ground = await browser.run("return getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(ground) < 64) is dark


@pytest.mark.needs("module:axe_core_python")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [DESK, PHONE])
async def test_accessible_at_every_width(app: App, browser: Browser, width: int, dark: bool) -> None:
    await browser.resize(width, dark=dark)
    await browser.go(scene.page_of(app))
    row = await browser.wait("#rows tr[data-id='cold-1']")
    assert await overflow(browser) == 0
    assert await violations(browser) == []
    await browser.click(row)
    await browser.wait(".diff")
    await asyncio.sleep(0.2)  # the drawer slides in
    assert await overflow(browser) == 0
    assert await violations(browser) == []
    await assert_calm(browser)


async def overflow(browser: Browser) -> int:
    """Pixels that the page is wider than the screen."""
    return int(
        await browser.run("const { scrollWidth, clientWidth } = document.documentElement; return scrollWidth - clientWidth")
    )


async def violations(browser: Browser) -> list[tuple[str, str, str]]:
    """What axe-core finds: rule, impact, and the first element. All impacts count."""
    if not await browser.run("return 'axe' in window"):
        spec = find_spec("axe_core_python")
        assert spec is not None
        assert spec.submodule_search_locations
        await browser.run((Path(spec.submodule_search_locations[0]) / "axe.min.js").read_text())
    found = await browser.run("return axe.run({ resultTypes: ['violations'] }).then((result) => result.violations)")
    return [(item["id"], item["impact"], item["nodes"][0]["html"]) for item in found]

"""Headless Chromium, driven by chromedriver's WebDriver protocol.

    async with Browser(tmp_path) as browser:
        await browser.go(f"{gateway.admin}/ui/")
        row = await browser.wait("#rows tr")
        await browser.press(row, ENTER)
        assert await browser.text("#drawer-title") == "System changed"
        assert browser.hosts == {"127.0.0.1"}

Both programs are ended at the end of the block. Everything that Chromium may ask of other hosts by itself is switched off.
"""

from __future__ import annotations

import asyncio
import base64
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import orjson

from tests.support.process import free_port

ENTER, ESCAPE, TAB, DOWN = "\ue007", "\ue00c", "\ue004", "\ue015"
"""Keys that have no character, as the protocol spells them: W3C WebDriver, section 17.4.2."""

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key of an element's reference: W3C WebDriver, section 12."""

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)

WITHIN = 10.0  # seconds that `wait` waits

Element = dict[str, str]


class Browser:
    """One Chromium with a profile of its own. directory: for the profile and the driver's log."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._session = ""
        self._driver: asyncio.subprocess.Process
        self._http: httpx.AsyncClient
        self.messages: list[dict[str, Any]] = []  # of the console, as far as `look` has read it
        self.requests: list[str] = []  # addresses, likewise

    async def __aenter__(self) -> Self:
        port = free_port()
        with (self._directory / "chromedriver.log").open("ab") as log:
            self._driver = await asyncio.create_subprocess_exec(
                "chromedriver", f"--port={port}", stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30.0, trust_env=False)
        try:
            await self._ready()
            await self._begin()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session:
            await self._command("DELETE", "")
        await self._end()

    # pages

    async def go(self, url: str) -> None:
        await self._command("POST", "/url", {"url": url})

    async def reload(self) -> None:
        await self._command("POST", "/refresh", {})

    async def resize(self, width: int, height: int = 900, *, dark: bool | None = None) -> None:
        """The size of the page itself, as on a phone; dark: what the system prefers, None leaves it."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        await self._devtools("Emulation.setDeviceMetricsOverride", size)
        if dark is not None:
            feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            await self._devtools("Emulation.setEmulatedMedia", {"features": [feature]})

    async def screenshot(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(await self._command("GET", "/screenshot")))

    async def run(self, script: str, *arguments: Any) -> Any:
        """The value that this JavaScript returns, promises awaited."""
        return await self._command("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    # elements, by CSS selector

    async def find(self, selector: str) -> list[Element]:
        found: list[Element] = await self._command("POST", "/elements", {"using": "css selector", "value": selector})
        return found

    async def wait(self, selector: str, text: str = "", within: float = WITHIN) -> Element:
        """The first visible element of this kind that holds this text, as soon as there is one. Raises AssertionError."""
        script = """return [...document.querySelectorAll(arguments[0])]
            .find((element) => element.checkVisibility() && element.textContent.includes(arguments[1])) ?? null"""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            if (found := await self.run(script, selector, text)) is not None:
                return dict(found)
            await asyncio.sleep(0.05)
        raise AssertionError(f"no {selector} with {text!r}; the page says:\n{await self.text('body')}")

    async def text(self, selector: str) -> str:
        """As it is seen, of the first of its kind."""
        return str(await self.run("return document.querySelector(arguments[0]).innerText", selector))

    async def click(self, element: Element) -> None:
        await self._command("POST", f"/element/{element[ELEMENT]}/click", {})

    async def type(self, element: Element, text: str) -> None:
        await self._command("POST", f"/element/{element[ELEMENT]}/value", {"text": text})

    async def press(self, *keys: str) -> None:
        """Press and release keys where the focus is."""
        strokes = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        await self._command("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": strokes}]})

    # what the browser did

    async def look(self) -> None:
        """Read the console and the network log up to now into `messages` and `requests`."""
        self.messages += await self._command("POST", "/se/log", {"type": "browser"})
        for entry in await self._command("POST", "/se/log", {"type": "performance"}):
            event = orjson.loads(entry["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                self.requests.append(event["params"]["request"]["url"])

    @property
    def hosts(self) -> set[str | None]:
        """Hosts that pages were loaded from or asked something of."""
        parts = [urlsplit(url) for url in self.requests]
        return {part.hostname for part in parts if part.scheme not in ("data", "blob", "chrome", "about")}

    # the protocol

    async def _ready(self) -> None:
        deadline = time.monotonic() + WITHIN
        while time.monotonic() < deadline:
            try:
                if (await self._http.get("/status")).json()["value"]["ready"]:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.05)
        raise AssertionError("chromedriver does not answer")

    async def _begin(self) -> None:
        options = {"args": [*FLAGS, f"--user-data-dir={self._directory / 'profile'}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        answer = await self._http.post("/session", json={"capabilities": {"alwaysMatch": wanted}})
        value = answer.json()["value"]
        assert "sessionId" in value, value.get("message", value)
        self._session = value["sessionId"]

    async def _end(self) -> None:
        await self._http.aclose()
        if self._driver.returncode is None:
            self._driver.terminate()
        try:
            await asyncio.wait_for(self._driver.wait(), 5.0)
        except TimeoutError:
            self._driver.kill()
            await self._driver.wait()

    async def _devtools(self, method: str, params: dict[str, Any]) -> None:
        await self._command("POST", "/goog/cdp/execute", {"cmd": method, "params": params})

    async def _command(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Raises AssertionError with the driver's own words."""
        answer = await self._http.request(method, f"/session/{self._session}{path}", json=body)
        value = answer.json()["value"]
        if answer.status_code != 200:
            raise AssertionError(f"{method} {path}: {value['error']}: {value['message']}")
        return value

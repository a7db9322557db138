"""Control of a page in headless Chromium through the DevTools protocol."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

from tests.browser import CHROMIUM, SWITCHES

SHIFT, CONTROL = 8, 2
PATIENCE = 30.0


class Browser:
    """A connection to Chromium through two pipes."""

    def __init__(self, write: int, read: int) -> None:
        self.write = write
        self.read = read
        self.unread = b""
        self.numbers = count(1)
        self.events: list[dict[str, Any]] = []
        self.session: str | None = None

    @cached_property
    def tab(self) -> str:
        """The tab that all pages share, because a new one takes as long as most tests."""
        target: str = self.send("Target.createTarget", url="about:blank")["targetId"]
        return target

    def attach(self) -> str:
        """Start a session without the events and the screen size of the last one."""
        if self.session is not None:
            self.send("Target.detachFromTarget", sessionId=self.session)
        began = self.send("Target.attachToTarget", targetId=self.tab, flatten=True)
        self.session = began["sessionId"]
        return self.session

    def send(self, method: str, session: str | None = None, **params: Any) -> Any:
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params}
        message |= {"sessionId": session} if session else {}
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _receive(self) -> Any:
        while b"\0" not in self.unread:
            more = os.read(self.read, 1 << 16)
            assert more, "Chromium is gone"
            self.unread += more
        message, _, self.unread = self.unread.partition(b"\0")
        return json.loads(message)


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """Start Chromium with pipes instead of a port."""
    (to_it, ours), (from_it, its) = os.pipe(), os.pipe()
    command = [
        "bash",
        "-c",
        f'exec "$@" 3<&{to_it} 4>&{its}',
        "bash",
        CHROMIUM,
        *SWITCHES,
        f"--user-data-dir={folder}",
        "--remote-debugging-pipe",
    ]
    process = subprocess.Popen(
        command, pass_fds=(to_it, its), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(to_it)
    os.close(its)
    browser = Browser(ours, from_it)
    try:
        yield browser
    finally:
        browser.send("Browser.close")
        process.wait(PATIENCE)
        os.close(from_it)
        os.close(ours)


class Page:
    """A page with a pointer, fingers and keys."""

    def __init__(
        self,
        browser: Browser,
        uri: str,
        width: int = 1000,
        height: int = 700,
        *,
        dark: bool = False,
    ) -> None:
        self.browser = browser
        self.session = browser.attach()
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Network.enable")
        self.send("Runtime.enable")
        self.go(uri)

    def go(self, uri: str) -> None:
        """Open an address and wait until it has loaded."""
        self.send("Page.navigate", url=uri)
        arrived = f"location.href.startsWith({json.dumps(uri)})"
        self.until(f"document.readyState === 'complete' && {arrived}")

    def send(self, method: str, **params: Any) -> Any:
        return self.browser.send(method, self.session, **params)

    def resize(self, width: int, height: int = 700) -> None:
        """Resize the window."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)

    def ask(self, question: str) -> Any:
        """Return the value of a JavaScript expression."""
        result = self.send("Runtime.evaluate", expression=question, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until a JavaScript expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.ask(condition):
            assert time.monotonic() < end, condition
            time.sleep(0.02)

    def middle(self, element: str) -> tuple[float, float]:
        """Return the middle of the element that a JavaScript expression finds."""
        x, y = self.ask(
            f"(box => [box.left + box.width / 2, box.top + 4])({element}.getBoundingClientRect())"
        )
        return x, y

    def mouse(self, kind: str, at: tuple[float, float], **more: Any) -> None:
        self.send("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], **more)

    def click(self, at: tuple[float, float], modifiers: int = 0) -> None:
        left = {"button": "left", "clickCount": 1, "modifiers": modifiers}
        self.mouse("mouseMoved", at)
        self.mouse("mousePressed", at, **left)
        self.mouse("mouseReleased", at, **left)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self.mouse("mousePressed", start, button="left", clickCount=1)
        self.mouse("mouseMoved", end, button="left", buttons=1)
        self.mouse("mouseReleased", end, button="left", clickCount=1)

    def tap(self, at: tuple[float, float]) -> None:
        self.send("Emulation.setTouchEmulationEnabled", enabled=True)
        point = {"x": at[0], "y": at[1]}
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[point])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def key(self, key: str, modifiers: int = 0) -> None:
        text = {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=modifiers, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=modifiers)

"""A headless Chromium for tests of pages: keys, mouse, and what a page says, over the browser's debugging
pipe.
"""

import contextlib
import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
KEYS = {"ArrowRight": 39, "ArrowLeft": 37, "ArrowDown": 40, "Home": 36, "End": 35}


class Browser:
    """A headless browser, spoken to over its debugging pipe: JSON that ends in a zero byte, down 3 and up
    4.
    """

    def __init__(self, program: str, profile: Path) -> None:
        to_browser, self._commands = os.pipe()
        self._replies, from_browser = os.pipe()
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
        ]
        ends = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        command = [
            "bash",
            "-c",
            ends,
            "browser",
            program,
            *flags,
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, pass_fds=(to_browser, from_browser), **quiet)
        os.close(to_browser)
        os.close(from_browser)
        self._left = b""
        self._sent = 0
        self._session = ""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def close(self) -> None:
        """End the browser that was started here, and no other."""
        self._session = ""
        try:
            self.ask("Browser.close")
            self._process.wait(20)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self._commands)
            os.close(self._replies)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of one command; what the page complains of or asks for meanwhile is kept."""
        self._sent += 1
        message: dict[str, Any] = {"id": self._sent, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._receive()
            if reply.get("id") == self._sent:
                assert "error" not in reply, (method, reply)
                return reply["result"]
            event = reply.get("method")
            if event in ("Runtime.exceptionThrown", "Log.entryAdded") or (
                event == "Runtime.consoleAPICalled" and reply["params"]["type"] in ("error", "warning")
            ):
                self.complaints.append(json.dumps(reply["params"])[:500])
            if event == "Network.requestWillBeSent":
                self.requests.append(reply["params"]["request"]["url"])

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + 120
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._replies], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            more = os.read(self._replies, 2**20)
            assert more, "the browser has ended"
            self._left += more
        text, _, self._left = self._left.partition(b"\0")
        return json.loads(text)

    def open(self, path: Path, width: int = 1000, height: int = 1300, scheme: str = "light") -> None:
        """Load a file and wait until it stands."""
        self._go("about:blank")  # a page before it would load itself again when the scheme changes
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.complaints = []
        self.requests = []
        self._go(path.as_uri())

    def _go(self, url: str) -> None:
        """Navigate, and wait for the new page: the old one may still answer."""
        self.ask("Page.navigate", url=url)
        deadline = time.monotonic() + 60
        stands = False
        while not stands:
            assert time.monotonic() < deadline
            time.sleep(0.02)
            with contextlib.suppress(AssertionError):  # the page leaves while it is asked
                stands = self.run(
                    f"document.readyState === 'complete' && location.href === {json.dumps(url)}"
                )

    def run(self, code: str) -> Any:
        """The value of an expression in the page."""
        done = self.ask("Runtime.evaluate", expression=code, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def text(self, identity: str) -> str:
        return str(self.run(f"document.getElementById('{identity}').textContent"))

    def texts(self, selector: str) -> list[str]:
        return self.run(f"[...document.querySelectorAll('{selector}')].map((e) => e.textContent)")

    def press(self, key: str, times: int = 1) -> None:
        """Press and release a key, where the focus is."""
        for kind in ("rawKeyDown", "keyUp") * times:
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key])

    def focus(self, identity: str) -> None:
        self.run(f"document.getElementById('{identity}').focus()")

    def mouse(self, kind: str, x: float, y: float) -> None:
        button = "none" if kind == "mouseMoved" else "left"
        self.ask(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=int(button == "left")
        )

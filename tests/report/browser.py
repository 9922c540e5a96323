"""Headless Chromium through its debugging pipe: what a page shows, logs and asks the network for."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXECUTABLE = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One page at a time. Messages are JSON with a zero byte at the end, on file descriptors 3 (to the browser) and 4
    (Chromium's --remote-debugging-pipe, the DevTools protocol)."""

    def __init__(self, profile: Path):
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()
        flags = "--headless --no-sandbox --disable-gpu --hide-scrollbars --remote-debugging-pipe --no-first-run --window-size=1400,1000"
        command = f'exec "$0" {flags} --user-data-dir="$1" about:blank 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, EXECUTABLE, str(profile)],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._buffer, self._number, self._session = b"", 0, dict[str, str]()
        self.events: list[dict[str, Any]] = []

    def open(self, page: Path) -> None:
        """Loads a file and waits until it is shown; events before it are forgotten."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.events.clear()
        self.send("Page.navigate", url=page.as_uri())
        self._until(lambda: any(e["method"] == "Page.loadEventFired" for e in self.events))

    def value(self, expression: str) -> Any:
        return self.send("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def requests(self) -> list[str]:
        return [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]

    def complaints(self) -> list[str]:
        """What the console shows: logged errors and warnings, exceptions, and whatever a script printed."""
        kinds = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        return [json.dumps(e["params"])[:300] for e in self.events if e["method"] in kinds]

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        number, answers = self._number, []
        message = {"id": number, "method": method, "params": params, **self._session}
        os.write(self._out, json.dumps(message).encode() + b"\0")

        def answered() -> bool:
            answers.extend(e for e in self.events if e.get("id") == number)
            return bool(answers)

        self._until(answered)
        self.events[:] = [e for e in self.events if "method" in e]
        assert "error" not in answers[0], answers[0]
        return answers[0]["result"]

    def _until(self, done: Callable[[], bool], timeout: float = 120) -> None:
        end = time.monotonic() + timeout
        while not done():
            assert select.select([self._in], [], [], max(0, end - time.monotonic()))[0], "the browser does not answer"
            piece = os.read(self._in, 1 << 20)
            assert piece, "the browser is gone"
            *messages, self._buffer = (self._buffer + piece).split(b"\0")
            self.events += [json.loads(m) for m in messages]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

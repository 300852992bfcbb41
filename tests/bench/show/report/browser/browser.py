"""Drives a headless Chromium over the DevTools protocol, through pipes, with the standard library alone."""

import base64
import collections
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


class BrowserError(Exception):
    pass


def find_browser():
    """Path of a Chromium or Chrome, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        path = shutil.which(name)
        if path:
            return path
    return None


class Page:
    """One tab with the network off. `problems` collects console errors, exceptions and refused requests."""

    def __init__(self, browser):
        self._profile = tempfile.mkdtemp(prefix="plumbline-browser-")
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # The browser reads commands from descriptor 3 and writes to 4; ours must not be those numbers
        # meanwhile.
        high_read, high_write = os.dup(to_read), os.dup(to_write)
        for _ in range(4):
            high_read, high_write = os.dup(high_read), os.dup(high_write)

        def connect():
            os.dup2(high_read, 3)
            os.dup2(high_write, 4)

        self._process = subprocess.Popen(
            [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--no-first-run",
             "--disable-background-networking", "--disable-extensions", "--hide-scrollbars", "--mute-audio",
             "--disable-dev-shm-usage", "--user-data-dir=" + self._profile, "about:blank"],
            preexec_fn=connect, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_read)
        os.close(to_write)
        self._buffer = b""
        self._number = 0
        self._session = None
        self._events = collections.deque()
        self.problems = []
        self.requests = []
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(t for t in targets if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target["targetId"],
                                  flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0,
                  uploadThroughput=0)

    def close(self):
        try:
            self._session = None
            self.call("Browser.close")
            self._process.wait(10)
        except (BrowserError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)
        shutil.rmtree(self._profile, ignore_errors=True)

    def _receive(self, timeout):
        deadline = time.monotonic() + timeout
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise BrowserError("the browser did not answer within %g s" % timeout)
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise BrowserError("the browser ended")
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, message):
        method, values = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.problems.append("console: " + " ".join(str(a.get("value", a.get("description")))
                                                        for a in values["args"]))
        elif method == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            self.problems.append("exception: " + details.get("exception",
                                                             {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.problems.append("log: " + values["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])

    def call(self, method, timeout=60, **values):
        self._number += 1
        command = {"id": self._number, "method": method, "params": values}
        if self._session:
            command["sessionId"] = self._session
        data = json.dumps(command).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data):]
        while True:
            message = self._receive(timeout)
            if message.get("id") == self._number:
                if "error" in message:
                    raise BrowserError("%s: %s" % (method, message["error"].get("message")))
                return message["result"]
            self._note(message)
            self._events.append(message.get("method"))

    def evaluate(self, expression, timeout=60):
        """Value of a JavaScript expression; promises are awaited."""
        result = self.call("Runtime.evaluate", timeout=timeout, expression=expression, returnByValue=True,
                           awaitPromise=True, userGesture=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def view(self, width, height, dark=False, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=2 if phone else 1,
                  mobile=phone)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}])

    def open(self, path, fragment=""):
        """Loads a file and waits until its script has shown a cell."""
        self.call("Page.navigate", url="about:blank")
        self._events.clear()
        self.call("Page.navigate", url="file://" + os.path.abspath(path) + fragment)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.evaluate("document.readyState === 'complete' && location.protocol === 'file:' && "
                             "(!document.getElementById('detail') || "
                             "document.getElementById('detail').children.length > 0)"):
                self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
                return
            time.sleep(0.02)
        raise BrowserError("the page did not finish loading")

    def key(self, name, code=0, text=None):
        values = {"key": name, "windowsVirtualKeyCode": code}
        if text:
            values["text"] = text
        self.call("Input.dispatchKeyEvent", type="keyDown", **values)
        self.call("Input.dispatchKeyEvent", type="keyUp", **{k: v for k, v in values.items() if k != "text"})

    def screenshot(self, path, whole=True):
        values = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            values["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12000),
                              "scale": 1}
        with open(path, "wb") as out:
            out.write(base64.b64decode(self.call("Page.captureScreenshot", **values)["data"]))

"""A headless Chromium by the DevTools protocol over two pipes: the standard library is enough."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time


def program():
    """The browser's path, or None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page of a browser of its own. `events` are all that it told, in order."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="kiln-browser-")
        to_read, self.out = os.pipe()
        self.inp, to_write = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4; neither may be in the way of the other.
        to_read, to_write = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (to_read, to_write))

        def place():
            os.dup2(to_read, 3)
            os.dup2(to_write, 4)

        self.process = subprocess.Popen(
            [program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile}", "about:blank"],
            preexec_fn=place, pass_fds=(3, 4), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.number, self.session, self.events = b"", 0, None, []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"],
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def _message(self):
        while b"\0" not in self.buffer:
            more = os.read(self.inp, 1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self.buffer += more
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def value(self, expression):
        """What a JavaScript expression is, as JSON; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def open(self, url):
        """Returns the seconds until everything is drawn."""
        start = time.monotonic()  # clock: printed, never compared
        self.call("Page.navigate", url=url)
        while not self.value("location.href !== 'about:blank' && document.documentElement?.dataset.ready"):
            time.sleep(0.005)  # clock: how often it asks
        return time.monotonic() - start  # clock: printed, never compared

    def appear(self, width, height, scheme, phone=False):
        """A viewport of that size, in a colour scheme; waits until the page is drawn for it."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=2 if phone else 1, mobile=phone)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode={"Tab": 9, "ArrowRight": 39}.get(key, 0))

    def screenshot(self, file, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(file, "wb") as out:
            out.write(base64.b64decode(data))

    def complaints(self):
        """Errors and warnings of the console, and exceptions."""
        found = []
        for event in self.events:
            method, details = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(details["exceptionDetails"].get("exception", {}).get("description", "?"))
            elif method == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning"):
                found.append(str(details["args"]))
            elif method == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
                found.append(details["entry"]["text"])
        return found

    def requests(self):
        """Every address that the page asked for."""
        return [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"]

# SPDX-License-Identifier: MIT
"""A headless Chromium, driven over its debugging pipe: what a page looks like to the people who open
it.  Nothing but the browser and Python is needed."""
import fcntl
import json
import os
import shutil
import subprocess
import tempfile

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def browser():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Tab:
    """One page at a width, light or dark.  `errors` are what its scripts threw or logged as errors."""

    def __init__(self, address, width, dark):
        self.errors, self._next = [], 0
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        ours, theirs = os.pipe(), os.pipe()  # theirs: what the browser writes
        self._to, self._from = ours[1], theirs[0]

        def pipes():  # the browser reads descriptor 3 and writes 4
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 100) for end in (ours[0], theirs[1])]
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             f"--user-data-dir={self._home.name}", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(ours[0])
        os.close(theirs[1])
        self._rest = b""
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        self._call("Page.enable")
        self._call("Runtime.enable")
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1,
                   mobile=width < 600)
        self._call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self._call("Page.navigate", url=address)
        self._wait("Page.loadEventFired")

    def ask(self, expression):
        """The value of an expression in the page."""
        result = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._home.cleanup()

    def _call(self, method, **parameters):
        self._next += 1
        message = {"id": self._next, "method": method, "params": parameters}
        if hasattr(self, "_session"):
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        answer = self._wait(self._next)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def _wait(self, what):
        """The answer with this number, or the next event of this name."""
        while True:
            while b"\0" not in self._rest:
                some = os.read(self._from, 1 << 16)
                if not some:
                    raise AssertionError("the browser went away")
                self._rest += some
            text, _, self._rest = self._rest.partition(b"\0")
            message = json.loads(text)
            if message.get("method") == "Runtime.exceptionThrown":
                self.errors.append(message["params"]["exceptionDetails"])
            elif message.get("method") == "Runtime.consoleAPICalled" and \
                    message["params"]["type"] == "error":
                self.errors.append(message["params"]["args"])
            if what in (message.get("id"), message.get("method")):
                return message

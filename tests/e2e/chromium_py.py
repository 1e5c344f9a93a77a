"""A headless Chromium, driven by its DevTools protocol: real keys and mouse, and what the page logged."""
import itertools
import json
import shutil
import subprocess
import tempfile
import urllib.request
from pathlib import Path

from waiting import WAIT, wait_until

MODIFIERS = {"alt": 1, "ctrl": 2, "meta": 4, "shift": 8}
KEY_TEXT = {"Enter": "\r", " ": " "}


def missing():
    """Why no browser can be driven here; None: one can."""
    if not shutil.which("chromium"):
        return "chromium is not installed"
    try:
        import websocket  # noqa: F401
    except ImportError:
        return "python3-websocket is not installed"
    return None


class Browser:
    def __init__(self, size=(1280, 900)):
        import websocket

        self.folder = tempfile.mkdtemp(prefix="chromium-")
        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
             "--disable-background-networking", "--disable-dev-shm-usage", "--remote-debugging-port=0",
             "--remote-allow-origins=*", f"--user-data-dir={self.folder}", f"--window-size={size[0]},{size[1]}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        self.ids = itertools.count(1)
        self.messages = []  # errors and what the console was told
        self.requests = []
        try:
            self.socket = websocket.create_connection(self._page_address(), timeout=WAIT)
        except BaseException:
            self.close()
            raise
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(domain + ".enable")
        self.resize(*size)

    def _page_address(self):
        def told():
            try:
                number = int(Path(self.folder, "DevToolsActivePort").read_text().split()[0])
                with urllib.request.urlopen(f"http://127.0.0.1:{number}/json", timeout=WAIT) as answer:
                    return next(t for t in json.load(answer) if t["type"] == "page")["webSocketDebuggerUrl"]
            except (OSError, ValueError, IndexError, StopIteration):
                return None

        return wait_until(told, or_say=lambda: "chromium has not begun" if self.process.poll() is None else "chromium has ended")

    def _take(self, message):
        method, p = message.get("method"), message.get("params")
        if method == "Runtime.exceptionThrown":
            details = p["exceptionDetails"]
            self.messages.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled":
            self.messages.append(" ".join(str(a.get("value", a.get("description"))) for a in p["args"]))
        elif method == "Log.entryAdded":
            self.messages.append(p["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(p["request"]["url"])

    def ask(self, method, **params):
        number = next(self.ids)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]
            self._take(message)

    def run(self, script):
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script):
        return wait_until(lambda: self.run(script), or_say=lambda: f"{script}\n{self.messages}")

    def open(self, path, fragment=""):
        self.messages.clear()
        self.requests.clear()
        self.ask("Page.navigate", url="about:blank")
        self.ask("Page.navigate", url=Path(path).resolve().as_uri() + fragment)
        self.wait("document.documentElement && document.documentElement.dataset.ready === '1'")

    def settle(self):
        """Until what was typed has been taken, and drawn: the page's timers, which last up to 400 ms, are due before this one."""
        self.run("new Promise(done => setTimeout(done, 410))")
        self.drawn()

    def drawn(self):
        self.run("new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)))")

    def resize(self, width, height):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def prefer(self, **features):
        """prefer(color_scheme="dark")"""
        self.ask("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-" + name.replace("_", "-"), "value": value} for name, value in features.items()])

    def key(self, key, *modifiers):
        bits = sum(MODIFIERS[m] for m in modifiers)
        text = KEY_TEXT.get(key, key if len(key) == 1 else "")
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=bits, text=text,
                 windowsVirtualKeyCode={"Tab": 9, "Enter": 13, "Escape": 27}.get(key, 0))
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=bits)

    def type(self, text):
        self.ask("Input.insertText", text=text)

    def mouse(self, kind, x, y, **more):
        self.ask("Input.dispatchMouseEvent", type="mouse" + kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("Moved", x, y)
        self.mouse("Pressed", x, y, button="left", clickCount=1)
        self.mouse("Released", x, y, button="left", clickCount=1)

    def screenshot(self, path, whole=False):
        import base64

        data = self.ask("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=WAIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.close()

"""Where Chromium is, and how to get it: ``python -m tests.browser.chromium --install`` (used by the Makefile)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
ADVICE = "No Chromium was found: install Chromium or Google Chrome, or name one with CHROMIUM=/path/to/chromium."
NEEDLESS = (
    *("AvoidCorsURLLoaderRestartOnRedirect", "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose"),
    *("HttpsFirstBalancedModeAutoEnable", "HttpsUpgrades", "LensOverlay", "MediaRouter", "NetworkTimeServiceQuerying"),
    *("OptimizationHints", "PaintHolding", "PreconnectToSearch", "ThirdPartyStoragePartitioning", "AimEnabled"),
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup"),
)
"""Features that are switched off: what Playwright does (the last word of the command line counts, and this is it), and the
address bar, which runs two pages of its own in every window, for 0.6 s of CPU."""
FLAGS = (
    f"--disable-features={','.join(NEEDLESS)}",
    "--no-sandbox",  # tests run as root in containers
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
)
"""The last one keeps every outside host out of reach, whatever asks for it."""


def find() -> str | None:
    """The path of a Chromium or Chrome on this machine."""
    if wanted := os.environ.get("CHROMIUM"):
        return wanted if shutil.which(wanted) else None
    for name in NAMES:
        if path := shutil.which(name):
            return path
    return str(MAC) if MAC.exists() else None


def install() -> str | None:
    """Debian's package, where this process may install it."""
    if shutil.which("apt-get") is None:
        return None
    prefix: list[str] = []
    if os.geteuid() != 0:
        if shutil.which("sudo") is None or subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode:
            return None
        prefix = ["sudo", "-n"]
    print("Installing Chromium ...", flush=True)
    quiet = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    subprocess.run([*quiet, "update"], stdin=subprocess.DEVNULL, check=False)
    command = [*quiet, "install", "-y", "--no-install-recommends", "chromium"]
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    return find()


if __name__ == "__main__":
    if find() is None and ("--install" not in sys.argv or install() is None):
        sys.exit(ADVICE)

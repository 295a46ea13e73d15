"""Opens a report in headless Chromium: every plot is drawn, in light, dark and print, with no script error.

Usage: browser_test.py WRITE_SAMPLE_REPORT CHROMIUM
"""
import pathlib
import re
import subprocess
import sys
import tempfile


def chromium(binary, profile, *arguments):
    """Runs Chromium once without a network and returns its output."""
    command = [binary, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
               "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr",
               "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def main():
    writer, browser = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "report.html"
        subprocess.run([writer, page], check=True)
        for scheme in ("light", "dark"):
            flags = ["--force-dark-mode"] if scheme == "dark" else []
            ran = chromium(browser, f"{folder}/{scheme}", *flags, "--dump-dom", page.as_uri())
            drawn = re.search(r'data-plots-drawn="(\d+)"', ran.stdout)
            assert drawn and drawn.group(1) == "2", f"{scheme}: not every plot was drawn"
            assert len(re.findall(r"<canvas[^>]* width=\"[1-9]", ran.stdout)) == 2, f"{scheme}: an empty canvas"
            assert "CONSOLE" not in ran.stderr, f"{scheme}: {ran.stderr}"
        pdf = pathlib.Path(folder) / "report.pdf"
        chromium(browser, f"{folder}/print", f"--print-to-pdf={pdf}", page.as_uri())
        assert pdf.read_bytes().startswith(b"%PDF"), "printing made no PDF"
    print("Two plots drawn in light and dark; printed.")


if __name__ == "__main__":
    main()

"""The page of `kiln report --out` in a browser: page_test.py KILN INVENTED SCREENSHOTS.

500 invented shapes: its size and the time until it is drawn, that it asks for nothing and complains
of nothing, every chart in both colour schemes and on a phone, and its use without a mouse.
"""

import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import browser

KILN, INVENTED, SCREENSHOTS = sys.argv[1:4]
DATA = pathlib.Path(__file__).resolve().parents[2] / "data" / "report"
SHAPES = 500
# Marks of each chart: at least so many in these 500 shapes.
CHARTS = {"roofline": SHAPES, "speedup": SHAPES, "regret": 10, "search": 100, "landscape": 6,
          "failures": 7, "holdings": 4}
# Texts of an axis that lie on one another.
OVERLAPS = """[...document.querySelectorAll('figure svg [aria-label$="axis tick label"]')].flatMap(axis => {
  const boxes = [...axis.children].map(text => [text.textContent, text.getBoundingClientRect()]);
  return boxes.flatMap(([text, a], i) => boxes.slice(i + 1).filter(([, b]) =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
    .map(([other]) => text + ' and ' + other)); })"""
MARKS = "document.querySelectorAll('#{} figure svg .shapes > *').length"


def kiln(*arguments):
    return subprocess.run([KILN, *arguments], check=True, capture_output=True, text=True).stdout


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.folder.name)
        cls.database, cls.page = folder / "invented.kiln", folder / "report.html"
        subprocess.run([INVENTED, cls.database, str(SHAPES)], check=True)
        cls.told = json.loads(kiln("report", "--out", cls.page, "--db", cls.database,
                                   "--title", "500 <invented> shapes", "--json"))
        cls.browser = browser.Browser()
        cls.browser.appear(1200, 900, "light")
        cls.seconds = cls.browser.open(cls.page.as_uri())
        pathlib.Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.folder.cleanup()

    def value(self, expression):
        return self.browser.value(expression)

    def screenshot(self, name):
        self.browser.screenshot(pathlib.Path(SCREENSHOTS) / f"{name}.png")

    def assert_drawn(self):
        for chart, marks in CHARTS.items():
            self.assertGreaterEqual(self.value(MARKS.format(chart)), marks, chart)

    def test_1_is_small(self):
        self.assertEqual(self.told["shapes"], SHAPES)
        self.assertEqual(self.told["bytes"], self.page.stat().st_size)
        self.assertLess(self.page.stat().st_size, 2_000_000)
        print(f"{self.page.stat().st_size} bytes, drawn after {self.seconds:.2f} s", file=sys.stderr)

    def test_2_every_chart_is_drawn_in_both_schemes(self):
        for scheme in ("light", "dark"):
            self.browser.appear(1200, 900, scheme)
            self.assert_drawn()
            self.assertEqual(self.value(OVERLAPS), [])
            self.screenshot(f"report-{scheme}")
        colours = [self.browser.appear(1200, 900, scheme) or
                   self.value("getComputedStyle(document.body).backgroundColor")
                   for scheme in ("light", "dark")]
        self.assertNotEqual(*colours)

    def test_3_fits_a_phone(self):
        self.browser.appear(360, 740, "light", phone=True)
        self.value("new Promise(done => setTimeout(done, 200))")
        self.assert_drawn()
        self.assertLessEqual(self.value("document.documentElement.scrollWidth"), 360)
        beyond = self.value(
            "[...document.querySelectorAll('svg text')].filter(t => {"
            "  const box = t.getBoundingClientRect();"
            "  return box.width && (box.left < 0 || box.right > 360); }).map(t => t.textContent)")
        self.assertEqual(beyond, [])
        self.assertEqual(self.value(OVERLAPS), [])
        self.screenshot("report-phone")
        self.browser.appear(1200, 900, "light")

    def test_4_works_without_a_mouse(self):
        self.browser.appear(1200, 900, "light")
        self.value("document.activeElement.blur()")
        reached = []
        for _ in range(60):
            self.browser.press("Tab")
            reached.append(self.value(
                "document.activeElement.closest('section')?.id + ' ' + document.activeElement.tagName"))
        for chart in CHARTS:
            self.assertIn(f"{chart} svg", reached)
            self.assertIn(f"{chart} SUMMARY", reached)
        self.value("document.querySelector('#roofline figure svg').focus()")
        for _ in range(3):
            self.browser.press("ArrowRight")
        said = self.value("document.getElementById('announcer').textContent")
        self.assertRegex(said, r"^3 of 500: \w+ N [NT] .*FLOP/byte")
        tip = self.value("document.querySelector('#roofline figure svg [aria-label=tip]').textContent")
        self.assertIn("FLOP/byte", tip)
        focus = "getComputedStyle(document.activeElement).outlineStyle"
        self.assertEqual(self.value(focus), "solid")

    def test_5_says_in_words_what_it_shows(self):
        for chart in CHARTS:
            name = self.value(f"document.querySelector('#{chart} figure svg').getAttribute('aria-label')")
            self.assertRegex(name, r"\d", chart)
            self.value(f"document.querySelector('#{chart} details').open = true")
            self.value("new Promise(done => setTimeout(done, 50))")
            self.assertGreater(
                self.value(f"document.querySelectorAll('#{chart} tbody tr').length"), 0, chart)
        self.assertEqual(self.value("document.querySelectorAll('#roofline tbody tr').length"), SHAPES)
        unnamed = self.value("[...document.querySelectorAll('select')].filter(s => !s.labels.length).length")
        self.assertEqual(unnamed, 0)

    def test_6_choices_draw_again(self):
        choose = ("(() => {{ const s = document.getElementById('{0}'); s.value = '{1}';"
                  "s.dispatchEvent(new Event('change')); return s.value; }})()")
        self.assertEqual(self.value(choose.format("device", "1")), "1")
        half = self.value(MARKS.format("roofline"))
        self.assertTrue(0 < half < SHAPES)
        across = self.value("document.getElementById('axis-x').value")
        self.value(choose.format("axis-y", across))
        self.assertNotEqual(self.value("document.getElementById('axis-x').value"), across)
        self.assertGreater(self.value(MARKS.format("landscape")), 1)
        self.assertEqual(self.value(choose.format("device", "")), "")
        self.assertEqual(self.value(MARKS.format("roofline")), SHAPES)

    def test_7_text_stays_text(self):
        self.assertEqual(self.value("document.title"), "500 <invented> shapes")
        self.assertIn("Invented CPU </script><b>, 2 threads",
                      self.value("document.getElementById('device').textContent"))
        self.assertEqual(self.value("document.querySelectorAll('main b').length"), 0)

    def test_8_says_which_command_fills_an_empty_chart(self):
        empty = pathlib.Path(self.folder.name) / "empty.kiln"
        page = empty.with_suffix(".html")
        subprocess.run([INVENTED, empty, "0"], check=True)
        kiln("report", "--out", page, "--db", empty)
        with browser.Browser() as other:
            other.open(page.as_uri())
            for chart in CHARTS:
                note = other.value(f"document.querySelector('#{chart} .note').textContent")
                self.assertIn("kiln tune", note, chart)
            self.assertEqual(other.complaints(), [])

    def test_9_asks_for_nothing_and_complains_of_nothing(self):
        asked = [url for url in self.browser.requests() if not url.startswith("data:")]
        self.assertEqual(asked, [self.page.as_uri()])
        self.assertEqual(self.browser.complaints(), [])

    def test_the_library_is_the_one_that_is_documented(self):
        noted = re.search(r"^([0-9a-f]{64})  plot\.min\.js$",
                          (DATA / "vendor" / "README.md").read_text(), re.M)
        made = hashlib.sha256((DATA / "vendor" / "plot.min.js").read_bytes()).hexdigest()
        self.assertEqual(noted.group(1), made)


if __name__ == "__main__":
    if browser.program() is None:
        print("no Chromium: the page is not opened", file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)

"""Great Expectations' pages, written anew; what GX itself makes of the numbers is in tests/spark."""

import re
from html import unescape

import pytest

from cdc_materializer.data_docs import rewritten

_PAGE = """<!DOCTYPE html><html><head><title>GX</title><link rel="stylesheet" href="https://a.test/x.css">
<script src="https://b.test/x.js"></script><style>a { background: url('https://c.test/y.png') }</style></head>
<body onload="go()"><nav><a href="../../../index.html"><img src="https://d.test/logo.png?d=1"></a>
<a href="../../../expectations/x.html">Suite</a></nav>
<script>if (a < b) { document.write("<p>no</p>") }</script>
<h4 style="background: url(https://e.test)" class="c">Result</h4>
<p><a data-toggle="collapse" href="#more">Show more</a><a href="#section-1">amount</a>: 1 &lt; 2 &amp; "3"<br/></p>
<svg><a href="https://f.test">x</a></svg><footer><a href="https://g.test">newsletter</a></footer>
<table><thead hidden><tr><th scope="col"></th></tr></thead><tbody><tr><td colspan="2">kept</td></tr></tbody></table>
</body></html>"""


def test_a_page_loads_runs_and_links_nothing() -> None:
    """Whatever GX puts in: scripts, styles, pictures, links to other hosts, and attributes that run or style."""
    page = rewritten(_PAGE)

    assert not re.search(r"https?:|//|script|style|onload|url\(|src=|<img|<svg|<link|newsletter|document", page)
    assert set(re.findall(r'href="([^"]*)"', page)) == {"index.html", "#section-1"}


def test_what_a_page_shows_stays() -> None:
    """Texts, tables, headings from the first level on, and links inside the pages."""
    page = rewritten(_PAGE)

    assert '<h1 class="c">Result</h1>' in page
    assert '<a href="#section-1">amount</a>: 1 &lt; 2 &amp; &quot;3&quot;<br></p>' in page
    assert '<thead hidden><tr><th scope="col"></th></tr></thead>' in page
    assert '<td colspan="2">kept</td>' in page
    assert "Show more" not in page
    assert unescape(re.sub(r"<[^>]*>", "", page)).split() == [
        "Suite",
        "Result",
        "amount:",
        "1",
        "<",
        "2",
        "&",
        '"3"',
        "kept",
    ]


@pytest.mark.parametrize(
    "evil",
    [
        "<script>alert(1)</script>",
        '<img src=x onerror="alert(1)">',
        '<a href="javascript:alert(1)">x</a>',
        '<p onclick="alert(1)" style="x">y',
        "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
        "<template><script>alert(1)</script></template>",
        '<form action="x"><button formaction="javascript:alert(1)">y</button></form>',
    ],
)
def test_names_that_gx_takes_for_html_do_no_harm(evil: str) -> None:
    """GX writes names and descriptions of a contract into its pages as they are."""
    assert not re.search(r"alert|javascript|onclick|<(?!/?(p|a)\b)", rewritten(f"<p>{evil}</p>"))

"""Pictures of what `bench_apply` has measured: `python -m benchmarks.plots` draws each result of `results/` beside it.

Bars are medians of CPU-seconds, ours by the steps that they went into. An SVG says in text what it shows, so that a
change of a figure shows in a diff, and is the same for the same figures.
"""

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
#: Our steps from the first to the last, each with its colour; what is in none of them is grey.
STEPS = {
    "land": "#4e79a7",
    "find writers": "#76b7b2",
    "decode and fold": "#f28e2b",
    "judge": "#edc948",
    "publish": "#59a14f",
}
_REST, _OTHER = "#9c9c9c", "#b07aa1"
_LEFT, _RIGHT, _BAR, _GAP, _HEAD, _WIDTH = 270, 90, 18, 8, 64, 900


def bars_of(kind: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, float]]]]:
    """The bars of one kind of batch: what each is called, and its parts as colour and CPU-seconds.

    Args:
        kind: one of a document's `kinds`, as `bench_apply` writes it.
    """
    bars = []
    for way, cost in sorted(kind["ways"].items(), key=lambda item: (item[0] != "ours", item[0])):
        total = statistics.median(cost["cpu"])
        parts = [(_OTHER, total)]
        if way == "ours":
            parts = [(colour, statistics.median(kind["steps"][step]["cpu"])) for step, colour in STEPS.items()]
            parts.append((_REST, max(0.0, total - sum(seconds for _, seconds in parts))))
        bars.append((f"{kind['changes']:,} changes, {kind['keys']} keys: {way}", parts))
    return bars


def draw(document: Mapping[str, Any]) -> str:
    """The SVG of a result of `bench_apply`."""
    bars = [bar for kind in document["kinds"] for bar in bars_of(kind)]
    most = max(sum(seconds for _, seconds in parts) for _, parts in bars)
    height = _HEAD + len(bars) * (_BAR + _GAP) + _GAP
    head = f"CPU-seconds a batch, into {document['rows']:,} rows, at commit {document['commit']}"
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    told = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        f"<title>{escape(head)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(12, 22, head, size=14),
        *_legend(),
    ]
    for at, (name, parts) in enumerate(bars):
        told += _bar(_HEAD + at * (_BAR + _GAP), name, parts, (_WIDTH - _LEFT - _RIGHT) / most)
    return "\n".join([*told, "</svg>", ""])


def _legend() -> list[str]:
    told, left = [], 12.0
    for name, colour in {**STEPS, "the rest of ours": _REST, "another job": _OTHER}.items():
        told.append(f'<rect x="{left:.0f}" y="34" width="12" height="12" fill="{colour}"/>')
        told.append(_text(left + 17, 45, name))
        left += 40 + 6.5 * len(name)
    return told


def _bar(top: int, name: str, parts: Sequence[tuple[str, float]], scale: float) -> list[str]:
    told, left = [_text(_LEFT - 8, top + 14, name, anchor="end")], float(_LEFT)
    for colour, seconds in parts:
        width = seconds * scale
        told.append(f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>')
        left += width
    return [*told, _text(left + 6, top + 14, f"{sum(seconds for _, seconds in parts):.1f}")]


def _text(x: float, y: int, text: str, *, size: int = 12, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="#222222">{escape(text)}</text>'


def main() -> int:
    """Draw every result of `bench_apply`, and say which files were written."""
    for path in sorted(RESULTS.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["benchmark"] == "apply":
            picture = path.with_suffix(".svg")
            picture.write_text(draw(document), encoding="utf-8")
            sys.stdout.write(f"{picture.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

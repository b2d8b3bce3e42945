"""Distributions as inline SVG: bars with labelled axes, in the colours of the page around them."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement

from mrag.collection.histogram import Bin
from mrag.evaluation.sections import Plot, number

WIDTH, HEIGHT = 640, 280
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 12, 48
BARS = 40
LABELS = 8
GAP = 1.0


def svg(plot: Plot) -> Element:
    """One picture, named by its title; each bar says what it stands for when it is pointed at."""
    bins = list(plot.histogram.bins(BARS, plot.limit))
    picture = Element("svg", {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img", "aria-label": plot.title})
    ticks = list(_ticks(max(1, *(bin.seen for bin in bins))))
    for tick in ticks:
        y = _y(tick, ticks[-1])
        _line(picture, "grid", LEFT, y, WIDTH - RIGHT, y)
        _text(picture, LEFT - 6, y + 4, number(tick), "end")
    step = (WIDTH - LEFT - RIGHT) / len(bins)
    for place, bin in enumerate(bins):
        _bar(picture, LEFT + place * step, step, bin, ticks[-1])
        if place % -(-len(bins) // LABELS) == 0:
            _text(picture, LEFT + (place + 0.5) * step, HEIGHT - BOTTOM + 16, number(bin.first), "middle")
    _line(picture, "axis", LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM)
    _text(picture, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, plot.x, "middle")
    label = _text(picture, 0, 0, plot.y, "middle")
    label.set("transform", f"translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)")
    return picture


def _ticks(greatest: int) -> Iterator[int]:
    """Whole numbers at even, round distances from 0 up to or beyond the greatest: five at most."""
    rounds = (factor * 10**power for power in range(19) for factor in (1, 2, 5))
    step = next(step for step in rounds if 4 * step >= greatest)
    yield from range(0, greatest + step, step)


def _y(many: int, top: int) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * many / top


def _bar(picture: Element, x: float, width: float, bin: Bin, top: int) -> None:
    y = _y(bin.seen, top)
    sides = {"x": x + GAP / 2, "y": y, "width": width - GAP, "height": HEIGHT - BOTTOM - y}
    bar = SubElement(
        picture, "rect", {"class": "bar", **{name: f"{side:.1f}" for name, side in sides.items()}}
    )
    span = number(bin.first) if bin.first == bin.last else f"{number(bin.first)} to {number(bin.last)}"
    SubElement(bar, "title").text = f"{span}: {number(bin.seen)}"


def _line(picture: Element, kind: str, x1: float, y1: float, x2: float, y2: float) -> None:
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    SubElement(picture, "line", {"class": kind, **{name: f"{end:.1f}" for name, end in ends.items()}})


def _text(picture: Element, x: float, y: float, text: str, anchor: str) -> Element:
    label = SubElement(picture, "text", {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor})
    label.text = text
    return label

"""Pictures of a profile and of a roofline as SVG: plain text, small, without scripts and fonts of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from fxcore.transforms.analysis.profile import GraphProfile
from fxcore.transforms.analysis.roofline import Roofline, RooflinePoint

WIDTH, HEIGHT = 720, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 24, 44, 52
_MEMORY, _ARITHMETIC, _GREY = "#1f77b4", "#d62728", "#666"
_MOST_LABELS = 4
_MOST_BARS = 16
_LETTER = 6.5  # the width of one, about
_LONGEST = 36  # letters of a name


def roofline_picture(roofline: Roofline, title: str = "Roofline") -> str:
    """Draw a roofline: a dot for each node, larger the longer it takes, under the roof of the machine."""
    points = [point for point in roofline.points if point.cost.flops and point.seconds]
    axes = _Axes(
        _decades([point.cost.intensity for point in points] + [roofline.peaks.ridge]),
        _decades([point.cost.flops / point.seconds / 1e9 for point in points] + [roofline.peaks.flops / 1e9]),
    )
    longest = max((point.seconds for point in points), default=1.0)
    body = [*axes.lines("FLOPs per byte", "GFLOP/s"), _roof(axes, roofline)]
    for point in sorted(points, key=lambda each: -each.seconds):
        x, y = axes.place(point.cost.intensity, point.cost.flops / point.seconds / 1e9)
        radius = 2 + 7 * math.sqrt(point.seconds / longest)
        colour = _MEMORY if point.is_bound_by_memory else _ARITHMETIC
        tip = f"{point.node.name}: {point.seconds * 1e6:.1f} us, {point.efficiency:.0%} of the roof"
        body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}" fill-opacity=".45">'
                    f"<title>{escape(tip)}</title></circle>")  # fmt: skip
    body += _labels(axes, sorted(points, key=lambda each: -each.seconds)[:_MOST_LABELS])
    peaks = roofline.peaks
    told = f"{peaks.flops / 1e9:,.0f} GFLOP/s, {peaks.bandwidth / 1e9:,.0f} GB/s ({peaks.name})"
    legend = [_text(WIDTH - _RIGHT, _TOP - 8, told, anchor="end", colour=_GREY),
              _text(_LEFT + 8, HEIGHT - _BOTTOM - 22, "bound by memory", colour=_MEMORY),
              _text(_LEFT + 8, HEIGHT - _BOTTOM - 8, "bound by arithmetic", colour=_ARITHMETIC)]  # fmt: skip
    return _picture(title, HEIGHT, [*body, *legend])


def profile_picture(times: GraphProfile, title: str = "Profile") -> str:
    """Draw a profile: a bar for each of the slowest nodes, and one for all others."""
    slowest = sorted(times.nodes, key=lambda each: -each.median)
    bars = [(each.node.name, each.median) for each in slowest[:_MOST_BARS]]
    rest = sum(each.median for each in slowest[_MOST_BARS:])
    if rest:
        bars.append((f"{len(slowest) - _MOST_BARS} others", rest))
    longest = max((seconds for _, seconds in bars), default=1.0)
    left, step = 250, 20
    body = []
    for place, (name, seconds) in enumerate(bars):
        y = _TOP + place * step
        width = (WIDTH - left - 110) * seconds / longest
        body += [_text(left - 8, y + 12, _shortened(name), anchor="end"),
                 f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{step - 5}" fill="{_MEMORY}"/>',
                 _text(left + width + 6, y + 12, f"{seconds * 1e6:,.0f} us {seconds / (times.total or 1):.0%}",
                       colour=_GREY)]  # fmt: skip
    told = f"{len(times.nodes)} nodes, {times.total * 1e3:.2f} ms"
    return _picture(f"{title}: {told}", _TOP + len(bars) * step + 12, body)


class _Axes:
    """Two logarithmic axes, from one power of ten to another."""

    def __init__(self, horizontal: tuple[int, int], vertical: tuple[int, int]) -> None:
        self.horizontal, self.vertical = horizontal, vertical

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point lies in the picture."""
        across = (math.log10(x) - self.horizontal[0]) / (self.horizontal[1] - self.horizontal[0])
        up = (math.log10(y) - self.vertical[0]) / (self.vertical[1] - self.vertical[0])
        return _LEFT + across * (WIDTH - _LEFT - _RIGHT), HEIGHT - _BOTTOM - up * (HEIGHT - _TOP - _BOTTOM)

    def lines(self, across: str, up: str) -> Iterable[str]:
        """Yield the grid with its numbers and the names of the axes."""
        for power in range(self.horizontal[0], self.horizontal[1] + 1):
            x, _ = self.place(10.0**power, 10.0 ** self.vertical[0])
            yield _line(x, _TOP, x, HEIGHT - _BOTTOM, "#ddd")
            yield _text(x, HEIGHT - _BOTTOM + 16, _power(power), anchor="middle")
        for power in range(self.vertical[0], self.vertical[1] + 1):
            _, y = self.place(10.0 ** self.horizontal[0], 10.0**power)
            yield _line(_LEFT, y, WIDTH - _RIGHT, y, "#ddd")
            yield _text(_LEFT - 6, y + 4, _power(power), anchor="end")
        yield _text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 14, across, anchor="middle")
        middle = (_TOP + HEIGHT - _BOTTOM) / 2
        yield f'<text x="16" y="{middle:.0f}" text-anchor="middle" transform="rotate(-90 16 {middle:.0f})">{up}</text>'


def _roof(axes: _Axes, roofline: Roofline) -> str:
    peaks = roofline.peaks
    low, high = 10.0 ** axes.horizontal[0], 10.0 ** axes.horizontal[1]
    floor = 10.0 ** axes.vertical[0]
    start = max(low, floor * 1e9 / peaks.bandwidth)
    corners = [(start, start * peaks.bandwidth / 1e9), (peaks.ridge, peaks.flops / 1e9), (high, peaks.flops / 1e9)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (axes.place(*corner) for corner in corners))
    return f'<polyline points="{path}" fill="none" stroke="#222" stroke-width="1.5"/>'


def _labels(axes: _Axes, points: Sequence[RooflinePoint]) -> Iterable[str]:
    """Name nodes, below each other where their dots are close."""
    taken: list[float] = []
    for point in points:
        x, y = axes.place(point.cost.intensity, point.cost.flops / point.seconds / 1e9)
        while any(abs(y - other) < 12 for other in taken):
            y += 12
        taken.append(y)
        name = _shortened(point.node.name)
        has_room = x + 10 + len(name) * _LETTER < WIDTH
        yield _text(x + (10 if has_room else -10), y + 4, name, anchor="start" if has_room else "end")


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2 - 1]}...{name[2 - _LONGEST // 2 :]}"


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _power(power: int) -> str:
    return f"{10**power:,}" if power >= 0 else f"{10.0**power:g}"


def _line(x: float, y: float, to_x: float, to_y: float, colour: str) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _picture(title: str, height: float, body: Iterable[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
        f'height="{height:.0f}" font-family="sans-serif" font-size="11">'
    )
    ground = f'<rect width="{WIDTH}" height="{height:.0f}" fill="#fff"/>'
    name = f'<text x="{_LEFT}" y="22" font-size="14" fill="#222">{escape(title)}</text>'
    return "\n".join([head, ground, name, *body, "</svg>", ""])

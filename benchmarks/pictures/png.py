"""Pictures that a repository can keep: PNG files of at most 256 colours."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path

from fixtures.browser import Page

# Of the colours of a picture the most frequent are kept, and then those that are farthest from all that are; others
# become the nearest of these.
_REDUCED = """
(async (source) => {
  const image = new Image();
  image.src = source;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const {data} = context.getImageData(0, 0, image.width, image.height), counts = new Map();
  const colours = new Int32Array(image.width * image.height);
  for (let i = 0; i < colours.length; i++) {
    colours[i] = data[4 * i] << 16 | data[4 * i + 1] << 8 | data[4 * i + 2];
    counts.set(colours[i], (counts.get(colours[i]) || 0) + 1);
  }
  const sorted = [...counts].sort((one, other) => other[1] - one[1]), palette = sorted.slice(0, 96).map(([colour]) => colour);
  const far = (one, other) => [16, 8, 0].reduce((sum, shift) => sum + ((one >> shift & 255) - (other >> shift & 255)) ** 2, 0);
  const left = sorted.slice(96).map(([colour, count]) => ({colour, weight: Math.log1p(count), least: Math.min(...palette.map((kept) => far(kept, colour)))}));
  while (palette.length < 256 && left.length) {
    const next = left.reduce((best, each) => each.least * each.weight > best.least * best.weight ? each : best);
    if (!next.least) break;
    palette.push(next.colour);
    for (const each of left) each.least = Math.min(each.least, far(each.colour, next.colour));
  }
  const places = new Map(palette.map((colour, place) => [colour, place]));
  for (const colour of counts.keys()) if (!places.has(colour)) {
    let best = 0;
    for (let place = 1; place < palette.length; place++) if (far(palette[place], colour) < far(palette[best], colour)) best = place;
    places.set(colour, best);
  }
  let text = "";
  for (const colour of colours) text += String.fromCharCode(places.get(colour));
  return {width: image.width, height: image.height, palette, pixels: btoa(text)};
})(SOURCE)
"""  # noqa: E501


def write_small(page: Page, file: Path) -> None:
    """Write a PNG file anew, with at most 256 colours; the page is left at an empty one."""
    page.call("Page.navigate", url="about:blank")
    page.settle()
    source = f"data:image/png;base64,{base64.b64encode(file.read_bytes()).decode()}"
    found = page.ask(_REDUCED.replace("SOURCE", json.dumps(source)))
    width, height, pixels = found["width"], found["height"], base64.b64decode(found["pixels"])
    rows = b"".join(b"\0" + pixels[start : start + width] for start in range(0, width * height, width))
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0),
        b"PLTE": b"".join(colour.to_bytes(3, "big") for colour in found["palette"]),
        b"IDAT": zlib.compress(rows, 9),
        b"IEND": b"",
    }
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in parts.items()))


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

// SPDX-License-Identifier: Apache-2.0
// Draws rectangles that do not overlap into pixels of 4 x 4 samples. Allocations never overlap in
// address and time, so no sample is drawn twice: the work is bounded by the number of samples, plus one
// check for each allocation in sight. Allocations smaller than a sample show in proportion to their
// area, wherever a sample hits them.
const SAMPLES = 4;
const BLOCK = 256;  // allocations are skipped in blocks of this size

// Returns the latest end in each block of allocations: a block that ended before the window is skipped.
function blockEnds(ends) {
  const latest = new Float64Array(Math.ceil(ends.length / BLOCK));
  for (let i = 0; i < ends.length; ++i) {
    const block = Math.floor(i / BLOCK);
    if (ends[i] > latest[block]) latest[block] = ends[i];
  }
  return latest;
}

// Calls `visit` with the number of each allocation that begins no later than `to` and ends after `from`.
function forEachBetween(spans, from, to, visit) {
  const last = lowerBound(spans.start, to, 0, spans.start.length, true);
  for (let first = 0; first < last; first += BLOCK) {
    if (spans.blockEnd[first / BLOCK] <= from) continue;
    const stop = Math.min(last, first + BLOCK);
    for (let i = first; i < stop; ++i) {
      if (spans.end[i] > from) visit(i);
    }
  }
}

class Raster {
  constructor() { this.resize(0, 0); }

  resize(width, height) {
    if (this.width === width && this.height === height) return;
    this.width = width;
    this.height = height;
    this.redGreen = new Uint32Array(width * height);   // sums over samples, red in the low half
    this.blueCount = new Uint32Array(width * height);  // blue, and the number of samples
    this.top = new Int32Array(width);                  // the highest row in use, by column
  }

  // `spans`: start, end, blockEnd; `window`: from, to, low, high; `colours`: [r, g, b] by class.
  draw({spans, offsets, bytes, classes, colours, window}) {
    const {width, height} = this;
    this.redGreen.fill(0);
    this.blueCount.fill(0);
    this.top.fill(height);
    this.outlined = [];
    const acrossScale = width * SAMPLES / (window.to - window.from);
    const upScale = height * SAMPLES / (window.high - window.low);
    const mostAcross = width * SAMPLES;
    const mostDown = height * SAMPLES;
    const packed = colours.map(([r, g, b]) => [r + g * 65536, b + 65536]);
    forEachBetween(spans, window.from, window.to, (i) => {
      const offset = offsets[i];
      if (offset < 0) return;
      // A rectangle hits a sample if it covers the middle of the sample.
      let left = Math.ceil((spans.start[i] - window.from) * acrossScale - 0.5);
      let right = Math.ceil((spans.end[i] - window.from) * acrossScale - 0.5);
      let above = Math.ceil((window.high - offset - bytes[i]) * upScale - 0.5);
      let below = Math.ceil((window.high - offset) * upScale - 0.5);
      if (left < 0) left = 0;
      if (right > mostAcross) right = mostAcross;
      if (above < 0) above = 0;
      if (below > mostDown) below = mostDown;
      if (left >= right || above >= below) return;
      this.fill(left, right, above, below, packed[classes[i]]);
      if (right - left >= 6 * SAMPLES && below - above >= 4 * SAMPLES) this.outlined.push(left, right, above, below);
    });
  }

  fill(left, right, above, below, [redGreen, blueCount]) {
    const firstColumn = left >> 2;
    const lastColumn = (right - 1) >> 2;
    const firstPart = Math.min(right, (firstColumn + 1) * 4) - left;
    const lastPart = right - lastColumn * 4;
    for (let column = firstColumn, top = above >> 2; column <= lastColumn; ++column) {
      if (top < this.top[column]) this.top[column] = top;
    }
    for (let row = above >> 2; row <= (below - 1) >> 2; ++row) {
      const rows = Math.min(below, row * 4 + 4) - Math.max(above, row * 4);
      const first = row * this.width + firstColumn;
      const last = row * this.width + lastColumn;
      this.redGreen[first] += redGreen * rows * firstPart;
      this.blueCount[first] += blueCount * rows * firstPart;
      if (first === last) continue;
      this.redGreen[last] += redGreen * rows * lastPart;
      this.blueCount[last] += blueCount * rows * lastPart;
      if (rows === 4) {  // nothing else can be in these pixels
        this.redGreen.fill(redGreen * 16, first + 1, last);
        this.blueCount.fill(blueCount * 16, first + 1, last);
      } else {
        for (let at = first + 1; at < last; ++at) {
          this.redGreen[at] += redGreen * rows * 4;
          this.blueCount[at] += blueCount * rows * 4;
        }
      }
    }
  }

  // Returns the pixels. Free pixels below used ones are holes, hatched by lines `thickness` wide. `roof`
  // is the row of the pool's end.
  image({free, hole, hatch, outside, edge}, roof, thickness) {
    const {width, height, redGreen, blueCount, top} = this;
    const image = new ImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    const pack = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;
    const plain = {free: pack(free), hole: pack(hole), hatch: pack(hatch), outside: pack(outside)};
    const period = 7 * thickness;
    for (let row = 0, at = 0; row < height; ++row) {
      for (let column = 0; column < width; ++column, ++at) {
        const count = blueCount[at] >>> 16;
        const isHole = row > top[column];
        if (count === 0) {
          pixels[at] = row < roof ? plain.outside : !isHole ? plain.free : (row + column) % period < thickness ? plain.hatch : plain.hole;
          continue;
        }
        const rest = 16 - count;
        const back = isHole ? hole : free;
        const r = ((redGreen[at] & 0xffff) + back[0] * rest) >> 4;
        const g = ((redGreen[at] >>> 16) + back[1] * rest) >> 4;
        const b = ((blueCount[at] & 0xffff) + back[2] * rest) >> 4;
        pixels[at] = (255 << 24 | b << 16 | g << 8 | r) >>> 0;
      }
    }
    this.outline(pixels, edge);
    return image;
  }

  // Draws a thin edge at the left and at the top of large rectangles, which separates neighbours.
  outline(pixels, edge) {
    const blend = (at) => {
      const pixel = pixels[at];
      const mix = (shift, channel) => ((((pixel >>> shift) & 0xff) * 5 + channel * 3) >> 3) << shift;
      pixels[at] = (255 << 24 | mix(16, edge[2]) | mix(8, edge[1]) | mix(0, edge[0])) >>> 0;
    };
    for (let i = 0; i < this.outlined.length; i += 4) {
      const [left, right, above, below] = [0, 1, 2, 3].map((k) => this.outlined[i + k] >> 2);
      for (let column = left; column < right; ++column) blend(above * this.width + column);
      for (let row = above + 1; row < below; ++row) blend(row * this.width + left);
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
// Ticks of an axis, and its visible part.

// Ticks 1, 2 or 5 times a power of ten apart.
function decimalStep(range, most) {
  const least = range / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least * 0.999) ?? 10 * power;
}

// Ticks of bytes: powers of two, and tens and hundreds of a unit, which are easier to read than 64,
// 128, 192.
function byteStep(range, most) {
  const least = Math.max(range / Math.max(1, most), 1);
  for (const unit of [1, 2 ** 10, 2 ** 20, 2 ** 30, 2 ** 40]) {
    const step = [1, 2, 5, 10, 20, 50, 100, 200, 256, 512].find((factor) => factor * unit >= least * 0.999);
    if (step) return step * unit;
  }
  return least;
}

function ticksBetween(from, to, step) {
  const ticks = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9 && ticks.length < 100; ++i) ticks.push(i * step);
  return ticks;
}

// Returns the first index of a value that is at least `limit`, or above it. `values` must not fall.
function lowerBound(values, limit, from = 0, to = values.length, isAbove = false) {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (values[middle] < limit || (isAbove && values[middle] === limit)) from = middle + 1;
    else to = middle;
  }
  return from;
}

// A part of [0, length] that is at least `least` long and never leaves it.
class Range {
  constructor(length, least) { this.reset(length, least); }

  reset(length, least) {
    this.length = length;
    this.least = Math.min(least, length);
    this.from = 0;
    this.to = length;
  }

  get size() { return this.to - this.from; }
  get isWhole() { return this.from <= 0 && this.to >= this.length; }

  set(from, to) {
    const size = Math.min(this.length, Math.max(this.least, to - from));
    this.from = Math.min(Math.max(0, (from + to - size) / 2), this.length - size);
    this.to = this.from + size;
  }

  move(by) {
    const step = Math.max(-this.from, Math.min(by, this.length - this.to));
    this.set(this.from + step, this.to + step);
  }

  // Multiplies the length by `factor`. The position `fixed` stays in its place on the screen.
  zoom(factor, fixed) {
    const size = Math.min(this.length, Math.max(this.least, this.size * factor));
    const share = (fixed - this.from) / this.size;
    this.set(fixed - share * size, fixed + (1 - share) * size);
  }
}

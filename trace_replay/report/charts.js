// SPDX-License-Identifier: Apache-2.0
// The two charts, memory over time and the map of addresses over time. They share their range of time.
const SERIES = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#8a6d00'];  // Okabe and Ito
const SERIES_DARK = ['#4fa8e0', '#f0803c', '#2fc497', '#e29cc3', '#f0b73d', '#8fd0f5', '#d8c25a'];
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3], [12, 4], [4, 4]];
const THEMES = {
  light: {
    page: '#ffffff', ink: '#16202a', soft: '#55636f', line: '#e3e8ec', live: '#1d6f8a', area: 'rgba(29,111,138,.16)',
    budget: '#b3261e', reserved: '#6b7681', failure: '#b3261e', mark: 'rgba(22,32,42,.22)', series: SERIES, other: '#a3adb6',
    free: '#f3f5f7', hole: '#e2e7eb', hatch: '#c6ced6', outside: '#ffffff', edge: '#ffffff', select: 'rgba(11,98,196,.16)', focus: '#0b62c4',
    sizes: ['#f6c85f', '#f29e4c', '#e2725b', '#bf4f7a', '#8e4191', '#5a3d99', '#2b3a85'],
  },
  dark: {
    page: '#171d24', ink: '#e6ebf0', soft: '#a3b0bc', line: '#2a333d', live: '#5bb5d0', area: 'rgba(91,181,208,.2)',
    budget: '#ff8a80', reserved: '#8c99a5', failure: '#ff8a80', mark: 'rgba(230,235,240,.24)', series: SERIES_DARK, other: '#5b6771',
    free: '#1c232b', hole: '#262f39', hatch: '#3d4955', outside: '#171d24', edge: '#171d24', select: 'rgba(125,183,255,.2)', focus: '#7db7ff',
    sizes: ['#5f58b8', '#8a55b5', '#b5569f', '#da6583', '#ef8468', '#f6ac5b', '#f8dc78'],
  },
};
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", "DejaVu Sans", sans-serif';
const MARK_LANE = 18;

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

// Moves `places` ({y}) apart by the least distances at which labels of `height` do not overlap.
function spread(places, height, from, to) {
  places.sort((a, b) => a.y - b.y);
  let least = from;
  for (const place of places) {
    place.y = Math.max(place.y, least);
    least = place.y + height;
  }
  let most = to;
  for (const place of [...places].reverse()) {
    place.y = Math.min(place.y, most);
    most = place.y - height;
  }
}

function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low > 0 ? `${text.slice(0, low)}…` : '';
}

class Charts {
  constructor(trace, facts) {
    this.trace = trace;
    this.facts = facts;
    this.live = liveAfterEvents(trace);
    this.reserved = [];
    for (let i = 0, sum = 0; i < trace.reservations.length; ++i) {
      sum += trace.reservations[i].bytes;
      this.reserved.push({event: trace.reservations[i].event, bytes: sum});
    }
    this.memory = document.getElementById('memory');
    this.map = document.getElementById('map');
    this.layer = document.createElement('canvas');
    this.raster = new Raster();
    this.across = new Range(1, 1);
    this.up = new Range(1, 1);
    this.drawMilliseconds = 0;
    this.hover = null;      // {across, address or null}
    this.chosen = -1;       // an allocation
    this.selection = null;  // a box that is being drawn
    this.setAxis('events');
  }

  // --- The visible range and the colours.

  setAxis(axis) {
    const share = [this.across.from / this.across.length, this.across.to / this.across.length];
    const before = this.axis && !this.across.isWhole ? share : null;
    const old = this.positions;
    this.axis = axis;
    const {trace} = this;
    if (axis === 'time') {
      this.times ??= readTimes(trace, this.facts);
      this.positions = this.times;
      this.spans = {start: trace.start.map((event) => this.times[event]), end: trace.end.map((event) => this.times[event])};
    } else {
      this.eventNumbers ??= Float64Array.from({length: trace.events + 1}, (_, i) => i);
      this.positions = this.eventNumbers;
      this.spans = {start: trace.start, end: trace.end};
    }
    this.spans.blockEnd = blockEnds(this.spans.end);
    const length = this.positions[trace.events] || 1;
    const seen = before && old ? [this.across.from, this.across.to].map((at) => lowerBound(old, at)) : null;
    this.across.reset(length, axis === 'time' ? Math.max(this.facts.times.unit * 8, length * 1e-7) : 8);
    if (seen) this.across.set(this.positions[Math.min(seen[0], trace.events)], this.positions[Math.min(seen[1], trace.events)]);
  }

  setLayout(number, offsets) {
    this.layoutNumber = number;
    this.offsets = offsets;
    this.poolBytes = this.facts.policies[number].layout_bytes;
    const length = Math.max(this.poolBytes, this.facts.trace.alignment) * 1.03;
    const [from, to] = this.up.isWhole ? [0, length] : [this.up.from, this.up.to];
    this.up.reset(length, this.facts.trace.alignment * 8);
    this.up.set(from, to);
  }

  setColours(mode, grouping) {
    this.colourMode = mode;
    const {trace} = this;
    this.classes = new Uint8Array(trace.count);
    if (mode === 'stack') {
      for (let i = 0; i < trace.count; ++i) this.classes[i] = grouping.ofTag[trace.tag[i]];
      this.classNames = grouping.names;
    } else if (mode === 'stream' || mode === 'thread') {
      const numbers = mode === 'stream' ? trace.stream.map((value) => Math.floor(value / 2)) : trace.thread;
      const heaviest = heaviestNumbers(numbers, trace.bytes, SERIES.length);
      for (let i = 0; i < trace.count; ++i) this.classes[i] = heaviest.get(numbers[i]) ?? SERIES.length;
      const names = mode === 'stream' ? this.facts.streams : this.facts.threads;
      this.classNames = [...heaviest.keys()].map((number) => visible(names[number]) || `(unnamed ${mode})`);
      if (heaviest.size < new Set(numbers).size) this.classNames[SERIES.length] = 'others';
    } else {
      this.sizes ??= sizeClasses(trace);
      for (let i = 0; i < trace.count; ++i) this.classes[i] = this.sizes.classOf(trace.bytes[i]);
      this.classNames = this.sizes.names;
    }
    this.classUsed = new Uint8Array(SERIES.length + 1);
    for (const number of this.classes) this.classUsed[number] = 1;
  }

  setTheme(name) { this.theme = THEMES[name]; }

  classColour(number) {
    if (this.colourMode === 'size') return this.sizeColours()[number];
    return number < SERIES.length ? this.theme.series[number] : this.theme.other;
  }

  // Returns colours that are as far apart as the palette allows.
  sizeColours() {
    const {theme: {sizes}, sizes: {names}} = this;
    if (names.length === 1) return [sizes[4]];
    return names.map((_, i) => sizes[Math.round(i * (sizes.length - 1) / (names.length - 1))]);
  }

  // Returns the horizontal lines of the memory chart.
  levels() {
    const levels = this.facts.policies.map((policy, i) => ({
      name: policy.policy, bytes: policy.layout_bytes, colour: this.theme.series[(i + 1) % SERIES.length], dash: DASHES[i % DASHES.length],
      width: i === this.layoutNumber ? 2.5 : 1.5, atMost: policy.is_upper_bound,
    }));
    if (this.facts.budget_bytes !== null) {
      levels.push({name: 'budget', bytes: this.facts.budget_bytes, colour: this.theme.budget, dash: [10, 5], width: 2.5});
    }
    return levels;
  }

  // The pools of policies would tell nothing about a job with an unknown peak.
  shownLevels() {
    return this.facts.history ? this.levels() : this.levels().slice(this.facts.policies.length);
  }

  // --- Positions on the screen.

  // Printed charts have a fixed size.
  measure() {
    const width = this.isPaper ? 1000 : this.memory.clientWidth;
    const heights = this.isPaper ? {memory: 190, map: 330} : {memory: this.memory.clientHeight, map: this.map.clientHeight};
    const isWide = width >= 820;
    const sides = {left: 70, right: isWide ? 192 : 10};
    this.isWide = isWide;
    this.frames = {
      memory: {...sides, width, height: heights.memory, top: this.trace.marks.length > 0 ? MARK_LANE + 4 : 8, bottom: 22},
      map: {...sides, width, height: heights.map, top: 6, bottom: 24},
    };
    for (const frame of Object.values(this.frames)) {
      frame.plotWidth = Math.max(10, frame.width - frame.left - frame.right);
      frame.plotHeight = Math.max(10, frame.height - frame.top - frame.bottom);
    }
    this.ratio = this.isPaper ? 2 : Math.min(3, window.devicePixelRatio || 1);
  }

  xOf(position) { return this.frames.map.left + (position - this.across.from) / this.across.size * this.frames.map.plotWidth; }
  positionAt(x) { return this.across.from + (x - this.frames.map.left) / this.frames.map.plotWidth * this.across.size; }
  yOf(address) { const frame = this.frames.map; return frame.top + (this.up.to - address) / this.up.size * frame.plotHeight; }
  addressAt(y) { const frame = this.frames.map; return this.up.to - (y - frame.top) / frame.plotHeight * this.up.size; }

  // Returns the last event at or before a position; -1 before the first event.
  eventAt(position) {
    if (this.axis === 'events') return Math.min(this.trace.events, Math.floor(position)) - (position >= this.trace.events ? 1 : 0);
    let [from, to] = [0, this.trace.events];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (this.positions[middle] <= position) from = middle + 1;
      else to = middle;
    }
    return from - 1;
  }

  // Returns the allocation at a point of the map, or the nearest one at most `reach` pixels away; -1
  // without one.
  allocationAt(x, y, reach = 3) {
    const frame = this.frames.map;
    if (x < frame.left - reach || x > frame.left + frame.plotWidth + reach || y < frame.top || y > frame.top + frame.plotHeight) return -1;
    const position = this.positionAt(x);
    const address = this.addressAt(y);
    const across = this.across.size / frame.plotWidth;
    const up = this.up.size / frame.plotHeight;
    let [nearest, distance] = [-1, reach + 0.5];
    forEachBetween(this.spans, position - reach * across, position + reach * across, (i) => {
      if (this.offsets[i] < 0) return;
      const dx = Math.max(this.spans.start[i] - position, position - this.spans.end[i], 0) / across;
      const dy = Math.max(this.offsets[i] - address, address - this.offsets[i] - this.trace.bytes[i], 0) / up;
      const away = Math.hypot(dx, dy);
      if (away < distance || (away === distance && away === 0 && position >= this.spans.start[i] && position < this.spans.end[i])) [nearest, distance] = [i, away];
    });
    return nearest;
  }

  // Returns the middle of the visible part of an allocation on the map; null if it is out of sight.
  middleOf(i) {
    const from = Math.max(this.spans.start[i], this.across.from);
    const to = Math.min(this.spans.end[i], this.across.to);
    const low = Math.max(this.offsets[i], this.up.from);
    const high = Math.min(this.offsets[i] + this.trace.bytes[i], this.up.to);
    if (this.offsets[i] < 0 || from > to || low >= high) return null;
    return {x: this.xOf((from + to) / 2), y: this.yOf((low + high) / 2)};
  }

  // --- Drawing.

  invalidate(isMapChanged = true) {
    this.isMapChanged ||= isMapChanged;
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.draw();
    });
  }

  // Draws both charts. While the view moves a slow map is drawn coarsely; when it rests, in full.
  draw() {
    const began = performance.now();
    this.measure();
    if (this.isMapChanged) {
      const isCoarse = this.isMoving && this.drawMilliseconds > 24;
      this.drawLayer(isCoarse ? this.ratio / 2 : this.ratio);
      if (!isCoarse) this.drawMilliseconds = performance.now() - began;
      this.isMapChanged = false;
      clearTimeout(this.rest);
      if (isCoarse) {
        this.rest = setTimeout(() => {
          this.isMoving = false;
          this.invalidate();
        }, 150);
      }
    }
    this.drawMap();
    this.drawMemory();
    this.onDrawn?.();
  }

  drawLayer(scale) {
    const {frames: {map: frame}, theme} = this;
    const width = Math.max(1, Math.round(frame.plotWidth * scale));
    const height = Math.max(1, Math.round(frame.plotHeight * scale));
    this.raster.resize(width, height);
    this.raster.draw({
      spans: this.spans, offsets: this.offsets, bytes: this.trace.bytes, classes: this.classes,
      colours: Array.from({length: SERIES.length + 1}, (_, i) => rgb(this.classColour(i) ?? theme.other)),
      window: {from: this.across.from, to: this.across.to, low: this.up.from, high: this.up.to},
    });
    const roof = Math.round((this.up.to - this.poolBytes) / this.up.size * height);
    const colours = Object.fromEntries(['free', 'hole', 'hatch', 'outside', 'edge'].map((name) => [name, rgb(theme[name])]));
    this.layer.width = width;
    this.layer.height = height;
    this.layer.getContext('2d').putImageData(this.raster.image(colours, roof, Math.max(1, Math.round(scale))), 0, 0);
  }

  prepare(canvas, frame) {
    const [width, height] = [Math.round(frame.width * this.ratio), Math.round(frame.height * this.ratio)];
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    const context = canvas.getContext('2d');
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = this.theme.page;
    context.fillRect(0, 0, frame.width, frame.height);
    context.font = FONT;
    context.textBaseline = 'middle';
    return context;
  }

  clipped(context, frame, draw) {
    context.save();
    context.beginPath();
    context.rect(frame.left, frame.top, frame.plotWidth, frame.plotHeight);
    context.clip();
    draw();
    context.restore();
  }

  positionText(position, step) {
    if (this.axis === 'events') return countText(position);
    return durationText(position, this.facts.times.nanoseconds, step);
  }

  drawAcross(context, frame, hasLabels) {
    const most = Math.max(2, Math.floor(frame.plotWidth / 110));
    const step = Math.max(decimalStep(this.across.size, most), this.axis === 'events' ? 1 : 0);
    context.strokeStyle = this.theme.line;
    context.lineWidth = 1;
    const bottom = frame.top + frame.plotHeight;
    const ticks = ticksBetween(this.across.from, this.across.to, step);
    for (const tick of ticks) {
      const x = Math.round(this.xOf(tick)) + 0.5;
      context.beginPath();
      context.moveTo(x, hasLabels ? bottom : frame.top);
      context.lineTo(x, bottom + (hasLabels ? 5 : 0));
      context.stroke();
    }
    if (!hasLabels) return;
    context.fillStyle = this.theme.soft;
    const name = this.axis === 'events' ? 'event' : 'time';
    const nameWidth = context.measureText(name).width;
    context.textAlign = 'left';
    context.fillText(name, 4, bottom + 13);
    for (const tick of ticks) {
      const text = this.positionText(tick, step);
      const half = context.measureText(text).width / 2;
      const x = Math.min(Math.max(this.xOf(tick), frame.left + half - 6), frame.left + frame.plotWidth - half + (this.isWide ? 6 : 8));
      if (x - half < nameWidth + 10) continue;
      context.textAlign = 'center';
      context.fillText(text, x, bottom + 13);
    }
  }

  drawUp(context, frame, from, to, yOf, isGrid) {
    const step = Math.max(byteStep(to - from, Math.max(2, Math.floor(frame.plotHeight / 42))), 1);
    context.textAlign = 'right';
    for (const tick of ticksBetween(from, to, step)) {
      const y = Math.round(yOf(tick)) + 0.5;
      context.strokeStyle = this.theme.line;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(isGrid ? frame.left : frame.left - 5, y);
      context.lineTo(isGrid ? frame.left + frame.plotWidth : frame.left, y);
      context.stroke();
      context.fillStyle = this.theme.soft;
      context.fillText(tickText(tick, step), frame.left - 8, Math.min(Math.max(y, frame.top + 5), frame.top + frame.plotHeight - 3));
    }
  }

  // Draws thin lines at marks, at most one a pixel.
  drawMarks(context, frame) {
    context.strokeStyle = this.theme.mark;
    context.lineWidth = 1;
    context.beginPath();
    let last = -2;
    for (const mark of this.trace.marks) {
      if (mark.ends) continue;
      const x = Math.round(this.xOf(this.positions[mark.event]));
      if (x < last + 2 || x < frame.left || x > frame.left + frame.plotWidth) continue;
      context.moveTo(x + 0.5, frame.top);
      context.lineTo(x + 0.5, frame.top + frame.plotHeight);
      last = x;
    }
    context.stroke();
  }

  // Writes names beside their marks where there is room. Marks close together share the room.
  drawMarkNames(context, frame) {
    const end = frame.left + frame.plotWidth;
    const groups = [];
    for (const mark of this.trace.marks) {
      const x = this.xOf(this.positions[mark.event]);
      if (mark.ends || x < frame.left - 1 || x > end) continue;
      const name = visible(this.facts.marks[mark.name]);
      const last = groups.at(-1);
      if (last && x - last.x < 7) last.names.add(name);
      else groups.push({x, names: new Set([name])});
    }
    context.textAlign = 'left';
    let free = -Infinity;
    groups.forEach(({x, names}, i) => {
      const room = Math.min(240, (groups[i + 1]?.x ?? end) - x - 6);
      if (x < free || room < 24) return;
      const name = [...names].slice(0, 4).join(' · ');
      const text = shortened(context, name, room);
      if (text.length < 4 && text !== name) return;
      context.fillStyle = this.theme.mark;
      context.fillRect(Math.round(x), frame.top - MARK_LANE, 1, MARK_LANE);
      context.fillStyle = this.theme.soft;
      context.fillText(text, x + 4, frame.top - 10);
      free = x + context.measureText(text).width + 10;
    });
  }

  // Returns the most and the least live bytes in each column of pixels.
  liveByColumn(columns) {
    const most = new Float64Array(columns);
    const least = new Float64Array(columns);
    const last = this.trace.events - 1;
    let at = this.eventAt(this.across.from);
    for (let column = 0; column < columns; ++column) {
      const to = this.across.from + (column + 1) / columns * this.across.size;
      let high = at < 0 ? 0 : this.live[Math.min(at, last)];
      let low = high;
      while (at < last && this.positions[at + 1] < to) {
        const value = this.live[++at];
        if (value > high) high = value;
        else if (value < low) low = value;
      }
      most[column] = high;
      least[column] = low;
    }
    return {most, least};
  }

  drawMemory() {
    const {frames: {memory: frame}, theme} = this;
    const context = this.prepare(this.memory, frame);
    const levels = this.shownLevels();
    const top = 1.06 * Math.max(this.facts.trace.peak_live_bytes, this.facts.reserved_peak_bytes ?? 0, this.facts.trace.alignment, ...levels.map((level) => level.bytes));
    const yOf = (bytes) => frame.top + (1 - bytes / top) * frame.plotHeight;
    this.memoryScale = {top, yOf};
    this.drawUp(context, frame, 0, top, yOf, true);
    this.drawMarks(context, frame);
    this.clipped(context, frame, () => {
      this.drawLive(context, frame, yOf);
      this.drawReserved(context, frame, yOf);
      for (const level of levels) {
        context.strokeStyle = level.colour;
        context.lineWidth = level.width;
        context.setLineDash(level.dash);
        context.beginPath();
        context.moveTo(frame.left, yOf(level.bytes));
        context.lineTo(frame.left + frame.plotWidth, yOf(level.bytes));
        context.stroke();
      }
      context.setLineDash([]);
      this.drawFailures(context, frame);
    });
    this.drawMarkNames(context, frame);
    this.drawAcross(context, frame, true);
    if (this.isWide) this.drawLevelNames(context, frame, levels, yOf);
    this.drawHover(context, frame, false);
  }

  drawLive(context, frame, yOf) {
    const columns = Math.max(1, Math.round(frame.plotWidth * Math.min(2, this.ratio)));
    const {most, least} = this.liveByColumn(columns);
    const width = frame.plotWidth / columns;
    const bottom = frame.top + frame.plotHeight;
    context.fillStyle = this.theme.area;
    context.beginPath();
    context.moveTo(frame.left, bottom);
    for (let i = 0; i < columns; ++i) {
      context.lineTo(frame.left + i * width, yOf(most[i]));
      context.lineTo(frame.left + (i + 1) * width, yOf(most[i]));
    }
    context.lineTo(frame.left + frame.plotWidth, bottom);
    context.fill();
    context.fillStyle = this.theme.live;
    for (let i = 0; i < columns; ++i) {
      const high = yOf(most[i]) - 0.75;
      // Closes the gap between columns at a step.
      const low = Math.max(yOf(least[i]), i > 0 ? Math.min(yOf(most[i - 1]), bottom) : 0) + 0.75;
      context.fillRect(frame.left + i * width, high, Math.max(width, 1), Math.max(1.5, Math.min(low, bottom) - high));
    }
  }

  drawReserved(context, frame, yOf) {
    if (this.facts.reserved_peak_bytes === null) return;
    context.strokeStyle = this.theme.reserved;
    context.lineWidth = 1.5;
    context.beginPath();
    let y = yOf(0);
    context.moveTo(frame.left, y);
    let lastX = -Infinity;
    for (const {event, bytes} of this.reserved) {
      const x = Math.max(frame.left - 1, this.xOf(this.positions[event]));
      if (x > frame.left + frame.plotWidth) break;
      if (x - lastX >= 0.5) context.lineTo(x, y);
      y = yOf(bytes);
      context.lineTo(x, y);
      lastX = x;
    }
    context.lineTo(frame.left + frame.plotWidth, y);
    context.stroke();
  }

  drawFailures(context, frame) {
    context.fillStyle = this.theme.failure;
    let last = -Infinity;
    for (const failure of this.trace.failures) {
      const x = this.xOf(this.positions[failure.event]);
      if (x - last < 3) continue;
      context.beginPath();
      context.moveTo(x - 4, frame.top);
      context.lineTo(x + 4, frame.top);
      context.lineTo(x, frame.top + 8);
      context.fill();
      last = x;
    }
  }

  drawLevelNames(context, frame, levels, yOf) {
    const names = levels.map((level) => ({y: yOf(level.bytes), from: yOf(level.bytes), colour: level.colour, bold: level.width > 2,
      text: `${level.name} ${level.atMost ? '≤ ' : ''}${sizeText(level.bytes)}`}));
    names.push({y: yOf(this.facts.trace.peak_live_bytes), from: yOf(this.facts.trace.peak_live_bytes), colour: this.theme.live, text: `${this.facts.history ? 'live, peak' : 'live'} ${sizeText(this.facts.trace.peak_live_bytes)}`});
    if (this.facts.reserved_peak_bytes !== null) {
      names.push({y: yOf(this.facts.reserved_peak_bytes), from: yOf(this.facts.reserved_peak_bytes), colour: this.theme.reserved, text: `reserved ${sizeText(this.facts.reserved_peak_bytes)}`});
    }
    spread(names, 15, frame.top + 2, frame.top + frame.plotHeight - 4);
    const left = frame.left + frame.plotWidth;
    context.textAlign = 'left';
    for (const name of names) {
      context.strokeStyle = name.colour;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(left, name.from);
      context.lineTo(left + 8, name.y);
      context.lineTo(left + 12, name.y);
      context.stroke();
      context.fillStyle = name.colour;
      context.fillRect(left + 12, name.y - 4, 8, 8);
      context.fillStyle = this.theme.ink;
      context.font = name.bold ? `600 ${FONT}` : FONT;
      context.fillText(shortened(context, name.text, frame.right - 26), left + 24, name.y);
      context.font = FONT;
    }
  }

  drawMap() {
    const {frames: {map: frame}, theme} = this;
    const context = this.prepare(this.map, frame);
    context.imageSmoothingEnabled = true;
    context.drawImage(this.layer, frame.left, frame.top, frame.plotWidth, frame.plotHeight);
    this.drawMarks(context, frame);
    this.drawUp(context, frame, this.up.from, this.up.to, (address) => this.yOf(address), false);
    this.drawAcross(context, frame, true);
    this.clipped(context, frame, () => {
      const y = Math.round(this.yOf(this.poolBytes)) + 0.5;
      context.strokeStyle = this.levels()[this.layoutNumber].colour;
      context.lineWidth = 2;
      context.setLineDash(DASHES[this.layoutNumber % DASHES.length]);
      context.beginPath();
      context.moveTo(frame.left, y);
      context.lineTo(frame.left + frame.plotWidth, y);
      context.stroke();
      context.setLineDash([]);
      this.drawChosen(context);
    });
    if (this.isWide) this.drawClassNames(context, frame);
    this.drawHover(context, frame, true);
    context.strokeStyle = theme.line;
    context.strokeRect(frame.left - 0.5, frame.top - 0.5, frame.plotWidth + 1, frame.plotHeight + 1);
  }

  drawClassNames(context, frame) {
    const left = frame.left + frame.plotWidth + 12;
    context.textAlign = 'left';
    let y = frame.top + 8;
    for (const [colour, text, isHatched] of this.legend()) {
      context.fillStyle = colour;
      context.fillRect(left, y - 5, 10, 10);
      if (isHatched) this.hatchBox(context, left, y - 5, 10);
      context.lineWidth = 1;
      context.strokeStyle = this.theme.line;
      context.strokeRect(left - 0.5, y - 5.5, 11, 11);
      context.fillStyle = this.theme.ink;
      context.fillText(shortened(context, text, frame.right - 30), left + 16, y);
      y += 18;
    }
  }

  hatchBox(context, x, y, size) {
    context.save();
    context.beginPath();
    context.rect(x, y, size, size);
    context.clip();
    context.strokeStyle = this.theme.hatch;
    context.lineWidth = 1.5;
    context.beginPath();
    for (let i = -size; i < size; i += 4) {
      context.moveTo(x + i, y + size);
      context.lineTo(x + i + size, y);
    }
    context.stroke();
    context.restore();
  }

  // Returns the rows of the map's legend: colour, name, and whether the colour is hatched.
  legend() {
    const rows = this.classNames.map((name, i) => [this.classColour(i), name, false]).filter((_, i) => this.classUsed[i]);
    if (this.colourMode === 'size') rows.reverse();
    return [...rows, [this.theme.hole, 'hole between blocks', true], [this.theme.free, 'free above them', false]];
  }

  drawChosen(context) {
    if (this.chosen < 0 || this.offsets[this.chosen] < 0) return;
    const i = this.chosen;
    const x = this.xOf(this.spans.start[i]);
    const y = this.yOf(this.offsets[i] + this.trace.bytes[i]);
    const width = Math.max(2, this.xOf(this.spans.end[i]) - x);
    const height = Math.max(2, this.yOf(this.offsets[i]) - y);
    context.lineWidth = 4;
    context.strokeStyle = this.theme.page;
    context.strokeRect(x, y, width, height);
    context.lineWidth = 2;
    context.strokeStyle = this.theme.ink;
    context.strokeRect(x, y, width, height);
  }

  drawHover(context, frame, isMap) {
    this.clipped(context, frame, () => {
      if (this.hover !== null) {
        const x = Math.round(this.xOf(this.hover)) + 0.5;
        context.strokeStyle = this.theme.ink;
        context.globalAlpha = 0.55;
        context.lineWidth = 1;
        context.setLineDash([3, 3]);
        context.beginPath();
        context.moveTo(x, frame.top);
        context.lineTo(x, frame.top + frame.plotHeight);
        context.stroke();
        context.globalAlpha = 1;
        context.setLineDash([]);
      }
      if (!this.selection) return;
      const {from, to, low, high} = this.selection;
      const box = [this.xOf(from), isMap && high !== null ? this.yOf(high) : frame.top, this.xOf(to) - this.xOf(from),
        isMap && high !== null ? this.yOf(low) - this.yOf(high) : frame.plotHeight];
      context.fillStyle = this.theme.select;
      context.fillRect(...box);
      context.strokeStyle = this.theme.focus;
      context.lineWidth = 1;
      context.strokeRect(...box);
    });
  }
}

// At most seven classes of sizes, as in size_classes.h. Starts with a class for each power of two, and
// joins the neighbours that fill the least of the map until seven are left.
function sizeClasses(trace) {
  const powerOf = (bytes) => Math.max(0, Math.floor(Math.log2(bytes) + 1e-12));
  const areas = new Map();
  for (let i = 0; i < trace.count; ++i) {
    const power = powerOf(trace.bytes[i]);
    areas.set(power, (areas.get(power) ?? 0) + trace.bytes[i] * (trace.end[i] - trace.start[i]));
  }
  // The cube root keeps small classes apart: by area alone the large ones would take all colours.
  let groups = [...areas].sort((a, b) => a[0] - b[0]).map(([power, area]) => ({from: power, to: power + 1, weight: Math.cbrt(area)}));
  while (groups.length > 7) {
    let least = 0;
    const joint = (i) => groups[i].weight + groups[i + 1].weight;
    for (let i = 1; i + 1 < groups.length; ++i) if (joint(i) < joint(least)) least = i;
    groups.splice(least, 2, {from: groups[least].from, to: groups[least + 1].to, weight: joint(least)});
  }
  if (groups.length === 0) groups = [{from: 0, to: 1}];
  const classOfPower = new Uint8Array(64);
  for (let power = 0; power < 64; ++power) classOfPower[power] = Math.max(0, groups.findLastIndex((group) => power >= group.from));
  const text = (power) => tickText(2 ** power, 2 ** power);
  return {
    names: groups.map(({from, to}) => `${text(from)} – ${text(to)}`),
    classOf: (bytes) => classOfPower[powerOf(bytes)],
  };
}

// Returns the ranks of the at most `most` numbers with the most bytes.
function heaviestNumbers(numbers, bytes, most) {
  const sums = new Map();
  for (let i = 0; i < numbers.length; ++i) sums.set(numbers[i], (sums.get(numbers[i]) ?? 0) + bytes[i]);
  const sorted = [...sums].sort((a, b) => b[1] - a[1]).slice(0, most);
  return new Map(sorted.map(([number], rank) => [number, rank]));
}

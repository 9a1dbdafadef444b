// SPDX-License-Identifier: Apache-2.0
// Navigation: wheel, pinch, drag and keys move the visible part of the charts; the tooltip describes
// the allocation or event at the pointer.
class Explorer {
  constructor(charts, stacks) {
    this.charts = charts;
    this.stacks = stacks;
    this.tooltip = document.getElementById('tooltip');
    this.spoken = document.getElementById('spoken');
    this.pointers = new Map();
    for (const canvas of [charts.memory, charts.map]) {
      canvas.addEventListener('wheel', (event) => this.onWheel(event), {passive: false});
      canvas.addEventListener('pointerdown', (event) => this.onDown(event));
      canvas.addEventListener('pointermove', (event) => this.onMove(event));
      canvas.addEventListener('pointerup', (event) => this.onUp(event));
      canvas.addEventListener('pointercancel', (event) => this.onUp(event));
      canvas.addEventListener('pointerleave', () => this.forget());
      canvas.addEventListener('dblclick', (event) => this.zoomAt(event, 0.4));
      canvas.addEventListener('keydown', (event) => this.onKey(event));
      canvas.addEventListener('blur', () => this.forget());
    }
  }

  place(event) {
    const box = event.currentTarget.getBoundingClientRect();
    return {x: event.clientX - box.left, y: event.clientY - box.top, isMap: event.currentTarget === this.charts.map};
  }

  changed() {
    this.charts.isMoving = true;
    this.hideTooltip();
    this.charts.invalidate();
  }

  // --- Wheel and keys.

  onWheel(event) {
    const {charts} = this;
    const {x, y, isMap} = this.place(event);
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
    // At the full range a wheel event scrolls the page instead.
    if (dy > 0 && charts.across.isWhole && charts.up.isWhole && !event.ctrlKey && Math.abs(dy) > Math.abs(dx)) return;
    event.preventDefault();
    if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) {
      charts.across.move((event.shiftKey && dx === 0 ? dy : dx) / charts.frames.map.plotWidth * charts.across.size);
    } else {
      const factor = Math.exp(Math.max(-1, Math.min(1, dy * (event.ctrlKey ? 0.01 : 0.0022))));
      if (event.altKey && isMap) charts.up.zoom(factor, charts.addressAt(y));
      else charts.across.zoom(factor, charts.positionAt(x));
    }
    this.changed();
  }

  zoomAt(event, factor) {
    const {x, y, isMap} = this.place(event);
    this.charts.across.zoom(factor, this.charts.positionAt(x));
    if (isMap) this.charts.up.zoom(factor, this.charts.addressAt(y));
    this.changed();
  }

  zoom(factor) {
    const {across} = this.charts;
    across.zoom(factor, (across.from + across.to) / 2);
    this.changed();
  }

  showAll() {
    const {across, up} = this.charts;
    across.set(0, across.length);
    up.set(0, up.length);
    this.changed();
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const {across, up} = this.charts;
    const step = event.shiftKey ? 0.5 : 0.12;
    const actions = {
      ArrowLeft: () => across.move(-step * across.size), ArrowRight: () => across.move(step * across.size),
      ArrowUp: () => up.move(step * up.size), ArrowDown: () => up.move(-step * up.size),
      PageUp: () => up.move(0.8 * up.size), PageDown: () => up.move(-0.8 * up.size),
      Home: () => across.move(-across.length), End: () => across.move(across.length),
      '+': () => this.zoom(0.7), '=': () => this.zoom(0.7), '-': () => this.zoom(1 / 0.7), '_': () => this.zoom(1 / 0.7),
      '[': () => up.zoom(1 / 0.7, (up.from + up.to) / 2), ']': () => up.zoom(0.7, (up.from + up.to) / 2),
      '0': () => this.showAll(),
      n: () => this.walk(1), p: () => this.walk(-1), Escape: () => this.forget(),
    };
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (!actions[key]) return;
    event.preventDefault();
    actions[key]();
    if (!['n', 'p', 'Escape'].includes(key)) this.changed();
  }

  // Chooses the next allocation in sight, in the order of their starts, and describes it.
  walk(by) {
    const {charts} = this;
    const count = charts.trace.count;
    let next = charts.chosen >= 0 ? charts.chosen + by : by > 0 ? 0 : count - 1;
    while (next >= 0 && next < count && !charts.middleOf(next)) next += by;
    if (next < 0 || next >= count) return;
    this.choose(next);
    const box = charts.map.getBoundingClientRect();
    const middle = charts.middleOf(next);
    this.showTooltip(this.aboutAllocation(next), box.left + middle.x, box.top + middle.y);
    this.spoken.textContent = this.tooltip.innerText.replace(/\s+/g, ' ');
  }

  choose(allocation) {
    if (this.charts.chosen === allocation) return;
    this.charts.chosen = allocation;
    this.charts.invalidate(false);
  }

  // --- Pointers: one pointer moves or selects, two pinch.

  onDown(event) {
    if (event.button !== 0) return;
    const place = this.place(event);
    event.currentTarget.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, place);
    this.selecting = null;
    const {across, up} = this.charts;
    const isMouse = event.pointerType === 'mouse';
    if (this.pointers.size === 1 && (event.shiftKey || (isMouse && across.isWhole && up.isWhole))) this.selecting = place;
    else this.charts.selection = null;
  }

  onMove(event) {
    const place = this.place(event);
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      this.point(event, place);
      return;
    }
    if (this.selecting) this.select(place);
    else if (this.pointers.size === 1) this.drag(before, place, event.currentTarget);
    else if (this.pointers.size === 2) this.pinch(event.pointerId, before, place);
    this.pointers.set(event.pointerId, place);
  }

  onUp(event) {
    if (!this.pointers.delete(event.pointerId)) return;
    event.currentTarget.classList.remove('grabbed');
    const {selection, across, up} = this.charts;
    this.charts.selection = null;
    this.selecting = null;
    if (!selection) return;
    across.set(selection.from, selection.to);
    if (selection.low !== null) up.set(selection.low, selection.high);
    this.changed();
  }

  drag(before, place, canvas) {
    const {across, up, frames} = this.charts;
    canvas.classList.add('grabbed');
    across.move((before.x - place.x) / frames.map.plotWidth * across.size);
    if (place.isMap) up.move((place.y - before.y) / frames.map.plotHeight * up.size);
    this.changed();
  }

  pinch(pointer, before, place) {
    const other = [...this.pointers].find(([id]) => id !== pointer)[1];
    const {across, up} = this.charts;
    const factor = (was, is) => Math.min(2, Math.max(0.5, Math.max(24, Math.abs(was)) / Math.max(24, Math.abs(is))));
    across.zoom(factor(before.x - other.x, place.x - other.x), this.charts.positionAt((place.x + other.x) / 2));
    if (place.isMap) up.zoom(factor(before.y - other.y, place.y - other.y), this.charts.addressAt((place.y + other.y) / 2));
    this.changed();
  }

  select(place) {
    const {charts, selecting} = this;
    const inside = (x) => Math.max(0, Math.min(charts.across.length, charts.positionAt(x)));
    const [from, to] = [selecting.x, place.x].sort((a, b) => a - b);
    const [above, below] = [selecting.y, place.y].sort((a, b) => a - b);
    const isTall = selecting.isMap && below - above > 12;
    charts.selection = to - from < 4 ? null : {from: inside(from), to: inside(to),
      low: isTall ? Math.max(0, charts.addressAt(below)) : null, high: isTall ? charts.addressAt(above) : null};
    this.hideTooltip();
    charts.invalidate(false);
  }

  // --- The allocation or event at the pointer.

  point(event, {x, y, isMap}) {
    const {charts} = this;
    const frame = isMap ? charts.frames.map : charts.frames.memory;
    if (x < frame.left || x > frame.left + frame.plotWidth || y < 0 || y > frame.height) {
      this.forget();
      return;
    }
    charts.hover = charts.positionAt(x);
    const allocation = isMap ? charts.allocationAt(x, y) : -1;
    charts.chosen = allocation;
    charts.invalidate(false);
    const content = !isMap ? this.aboutMoment(charts.hover) : allocation >= 0 ? this.aboutAllocation(allocation) : this.aboutPlace(charts.hover, charts.addressAt(y));
    this.showTooltip(content, event.clientX, event.clientY);
  }

  forget() {
    if (this.charts.hover === null && this.charts.chosen < 0 && this.tooltip.hidden) return;
    this.charts.hover = null;
    this.charts.chosen = -1;
    this.hideTooltip();
    this.charts.invalidate(false);
  }

  rows(title, pairs) {
    const list = element('dl');
    for (const [name, value] of pairs) {
      if (value !== '' && value !== null) list.append(element('dt', {}, name), element('dd', {}, value));
    }
    return [element('strong', {}, title), list];
  }

  timeOf(event) {
    const {charts} = this;
    if (charts.facts.times.unit === 0) return '';
    charts.times ??= readTimes(charts.trace, charts.facts);
    return durationText(charts.times[event], charts.facts.times.nanoseconds, charts.times[charts.trace.events] / 1e5);
  }

  // Returns the lifetime in events, and in time if the trace has times.
  lifetime(i) {
    const {trace, facts, times} = this.charts;
    const end = trace.freed[i] ? countText(trace.end[i]) : 'the end, never freed';
    const pairs = [['lives', `event ${countText(trace.start[i])} to ${end}`]];
    if (facts.times.unit > 0) {
      this.timeOf(0);
      const length = durationText(this.charts.times[trace.end[i]] - this.charts.times[trace.start[i]], facts.times.nanoseconds);
      pairs.push(['time', `${this.timeOf(trace.start[i])}, for ${length}`]);
    }
    return pairs;
  }

  aboutAllocation(i) {
    const {trace, facts, offsets} = this.charts;
    const stream = Math.floor(trace.stream[i] / 2);
    const aligned = trace.bytes[i] === trace.asked[i] ? '' : `, ${countText(trace.bytes[i])} aligned`;
    const several = (names, index) => names.length > 1 || (names[0] ?? '') !== '' ? visible(names[index] ?? '') || '(unnamed)' : '';
    const content = this.rows(`${trace.id(i)}`, [
      ['size', `${sizeText(trace.asked[i])} (${countText(trace.asked[i])} B${aligned})`],
      ['offset', offsets[i] < 0 ? 'not placed' : `${sizeText(offsets[i])} (0x${offsets[i].toString(16)})`],
      ...this.lifetime(i),
      ['number', countText(i)],
      ['stream', several(facts.streams, stream)],
      ['thread', several(facts.threads, trace.thread[i])],
      ['hint', trace.stream[i] % 2 === 1 ? 'offloadable' : ''],
    ]);
    if (trace.tag[i] > 0) content.push(this.stackList(trace.tag[i]));
    return content;
  }

  // Returns the innermost frames, and the number of the other ones.
  stackList(tag) {
    const most = 9;
    const list = element('ol');
    const stack = this.stacks.stackOf(tag).reverse();
    for (const frame of stack.slice(0, most)) {
      const {name, place} = this.stacks.frameTexts(frame);
      list.append(element('li', {}, name, place ? element('small', {}, `  ${place}`) : ''));
    }
    if (stack.length > most) list.append(element('li', {}, element('small', {}, `… and ${stack.length - most} more`)));
    return list;
  }

  aboutMoment(position) {
    const {charts} = this;
    const event = charts.eventAt(position);
    if (event < 0 || charts.trace.events === 0) return this.rows('Before the first event', []);
    const mark = charts.trace.marks.findLast((candidate) => candidate.event <= event && !candidate.ends);
    const reserved = charts.reserved.findLast((candidate) => candidate.event <= event);
    const peak = charts.facts.trace.peak_live_bytes;
    return this.rows(`Event ${countText(event)}`, [
      ['time', this.timeOf(event)],
      ['live', sizeText(charts.live[event]) + (charts.facts.history ? `, ${percentText(charts.live[event], peak)} of the peak` : '')],
      ['reserved', reserved ? sizeText(reserved.bytes) : ''],
      ['since mark', mark ? visible(charts.facts.marks[mark.name]) : ''],
    ]);
  }

  aboutPlace(position, address) {
    const {charts} = this;
    if (address >= charts.poolBytes || address < 0) return this.rows('Above the pool', []);
    const event = charts.eventAt(position);
    let [low, high] = [0, charts.poolBytes];
    forEachBetween(charts.spans, position, position, (i) => {
      if (charts.offsets[i] < 0 || charts.spans.start[i] > position) return;
      const end = charts.offsets[i] + charts.trace.bytes[i];
      if (end <= address) low = Math.max(low, end);
      else if (charts.offsets[i] > address) high = Math.min(high, charts.offsets[i]);
    });
    return this.rows(high === charts.poolBytes ? 'Free, at the end' : 'A hole', [
      ['size', sizeText(high - low)], ['offset', sizeText(low)], ['event', event < 0 ? '' : countText(event)],
    ]);
  }

  // --- The tooltip.

  showTooltip(content, x, y) {
    this.tooltip.replaceChildren(...content);
    this.tooltip.hidden = false;
    const {offsetWidth: width, offsetHeight: height} = this.tooltip;
    const left = x + 16 + width > innerWidth - 8 ? x - width - 14 : x + 16;
    const top = y + 16 + height > innerHeight - 8 ? y - height - 12 : y + 16;
    this.tooltip.style.left = `${Math.max(8, left)}px`;
    this.tooltip.style.top = `${Math.max(8, top)}px`;
  }

  hideTooltip() {
    this.tooltip.hidden = true;
  }
}

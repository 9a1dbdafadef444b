// SPDX-License-Identifier: Apache-2.0
// Builds the page from its parts.
function renderFigures(facts, trace) {
  const list = document.getElementById('figures');
  const add = (name, value, more = '') => list.append(element('div', {}, element('dt', {}, name), element('dd', {}, value, more ? element('small', {}, more) : '')));
  const peak = facts.trace.peak_live_bytes;
  const ratio = (bytes) => peak > 0 && facts.history ? `${(bytes / peak).toFixed(3)}x of the peak` : '';
  add(facts.history ? 'Live at the peak' : 'Live when it was taken', sizeText(peak), facts.history ? `${manyText(facts.peak_live_count, 'block', 'blocks')} at most` : 'no history: the peak is not known');
  if (facts.needs_bytes > peak) add('Needs at least', sizeText(facts.needs_bytes), ratio(facts.needs_bytes));
  const best = facts.policies.reduce((a, b) => b.layout_bytes < a.layout_bytes ? b : a);
  if (facts.history) add(`Pool under ${best.policy}`, `${best.is_upper_bound ? '≤ ' : ''}${sizeText(best.layout_bytes)}`, ratio(best.layout_bytes));
  if (facts.budget_bytes !== null) add('Budget', sizeText(facts.budget_bytes), ratio(facts.budget_bytes));
  if (facts.reserved_peak_bytes !== null) add('Reserved by the recorded allocator', sizeText(facts.reserved_peak_bytes), ratio(facts.reserved_peak_bytes));
  add('Allocations', countText(facts.trace.allocations), `${manyText(facts.trace.events, 'event', 'events')}, ${facts.format}`);
  add('Never freed', countText(facts.trace.unfreed), sizeText(facts.unfreed_bytes));
  if (trace.failures.length > 0) add('Refused by the recorded allocator', facts.refused_bytes.slice(0, 3).map(sizeText).join(', ') + (facts.refused_bytes.length > 3 ? ', ...' : ''), `${manyText(trace.failures.length, 'request', 'requests')}, marked ▾ over the chart`);
}

function renderPolicies(facts, charts) {
  if (!facts.history) {
    document.getElementById('policies-note').textContent = 'No history: the pools of policies would tell nothing about a job with an unknown peak.';
    return;
  }
  const [headings, ...rows] = facts.table;
  tableOf(document.getElementById('policies'), 'The pool that each policy needs', headings, rows.map((cells, i) =>
    element('tr', i === charts.layoutNumber ? {class: 'chosen'} : {}, element('th', {scope: 'row'}, cells[0]), ...cells.slice(1).map((cell) => element('td', {}, cell)))));
  const hasBounds = facts.policies.some((policy) => policy.at_most);
  document.getElementById('policies-note').textContent = 'first found: the pool that the restart search of the vDNN++ paper finds. smallest: the smallest pool that serves the trace at all. A replay verified each.'
    + (hasBounds ? ' at most: the trace is long, so the search was bounded; the pool serves it, and a smaller one may too.' : '')
    + (facts.allocators ? ' pytorch: PyTorch’s own allocator, and with expandable segments; first found: reserved without a limit, smallest: the memory of a device that serves all requests.' : '')
    + ` Sizes are rounded up to ${countText(facts.trace.alignment)} B.`;
}

function renderComposition(facts, trace, stacks, charts) {
  const live = facts.trace.peak_live_bytes > 0 ? liveAfter(trace, facts.peak_event) : [];
  if (!facts.history) document.getElementById('peak-heading').textContent = 'Memory live when the snapshot was taken';
  const note = document.getElementById('peak-note');
  if (live.length === 0) {
    note.textContent = 'No allocation is ever live.';
    document.querySelector('#peak-heading ~ .columns').hidden = true;
  } else {
    note.textContent = `${sizeText(facts.trace.peak_live_bytes)} in ${manyText(live.length, 'allocation', 'allocations')}${facts.history ? `, live after event ${countText(facts.peak_event)}` : ''}.`
      + (trace.frames.length === 0 ? ' The trace has no stacks, so the code that allocated them is unknown.' : '');
    renderSizes(document.getElementById('sizes'), trace, live, charts.sizes, charts.sizeColours());
    renderLargest(document.getElementById('largest'), trace, stacks, live, 'The largest allocations that are live at the peak');
  }
  if (trace.frames.length > 0 && live.length > 0) {
    const tree = new StackTree(stacks, live);
    const place = document.getElementById('stack-tree');
    document.getElementById('stacks').hidden = false;
    tree.render(place);
    document.getElementById('stacks-open').addEventListener('click', () => tree.open(place, 3000));
    document.getElementById('stacks-close').addEventListener('click', () => tree.closeAll(place));
  }
  const unfreed = [];
  for (let i = 0; i < trace.count; ++i) if (!trace.freed[i]) unfreed.push(i);
  const unfreedNote = document.getElementById('unfreed-note');
  if (unfreed.length === 0) {
    unfreedNote.textContent = 'Everything was freed.';
  } else {
    unfreedNote.textContent = `${manyText(unfreed.length, 'allocation', 'allocations')}, ${sizeText(facts.unfreed_bytes)}, still live at the end${facts.ended_early ? ' of a recording that was cut off' : ''}. The heaviest:`;
    renderLargest(document.getElementById('unfreed'), trace, stacks, unfreed, 'The largest allocations that were never freed');
  }
  return live.length > 0 ? live : null;
}

function renderLegends(charts) {
  const swatch = (colour, dash, text, isHatched = false) => {
    const box = svgElement('svg', {width: 22, height: 12, viewBox: '0 0 22 12', 'aria-hidden': 'true'});
    if (dash === null) box.append(svgElement('rect', {x: 5, width: 12, height: 12, rx: 2, fill: colour}));
    else box.append(svgElement('line', {x1: 0, x2: 22, y1: 6, y2: 6, stroke: colour, 'stroke-width': 2.5, 'stroke-dasharray': dash.join(' ')}));
    if (isHatched) box.append(svgElement('path', {d: 'M5 8l8-8M9 12l8-8', stroke: charts.theme.hatch, 'stroke-width': 1.5}));
    return element('span', {}, box, text);
  };
  const memory = document.getElementById('memory-legend');
  const map = document.getElementById('map-legend');
  memory.replaceChildren();
  map.replaceChildren();
  memory.hidden = map.hidden = charts.isWide;
  if (charts.isWide) return;
  memory.append(swatch(charts.theme.live, [], `${charts.facts.history ? 'live, peak' : 'live'} ${sizeText(charts.facts.trace.peak_live_bytes)}`));
  for (const level of charts.shownLevels()) memory.append(swatch(level.colour, level.dash, `${level.name} ${level.atMost ? '≤ ' : ''}${sizeText(level.bytes)}`));
  if (charts.facts.reserved_peak_bytes !== null) memory.append(swatch(charts.theme.reserved, [], `reserved, peak ${sizeText(charts.facts.reserved_peak_bytes)}`));
  for (const [colour, text, isHatched] of charts.legend()) map.append(swatch(colour, null, text, isHatched));
}

function describeRange(charts) {
  const {across, up, facts} = charts;
  const step = across.size / 1000;
  const text = (position) => charts.positionText(charts.axis === 'events' ? Math.round(position) : position, step);
  const what = charts.axis === 'events' ? 'Events' : 'Time';
  const addresses = up.isWhole ? '' : `, addresses ${sizeText(Math.max(0, Math.round(up.from)))} to ${sizeText(Math.min(charts.poolBytes, Math.round(up.to)))}`;
  const shown = across.isWhole && up.isWhole ? `${what} 0 to ${text(across.length)}, all` : `${what} ${text(across.from)} to ${text(across.to)} of ${text(across.length)}${addresses}`;
  const range = document.getElementById('range');
  if (range.textContent !== shown) range.textContent = shown;
  charts.memory.setAttribute('aria-label', `Memory over time: live bytes, at most ${sizeText(facts.trace.peak_live_bytes)}, and the pool of each policy. ${shown}.`);
  charts.map.setAttribute('aria-label', `Addresses by time of ${manyText(facts.trace.allocations, 'allocation', 'allocations')} under ${facts.policies[charts.layoutNumber].policy}. ${shown}.`);
}

function addOptions(select, options) {
  select.append(...options.map(([value, text]) => element('option', {value}, text)));
  select.disabled = options.length < 2;
}

class Page {
  constructor(facts, trace) {
    this.facts = facts;
    this.trace = trace;
    this.stacks = new Stacks(trace, facts);
    this.charts = new Charts(trace, facts);
    this.explorer = new Explorer(this.charts, this.stacks);
    this.layouts = [];
    this.darkness = matchMedia('(prefers-color-scheme: dark)');
  }

  async start() {
    const {charts, facts, trace} = this;
    if (!facts.history) {
      // A snapshot without history has no order in time.
      document.getElementById('charts').hidden = true;
      charts.draw = charts.invalidate = () => {};
    }
    const best = facts.policies.reduce((found, policy, i) => policy.layout_bytes < facts.policies[found].layout_bytes ? i : found, 0);
    addOptions(document.getElementById('policy'), facts.policies.map((policy, i) => [i, policy.policy]));
    document.getElementById('policy').value = best;
    const several = [['size', 'by size']];
    if (trace.frames.length > 0) several.push(['stack', 'by stack']);
    if (facts.streams.length > 1) several.push(['stream', 'by stream']);
    if (facts.threads.length > 1) several.push(['thread', 'by thread']);
    addOptions(document.getElementById('colour'), several);
    if (facts.times.unit === 0) {
      const time = document.querySelector('#axis input[value="time"]');
      time.disabled = true;
      time.parentElement.title = 'The trace has no times';
    }
    this.showTheme(this.darkness.matches ? 'dark' : 'light');
    charts.setColours('size');
    await this.showLayout(best);
    this.listen();
    charts.onDrawn = () => {
      describeRange(charts);
      renderLegends(charts);
    };
    charts.draw();
    renderFigures(facts, trace);
    this.peak = renderComposition(facts, trace, this.stacks, charts);
  }

  async showLayout(number) {
    this.layouts[number] ??= readLayout(number, this.trace, this.facts);
    this.charts.setLayout(number, await this.layouts[number]);
    renderPolicies(this.facts, this.charts);
    this.charts.invalidate();
  }

  showTheme(name) {
    document.documentElement.dataset.theme = name;
    this.charts.setTheme(name);
    const button = document.getElementById('theme');
    button.textContent = name === 'dark' ? 'Light' : 'Dark';
    button.setAttribute('aria-pressed', String(name === 'dark'));
    button.setAttribute('aria-label', `${name === 'dark' ? 'Light' : 'Dark'} colours`);
    this.theme = name;
    if (this.peak) renderSizes(document.getElementById('sizes'), this.trace, this.peak, this.charts.sizes, this.charts.sizeColours());
  }

  showAxis(axis) {
    this.charts.setAxis(axis);
    this.charts.invalidate();
  }

  showColours(mode) {
    if (mode === 'stack') this.grouping ??= this.stacks.grouping(SERIES.length);
    this.charts.setColours(mode, this.grouping);
    this.charts.invalidate();
  }

  listen() {
    const {charts, explorer} = this;
    const on = (id, type, act) => document.getElementById(id).addEventListener(type, act);
    on('controls', 'submit', (event) => event.preventDefault());
    on('policy', 'change', (event) => this.showLayout(Number(event.target.value)));
    on('colour', 'change', (event) => this.showColours(event.target.value));
    on('axis', 'change', (event) => this.showAxis(event.target.value));
    on('zoom-in', 'click', () => explorer.zoom(0.5));
    on('zoom-out', 'click', () => explorer.zoom(2));
    on('zoom-all', 'click', () => explorer.showAll());
    const retheme = (name) => {
      this.showTheme(name);
      charts.invalidate();
    };
    on('theme', 'click', () => retheme(this.theme === 'dark' ? 'light' : 'dark'));
    this.darkness.addEventListener('change', (event) => retheme(event.matches ? 'dark' : 'light'));
    new ResizeObserver(() => charts.isPaper || charts.invalidate()).observe(charts.map);
    // Prints in light colours, at the width of the paper.
    let before = null;
    addEventListener('beforeprint', () => {
      before = this.theme;
      this.showTheme('light');
      charts.isPaper = true;
      charts.isMapChanged = true;
      charts.draw();
    });
    addEventListener('afterprint', () => {
      charts.isPaper = false;
      retheme(before);
    });
  }

  // The interface for tests (docs/report.md).
  interface() {
    const {charts, trace} = this;
    const onMap = ({x, y}) => {
      const box = charts.map.getBoundingClientRect();
      return {x: box.left + x, y: box.top + y};
    };
    return {
      visibleRange: () => ({axis: charts.axis, from: charts.across.from, to: charts.across.to, low: charts.up.from, high: charts.up.to}),
      pixelOf: (id) => {
        for (let i = 0; i < trace.count; ++i) {
          const middle = trace.id(i) === id ? charts.middleOf(i) : null;
          if (middle) return onMap(middle);
        }
        return null;
      },
      eventPixel: (event) => onMap({x: charts.xOf(charts.positions[event]), y: 0}).x,
      policy: () => this.facts.policies[charts.layoutNumber].policy,
      peakBytes: () => this.peak ? sumOf(trace, this.peak) : 0,
      // Returns the used share of the whole map, in addresses times events.
      usedShare: () => {
        let area = 0;
        for (let i = 0; i < trace.count; ++i) area += trace.bytes[i] * (trace.end[i] - trace.start[i]);
        return area / (trace.events * charts.up.length);
      },
      // Returns the number of pixels of the map for each colour, 0xAABBGGRR.
      mapColours: () => {
        const {width, height} = charts.layer;
        const pixels = new Uint32Array(charts.layer.getContext('2d').getImageData(0, 0, width, height).data.buffer);
        const counts = {};
        for (const pixel of pixels) counts[pixel] = (counts[pixel] ?? 0) + 1;
        return counts;
      },
      // Draws everything again, and returns the milliseconds.
      redraw: () => {
        charts.isMapChanged = true;
        charts.isMoving = false;
        charts.draw();
        return charts.drawMilliseconds;
      },
    };
  }
}

try {
  const facts = JSON.parse(document.getElementById('facts').textContent);
  const page = new Page(facts, await readTrace(facts));
  await page.start();
  window.tidepoolReport = page.interface();
} catch (error) {
  const trouble = document.getElementById('trouble');
  trouble.textContent = `The charts cannot be drawn: ${error.message}. They need a browser of 2023 or later.`;
  trouble.hidden = false;
  throw error;
}

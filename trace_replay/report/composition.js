// SPDX-License-Identifier: Apache-2.0
// The composition of the peak, and of the allocations that were never freed.

// The stacks of the trace. Frames are numbered as tags; 0 stands for no stack.
class Stacks {
  // `facts` has the frame that names each stack, and the number of allocations from before the recording.
  constructor(trace, facts) {
    this.trace = trace;
    this.naming = facts.naming_frames;
    this.earlier = facts.earlier_allocations;
  }

  // Returns the frames of a tag, the outermost first.
  stackOf(tag) {
    const stack = [];
    for (let frame = tag; frame !== 0; frame = this.trace.frames[frame - 1].caller) stack.push(frame);
    return stack.reverse();
  }

  frameTexts(tag) {
    const {name, file, line} = this.trace.frames[tag - 1];
    const place = this.trace.frameText(file);
    return {name: this.trace.frameText(name) || '(unnamed)', place: place && line > 0 ? `${place}:${line}` : place};
  }

  // Returns for each tag, from 0 on, the bytes of `allocations` at the tag and below it.
  sums(allocations) {
    const bytes = new Float64Array(this.trace.frames.length + 1);
    const count = new Uint32Array(this.trace.frames.length + 1);
    for (const i of allocations) {
      bytes[this.trace.tag[i]] += this.trace.bytes[i];
      ++count[this.trace.tag[i]];
    }
    // Callers have smaller numbers than the frames that they call.
    for (let tag = this.trace.frames.length; tag > 0; --tag) {
      const {caller} = this.trace.frames[tag - 1];
      if (caller === 0) continue;
      bytes[caller] += bytes[tag];
      count[caller] += count[tag];
    }
    return {bytes, count};
  }

  // Returns the tags that each tag calls, the heaviest first. The outermost frames belong to tag 0.
  children(bytes) {
    const children = Array.from({length: this.trace.frames.length + 1}, () => []);
    this.trace.frames.forEach(({caller}, i) => {
      if (bytes[i + 1] > 0) children[caller].push(i + 1);
    });
    for (const list of children) list.sort((a, b) => bytes[b] - bytes[a]);
    return children;
  }

  // Divides the trace's memory into at most `most` parts of similar weight: starts with the outermost
  // frames, and replaces the heaviest part by the frames that it calls while there is room. Returns the
  // part of each tag; the last part holds all other memory.
  grouping(most) {
    const everything = Array.from({length: this.trace.count}, (_, i) => i);
    const {bytes} = this.sums(everything);
    const children = this.children(bytes);
    const parts = children[0].slice(0, most);
    const isWhole = new Set();
    for (;;) {
      const heaviest = parts.filter((tag) => !isWhole.has(tag)).sort((a, b) => bytes[b] - bytes[a])[0];
      if (heaviest === undefined) break;
      const within = children[heaviest].reduce((sum, tag) => sum + bytes[tag], 0);
      if (children[heaviest].length === 0 || parts.length - 1 + children[heaviest].length > most || within < 0.9 * bytes[heaviest]) {
        isWhole.add(heaviest);
        continue;
      }
      parts.splice(parts.indexOf(heaviest), 1, ...children[heaviest]);
    }
    parts.sort((a, b) => bytes[b] - bytes[a]);
    const ofTag = new Uint8Array(this.trace.frames.length + 1).fill(SERIES.length);
    parts.forEach((tag, number) => { ofTag[tag] = number; });
    this.trace.frames.forEach(({caller}, i) => {
      if (ofTag[i + 1] === SERIES.length && caller > 0) ofTag[i + 1] = ofTag[caller];
    });
    const names = parts.map((tag) => this.frameTexts(tag).name);
    names[SERIES.length] = 'other or no stack';
    return {ofTag, names};
  }
}

// A tree of <details>, which makes a branch when it is opened. A run of frames in which each calls only
// the next is one row.
class StackTree {
  constructor(stacks, allocations) {
    this.stacks = stacks;
    this.allocations = allocations;
    const {bytes, count} = stacks.sums(allocations);
    this.bytes = bytes;
    this.count = count;
    this.children = stacks.children(bytes);
    this.total = bytes[0] + this.children[0].reduce((sum, tag) => sum + bytes[tag], 0);
  }

  render(place) {
    const {trace, earlier} = this.stacks;
    const rows = this.children[0].map((tag) => ({bytes: this.bytes[tag], row: this.branch(tag)}));
    for (const isEarlier of [true, false]) {
      const part = this.allocations.filter((i) => trace.tag[i] === 0 && (i < earlier) === isEarlier);
      if (part.length === 0) continue;
      const bytes = sumOf(trace, part);
      const name = element('span', {class: 'name'}, isEarlier ? 'allocated before recording began' : '(no stack)');
      rows.push({bytes, row: this.row('div', [name], bytes, part.length)});
    }
    place.replaceChildren(...rows.sort((a, b) => b.bytes - a.bytes).map(({row}) => row));
    this.open(place, 14, 0.05 * this.total);
  }

  branches(tag) { return this.children[tag].map((child) => this.branch(child)); }

  branch(tag) {
    const run = [tag];
    let last = tag;
    while (this.children[last].length === 1 && this.bytes[this.children[last][0]] === this.bytes[last]) run.push(last = this.children[last][0]);
    const isLeaf = this.children[last].length === 0;
    const name = element('span', {class: 'name'});
    // A long run shows its two ends.
    const shown = run.length > 6 ? [...run.slice(0, 2), 0, ...run.slice(-3)] : run;
    shown.forEach((frame, i) => {
      if (i > 0) name.append(element('small', {}, ' › '));
      if (frame === 0) {
        name.append(element('small', {}, `${run.length - 5} more`));
        return;
      }
      const {name: text, place} = this.stacks.frameTexts(frame);
      name.append(text);
      if (place && (i === shown.length - 1 || run.length < 3)) name.append(element('small', {}, `  ${place}`));
    });
    const row = this.row(isLeaf ? 'div' : 'summary', [name], this.bytes[tag], this.count[tag]);
    if (isLeaf) return row;
    const details = element('details', {}, row);
    details.bytes = this.bytes[tag];
    details.addEventListener('toggle', () => this.fill(details, last));
    details.fill = () => this.fill(details, last);
    return details;
  }

  fill(details, tag) {
    if (details.childElementCount > 1 || !details.open) return;
    const own = this.bytes[tag] - this.children[tag].reduce((sum, child) => sum + this.bytes[child], 0);
    const counted = this.count[tag] - this.children[tag].reduce((sum, child) => sum + this.count[child], 0);
    details.append(...this.branches(tag));
    if (own > 0) details.append(this.row('div', [element('span', {class: 'name'}, element('small', {}, '(itself)'))], own, counted));
  }

  row(kind, name, bytes, count) {
    return element(kind, kind === 'div' ? {class: 'leaf'} : {}, ...name,
      element('span', {class: 'bytes', title: manyText(count, 'allocation', 'allocations')}, sizeText(bytes)),
      element('span', {class: 'share'}, percentText(bytes, this.total)), barElement(bytes, this.total));
  }

  // Opens branches of at least `least` bytes, heavy and outer ones first, until about `most` rows are visible.
  open(place, most, least = 0) {
    let rows = place.childElementCount;
    const closed = [...place.querySelectorAll(':scope > details')];
    while (closed.length > 0 && rows < most) {
      const details = closed.shift();
      if (details.bytes < least) continue;
      details.open = true;
      details.fill();
      rows += details.childElementCount - 1;
      closed.push(...details.querySelectorAll(':scope > details'));
    }
  }

  closeAll(place) {
    for (const details of place.querySelectorAll('details')) details.open = false;
  }
}

function tableOf(table, caption, headings, rows) {
  table.replaceChildren(element('caption', {class: 'unseen'}, caption),
    element('thead', {}, element('tr', {}, ...headings.map((heading) => element('th', {scope: 'col'}, heading)))),
    element('tbody', {}, ...rows));
}

function barRow(name, cells, part, whole) {
  const bar = element('td', {class: 'bar'});
  bar.append(barElement(part, whole));
  return element('tr', {}, element('th', {scope: 'row'}, name), ...cells.map((cell) => element('td', {}, cell)), bar);
}

function liveAfter(trace, event) {
  const live = [];
  for (let i = 0; i < trace.count && trace.start[i] <= event; ++i) {
    if (!trace.freed[i] || trace.end[i] > event) live.push(i);
  }
  return live;
}

function sumOf(trace, allocations) {
  return allocations.reduce((sum, i) => sum + trace.bytes[i], 0);
}

function renderSizes(table, trace, allocations, sizes, colours) {
  const bytes = new Float64Array(sizes.names.length);
  const count = new Uint32Array(sizes.names.length);
  for (const i of allocations) {
    const at = sizes.classOf(trace.bytes[i]);
    bytes[at] += trace.bytes[i];
    ++count[at];
  }
  const whole = sumOf(trace, allocations);
  const rows = sizes.names.map((_, at) => at).filter((at) => count[at] > 0).reverse().map((at) => {
    const row = barRow(sizes.names[at], [countText(count[at]), sizeText(bytes[at]), percentText(bytes[at], whole)], bytes[at], whole);
    row.firstChild.prepend(svgElement('svg', {class: 'swatch', viewBox: '0 0 10 10', 'aria-hidden': 'true'},
      svgElement('rect', {width: 10, height: 10, rx: 2})));
    row.querySelector('.swatch rect').style.fill = colours[at];
    return row;
  });
  tableOf(table, 'Live at the peak, by size', ['size', 'allocations', 'bytes', 'share', ''], rows);
}

// Lists the largest allocations. Allocations of equal size and innermost frame share a row.
function renderLargest(table, trace, stacks, allocations, caption) {
  const groups = new Map();
  for (const i of allocations) {
    const frame = trace.tag[i] > 0 ? trace.frames[stacks.naming[trace.tag[i] - 1] - 1] : {name: -1, file: -1};
    const key = `${trace.bytes[i]} ${frame.name} ${frame.file}`;
    const group = groups.get(key);
    if (group) ++group.count;
    else groups.set(key, {first: i, count: 1});
  }
  const whole = sumOf(trace, allocations);
  const sorted = [...groups.values()].sort((a, b) => b.count * trace.bytes[b.first] - a.count * trace.bytes[a.first]).slice(0, 10);
  const hasStacks = trace.frames.length > 0;
  const rows = sorted.map(({first, count}) => {
    const naming = hasStacks && trace.tag[first] > 0 ? stacks.frameTexts(stacks.naming[trace.tag[first] - 1]) : null;
    const what = naming ? `${naming.name}${naming.place ? ` (${naming.place.split('/').pop()})` : ''}` : count === 1 ? trace.id(first) : `${trace.id(first)} and ${countText(count - 1)} more`;
    const row = barRow(`${count === 1 ? '' : `${countText(count)} × `}${sizeText(trace.bytes[first])}`, [what, percentText(count * trace.bytes[first], whole)], count * trace.bytes[first], whole);
    row.children[1].className = 'text';
    return row;
  });
  tableOf(table, caption, ['size', hasStacks ? 'allocated at' : 'id', 'share', ''], rows);
  table.querySelectorAll('th')[1].style.textAlign = 'left';
}

// SPDX-License-Identifier: Apache-2.0
// Figures and names as text. All text from the trace goes through visible(), and into the page as
// text, never as markup.
const UNITS = [['TiB', 2 ** 40], ['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]];

function sizeText(bytes) {
  for (const [unit, size] of UNITS) {
    if (bytes >= size) return `${(bytes / size).toFixed(1)} ${unit}`;
  }
  return `${bytes} B`;
}

// Formats bytes for an axis with ticks `step` apart, without digits that all ticks share.
function tickText(bytes, step) {
  if (bytes === 0) return '0';
  for (const [unit, size] of UNITS) {
    if (bytes < size) continue;
    const digits = Math.max(0, Math.min(3, Math.ceil(-Math.log10(step / size) - 1e-9)));
    return `${Number((bytes / size).toFixed(digits))} ${unit}`;
  }
  return `${Number(bytes.toFixed(2))} B`;
}

function countText(count) {
  return Math.round(count).toString().replace(/\B(?=(\d{3})+$)/g, ',');
}

function manyText(count, one, many) {
  return `${countText(count)} ${count === 1 ? one : many}`;
}

function percentText(part, whole) {
  if (whole === 0) return '';
  const percent = 100 * part / whole;
  if (percent > 0 && percent < 0.1) return '<0.1 %';
  return `${percent.toFixed(percent < 10 ? 1 : 0)} %`;
}

const DURATIONS = [['s', 1e9], ['ms', 1e6], ['µs', 1e3], ['ns', 1]];

// Formats nanoseconds, or times of a lifetime CSV in its own unit.
function durationText(time, isNanoseconds, step = time / 100) {
  if (!isNanoseconds) return Number.isInteger(time) ? countText(time) : String(Number(time.toFixed(2)));
  if (time === 0) return '0';
  const [unit, size] = DURATIONS.find(([, length]) => Math.abs(time) >= length) ?? ['ns', 1];
  const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / size) - 1e-9)));
  return `${Number((time / size).toFixed(digits))} ${unit}`;
}

const LONGEST_TEXT = 300;

// Escapes characters that are invisible, move the cursor or reverse the direction of writing, as in C.
// Cuts text that is too long for a page.
function visible(text) {
  const cut = text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text;
  return cut.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, (character) => {
    const code = character.charCodeAt(0);
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
  });
}

// Makes an element with `children`, texts or elements.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function svgElement(name, attributes, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Makes a bar for `part` of `whole`. Screen readers skip it: the figures beside it say the same.
function barElement(part, whole) {
  const width = whole === 0 ? 0 : Math.max(0.3, 100 * part / whole);
  return svgElement('svg', {viewBox: '0 0 100 10', preserveAspectRatio: 'none', 'aria-hidden': 'true'},
    svgElement('rect', {width, height: 10, rx: 0}));
}

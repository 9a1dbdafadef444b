// SPDX-License-Identifier: Apache-2.0
// Reads the trace of the page: typed arrays, one a column, in the order of
// trace_replay/report/columns.h.
async function inflate(id) {
  const base64 = document.getElementById(id).textContent;
  let bytes;
  if (Uint8Array.fromBase64) {
    bytes = Uint8Array.fromBase64(base64);
  } else {
    const text = atob(base64);
    bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  varint() {
    const bytes = this.bytes;
    let byte = bytes[this.at++];
    if (byte < 0x80) return byte;
    let value = byte & 0x7f;
    let factor = 128;
    do {
      byte = bytes[this.at++];
      value += (byte & 0x7f) * factor;
      factor *= 128;
    } while (byte >= 0x80);
    return value;
  }

  signed() {
    const value = this.varint();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  get ended() { return this.at >= this.bytes.length; }

  // Returns the bytes of the next column.
  column() {
    const length = this.varint();
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }

  // Returns the next column, one number a row.
  numbers(Type, rows) {
    const reader = new Reader(this.column());
    const values = new Type(rows);
    for (let i = 0; i < rows; ++i) values[i] = reader.varint();
    return values;
  }

  // Returns the next two columns, strings, each decoded when it is first used.
  texts() {
    const lengths = new Reader(this.column());
    const ends = [0];
    for (let end = 0; !lengths.ended;) ends.push(end += lengths.varint());
    const bytes = this.column();
    const decoder = new TextDecoder();
    return (i) => visible(decoder.decode(bytes.subarray(ends[i], ends[i + 1])));
  }

  // Returns the next column: marks, reservations or failures, with their events.
  moments(read) {
    const reader = new Reader(this.column());
    const moments = [];
    for (let event = 0; !reader.ended;) moments.push({event: event += reader.varint(), ...read(reader)});
    return moments;
  }
}

function alignedUp(bytes, alignment) {
  return Math.ceil(bytes / alignment) * alignment;
}

async function readTrace(facts) {
  const reader = new Reader(await inflate('data-trace'));
  const count = facts.trace.allocations;
  const events = facts.trace.events;
  const start = reader.numbers(Float64Array, count);
  for (let i = 1; i < count; ++i) start[i] += start[i - 1];
  const end = reader.numbers(Float64Array, count);
  const freed = new Uint8Array(count);
  for (let i = 0; i < count; ++i) {
    freed[i] = end[i] > 0 ? 1 : 0;
    end[i] = freed[i] ? end[i] + start[i] : events;
  }
  const asked = reader.numbers(Float64Array, count);
  const bytes = asked.map((size) => alignedUp(size, facts.trace.alignment));
  const tag = reader.numbers(Uint32Array, count);
  const stream = reader.numbers(Float64Array, count);
  const thread = reader.numbers(Uint32Array, count);
  const id = reader.texts();
  const steps = reader.column();
  const marks = reader.moments((row) => {
    const value = row.varint();
    return {name: Math.floor(value / 2), ends: value % 2 === 1};
  });
  const reservations = reader.moments((row) => ({bytes: row.signed()}));
  const failures = reader.moments((row) => ({bytes: row.varint()}));
  const rows = new Reader(reader.column());
  const frames = [];
  while (!rows.ended) {
    frames.push({caller: rows.varint(), name: rows.varint(), file: rows.varint(), line: rows.varint()});
  }
  const frameText = reader.texts();
  return {count, events, start, end, freed, asked, bytes, tag, stream, thread, id, steps, marks, reservations,
    failures, frames, frameText};
}

// Returns the time of each event since the first one, and the time of the end.
function readTimes(trace, facts) {
  const reader = new Reader(trace.steps);
  const times = new Float64Array(trace.events + 1);
  for (let i = 0, time = 0; i < trace.events; ++i) times[i] = time += reader.varint() * facts.times.unit;
  times[trace.events] = trace.events > 0 ? times[trace.events - 1] : 0;
  return times;
}

// Returns the offset of each allocation under the policy with this number; -1 without an offset.
async function readLayout(number, trace, facts) {
  const offsets = new Reader(await inflate(`data-layout-${number}`)).numbers(Float64Array, trace.count);
  for (let i = 0; i < trace.count; ++i) offsets[i] = offsets[i] === 0 ? -1 : (offsets[i] - 1) * facts.trace.alignment;
  return offsets;
}

// Returns the live bytes after each event.
function liveAfterEvents(trace) {
  const live = new Float64Array(trace.events);
  for (let i = 0; i < trace.count; ++i) {
    live[trace.start[i]] += trace.bytes[i];
    if (trace.freed[i]) live[trace.end[i]] -= trace.bytes[i];
  }
  for (let i = 1; i < trace.events; ++i) live[i] += live[i - 1];
  return live;
}

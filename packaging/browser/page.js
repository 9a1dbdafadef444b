// SPDX-License-Identifier: Apache-2.0
// Hands a file to a worker, and shows the worker's answers.
const MOST_BYTES = 2 ** 32;  // the memory of a WebAssembly module
const MEMORY_OF_A_BYTE = 14;  // of an operation CSV; 2 to 5 of a snapshot
const GROWTH_OF_GZIP = 10;  // at least, for a snapshot
const element = (id) => document.getElementById(id);
const bytesText = (bytes) => bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;

function mayNeedMore(file) {
  const bytes = file.size * (file.name.endsWith(".gz") ? GROWTH_OF_GZIP : 1);
  return bytes * MEMORY_OF_A_BYTE > MOST_BYTES;
}

async function unpacked(id) {
  const packed = Uint8Array.from(atob(element(id).textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

const parts = Promise.all(["worker", "wasm"].map(unpacked));
let newest = null;  // file
let worker = null;
let reportUrl = null;

function show(id, text) {
  element(id).textContent = text;
  element(id).hidden = text === "";
}

function forget() {
  worker?.terminate();
  worker = null;
  if (reportUrl) URL.revokeObjectURL(reportUrl);
  for (const id of ["warning", "trouble"]) show(id, "");
  for (const id of ["answer", "picture"]) element(id).hidden = true;
}

function end(state) {
  worker?.terminate();
  worker = null;
  element("state").textContent = state;
}

function showReport(html, name) {
  window.tidepoolReader = { report: html };  // for tests
  reportUrl = URL.createObjectURL(html);
  element("report").src = reportUrl;
  element("save").href = reportUrl;
  element("save").download = `${name}.html`;
  element("picture").hidden = false;
}

const answers = {
  info: (text) => {
    element("info").textContent = text;
    element("answer").hidden = false;
    element("state").textContent = "Drawing the report ...";
  },
  report: (html, file) => {
    showReport(html, file.name);
    end(`${file.name}, ${bytesText(file.size)}`);
  },
  text: (_, file) => end(`${file.name}, ${bytesText(file.size)}, is the text of an error: a report needs a snapshot or a trace.`),
  trouble: (text) => {
    show("trouble", text);
    end("");
  },
};

async function read(file) {
  forget();
  element("state").textContent = `Reading ${file.name}, ${bytesText(file.size)} ...`;
  if (mayNeedMore(file)) {
    show("warning", `A page has at most 4 GiB of memory, and this file may need more: a CSV needs ${MEMORY_OF_A_BYTE} times its ` +
         "size, a snapshot up to 5. If the page fails, install tidepool, which has no such limit.");
  }
  newest = file;
  let source, wasm;
  try {
    [source, wasm] = await parts;
  } catch (error) {
    return answers.trouble(`The page could not be unpacked: ${error.message}. It needs a browser of 2023 or later.`);
  }
  if (newest !== file) return;  // another one came meanwhile
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const mine = worker = new Worker(url);
  worker.onmessage = ({ data: { kind, value } }) => mine === worker && answers[kind](value, file);
  worker.onerror = (event) => mine === worker && answers.trouble(event.message);
  worker.postMessage({ file, wasm });
}

element("file").onclick = (event) => { event.target.value = ""; };  // so that the same file can be chosen again
element("file").onchange = (event) => event.target.files[0] && read(event.target.files[0]);
window.ondragover = (event) => {
  event.preventDefault();
  element("drop").classList.add("over");
};
window.ondragleave = () => element("drop").classList.remove("over");
window.ondrop = (event) => {
  event.preventDefault();
  element("drop").classList.remove("over");
  if (event.dataTransfer.files[0]) read(event.dataTransfer.files[0]);
};

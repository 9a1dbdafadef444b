// SPDX-License-Identifier: Apache-2.0
// Runs `info` and `report` on a file, beside the page: a page that computes shows nothing. The program of Emscripten comes before
// this text, and the file is read in pieces, where it lies.

function answer(kind, value) {
  postMessage({ kind, value });
}

function stoppedText(error, reader) {
  const stopped = `The reader stopped: ${String(error).split(". ")[0]}.`;
  const megabytes = reader ? Math.round(reader.HEAPU8.length / 1e6) : 0;
  if (megabytes < 1000) return stopped;
  return `${stopped} It had ${megabytes} MB of memory, of the 4295 MB (4 GiB) that a page has at most; tidepool, installed, has no such limit.`;
}

function open(reader, file) {
  reader.FS.mkdir("/file");
  reader.FS.mount(reader.FS.filesystems.WORKERFS, { files: [file] }, "/file");
  reader.FS.chdir("/file");
}

onmessage = async ({ data: { file, wasm } }) => {
  const lines = [];
  const errors = [];
  let reader = null;
  const run = (...words) => reader.callMain([...words, "--", file.name]) === 0;
  const trouble = () => answer("trouble", errors.join("\n"));
  // Info answers for the text of an error too, which has no events to draw.
  const isErrorText = () => {
    lines.length = 0;
    return run("info", "--json") && "out_of_memory" in JSON.parse(lines.join("\n"));
  };
  try {
    reader = await makeReader({ wasmBinary: wasm, print: (line) => lines.push(line), printErr: (line) => errors.push(line) });
    open(reader, file);
    if (!run("info")) return trouble();
    answer("info", lines.join("\n") + "\n");
    if (run("report", "-o", "/report.html")) {
      answer("report", new Blob([reader.FS.readFile("/report.html")], { type: "text/html" }));
    } else if (isErrorText()) {
      answer("text");
    } else {
      trouble();
    }
  } catch (error) {
    answer("trouble", stoppedText(error, reader));
  }
};

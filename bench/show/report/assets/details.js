// The details of cells, in compressed blocks (bench/show/report/page_data.cpp defines them).

function bytesOf(element) {
  const text = element.textContent;
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const raw = new Uint8Array(binary.length);
  for (let i = 0; i < raw.length; ++i) raw[i] = binary.charCodeAt(i);
  return raw;
}

/** Adds its details to a cell, and to all others of the same block. */
async function loadDetails(index) {
  const block = data.cells[index].details?.[0];
  if (block === undefined) return;  // they are there
  const packed = bytesOf(document.getElementById(`details-${block}`));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const details = JSON.parse(await new Response(stream).text());
  for (const cell of data.cells) {
    if (cell.details?.[0] !== block) continue;
    Object.assign(cell, details[cell.details[1]]);
    delete cell.details;
  }
}

"use strict";
document.getElementById("searching").hidden = false;
// The board's search shows rows whose text, failures included, contains every word.
const field = document.getElementById("search");
const rows = [...document.querySelectorAll("tr[data-search]")];
const count = document.getElementById("count");
function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    row.hidden = !words.every((word) => row.dataset.search.includes(word));
    shown += row.hidden ? 0 : 1;
  }
  for (const part of document.querySelectorAll("[data-group]")) {
    part.hidden = [...part.querySelectorAll("tr[data-search]")].every((row) => row.hidden);
  }
  count.textContent = `${shown} of ${rows.length} rows`;
  history.replaceState(null, "", words.length ? `#q=${encodeURIComponent(field.value)}` : "#");
}
field.addEventListener("input", search);
if (location.hash.startsWith("#q=")) {
  try { field.value = decodeURIComponent(location.hash.slice(3)); } catch { field.value = ""; }
}
search();

// Draws the charts, and hides in all of them the policies that are switched off.
const { config, charts } = JSON.parse(document.getElementById("data").textContent);

// Data come in columns, a series each; what is no column is the same in all rows.
const rowsOf = (lines) =>
  lines.flatMap((line) => {
    const columns = Object.entries(line).filter(([, value]) => Array.isArray(value));
    const same = Object.entries(line).filter(([, value]) => !Array.isArray(value));
    return columns[0][1].map((_, i) =>
      Object.fromEntries([...same, ...columns.map(([key, values]) => [key, values[i]])]),
    );
  });

const options = {
  mode: "vega-lite",
  renderer: "svg",
  actions: false,
  defaultStyle: false,
  tooltip: { disableDefaultStyle: true },
  logLevel: 1, // errors
  config,
};
const views = [];
const hidden = new Set();
const boxes = [...document.querySelectorAll("input[data-series]")];
for (const box of boxes) {
  box.checked = true;
  box.addEventListener("change", () => {
    const name = box.dataset.series;
    hidden[box.checked ? "delete" : "add"](name);
    for (const other of boxes) if (other.dataset.series === name) other.checked = box.checked;
    for (const view of views) view.signal("hidden", [...hidden]).runAsync();
  });
}

for (const [number, { spec, lines }] of charts.entries()) {
  const place = document.getElementById(`chart-${number}`);
  const datasets = { rows: rowsOf(lines) };
  const { view } = await vegaEmbed(place, { ...spec, datasets }, options);
  if (hidden.size) view.signal("hidden", [...hidden]).runAsync();
  views.push(view);
}
document.documentElement.dataset.drawn = charts.length;

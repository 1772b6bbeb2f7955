// The facts of one node, as a table or as the JSON that preflight writes.
const facts = {
  node: -1,

  begin() {
    byId("facts-names").append(...data.names.map((name) => element("option", { value: name })));
    byId("facts-node").addEventListener("input", soon(() => this.pick()));
    byId("facts-filter").addEventListener("input", soon(() => this.draw()));
    byId("facts-raw").addEventListener("change", () => this.draw());
    byId("facts-form").addEventListener("submit", (event) => { event.preventDefault(); this.pick(); });
    byId("facts-body").hidden = false;
    byId("facts-count").textContent = "Name one of " + count(data.names.length, "node") + ", or choose one in the table above.";
  },

  // pick shows the node with the typed name, or the only node whose name contains the typed text.
  pick() {
    const text = byId("facts-node").value.trim();
    const meant = data.names.map((_, i) => i).filter((i) => visible(data.names[i]).includes(text));
    const exact = meant.find((i) => visible(data.names[i]) === text);
    if (exact === undefined && meant.length !== 1) {
      byId("facts-count").textContent = text === "" ? "" : count(meant.length, "node") + " with that name";
      byId("facts-shown").replaceChildren();
      return;
    }
    this.node = exact ?? meant[0];
    this.draw();
  },

  // show shows a node when a link elsewhere on the page leads here.
  show(i, move) {
    byId("facts-node").value = visible(data.names[i]);
    this.node = i;
    this.draw();
    if (!move) return;
    byId("facts").scrollIntoView();
    byId("facts-node").focus({ preventScroll: true });
  },

  draw() {
    if (this.node < 0) return;
    const seen = store.all(this.node);
    const asked = byId("facts-filter").value.trim().toLowerCase();
    byId("facts-shown").replaceChildren(byId("facts-raw").checked ? this.json(seen) : this.table(seen, asked));
  },

  json(seen) {
    const code = element("code", {}, asJSON({ name: data.names[this.node], facts: seen, missing: store.missing(this.node) }, 1));
    byId("facts-count").textContent = "";
    return element("div", { class: "copyable" }, element("pre", { tabindex: "0" }, code), copyButton(code, "Copy the facts as JSON"));
  },

  table(seen, asked) {
    const body = element("tbody", {});
    let shown = 0;
    const add = (section, lines) => {
      const rows = lines.filter((line) => line.join(" ").toLowerCase().includes(asked));
      if (rows.length === 0) return;
      shown += rows.length;
      body.append(element("tr", { class: "section" }, element("th", { colspan: "2", scope: "rowgroup" }, section)));
      for (const [path, text, number] of rows) {
        body.append(element("tr", {}, element("th", { scope: "row" }, path), element("td", number ? { title: number } : {}, text)));
      }
    };
    for (const [section, fields] of Object.entries(seen)) add(section, flat(section, fields, store.unit(store.table.units, section)));
    add("missing", Object.entries(store.missing(this.node)));
    byId("facts-count").textContent = count(shown, "fact") + " of " + visible(data.names[this.node]);
    const table = element("table", { class: "fact-table" }, element("caption", { class: "hidden-text" }, "Facts of " + data.names[this.node]), body);
    return element("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Facts" }, table);
  },
};

// flat returns the leaves below a value: the path, the text and, for a number with a unit, the plain
// number. A list of plain values is one leaf.
function flat(path, value, unit) {
  if (typeof value === "number" || typeof value === "bigint") {
    const text = counted(path, value, unit);
    return [[path, text, text === String(value) ? "" : String(value)]];
  }
  if (value === null || typeof value !== "object") return [[path, value === "" ? '""' : String(value), ""]];
  const entries = Object.entries(value);
  if (entries.length === 0) return [[path, Array.isArray(value) ? "[]" : "{}", ""]];
  const plain = (v) => v === null || typeof v !== "object" || (Array.isArray(v) && v.every((w) => typeof w !== "object"));
  if (Array.isArray(value) && value.every(plain)) return [[path, value.map((v) => (Array.isArray(v) ? v.join(" ") : String(v))).join(value.some(Array.isArray) ? "\n" : ", "), ""]];
  return entries.flatMap(([key, each]) => flat(path + "." + key, each, store.unit(unit, key)));
}

if (byId("facts")) facts.begin();

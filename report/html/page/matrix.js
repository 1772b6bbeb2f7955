// The table of nodes by checks. Equal rows are one, with the folded set of nodes.
const cells = {
  f: { sign: "×", word: "fail" }, w: { sign: "!", word: "warn" }, u: { sign: "?", word: "unknown" },
  p: { sign: "✓", word: "passed" }, c: { sign: "·", word: "fine here, not on other nodes" },
  v: { sign: "~", word: "waived" }, n: { sign: "…", word: "not decided" }, s: { sign: "–", word: "does not apply" },
  o: { sign: "", word: "not checked here" },
};
const mostRows = 200; // drawn at once

const matrix = {
  table: byId("matrix-table"),
  shown: mostRows,
  open: new Set(), // keys of the folded rows that are open
  marks: new Map(), // check → findings, with their nodes as sets

  begin() {
    for (const mark of data.marks) {
      if (!this.marks.has(mark.check)) this.marks.set(mark.check, []);
      this.marks.get(mark.check).push({ nodes: new Set(mark.nodes), anchor: mark.anchor });
    }
    const anew = () => { this.shown = mostRows; this.draw(); };
    for (const id of ["matrix-nodes", "matrix-checks"]) byId(id).addEventListener("input", soon(anew));
    for (const id of ["matrix-verdict", "matrix-all", "matrix-fold"]) byId(id).addEventListener("change", anew);
    byId("matrix-filters").addEventListener("submit", (event) => event.preventDefault());
    byId("matrix-more").addEventListener("click", () => { this.shown += mostRows; this.draw(); });
    byId("matrix-all").checked = data.marks.length === 0;
    byId("matrix-body").hidden = false;
    this.draw();
  },

  // asked returns the state of the controls.
  asked() {
    return {
      nodes: byId("matrix-nodes").value.trim().toLowerCase(),
      checks: byId("matrix-checks").value.trim().toLowerCase(),
      verdict: byId("matrix-verdict").value,
      all: byId("matrix-all").checked,
      fold: byId("matrix-fold").checked,
    };
  },

  // columns returns the indexes of the checks to show.
  columns(asked) {
    const holds = (check, c) => {
      if (!(check.id + " " + check.title).toLowerCase().includes(asked.checks)) return false;
      if (asked.verdict) return data.rows.some((row) => row.cells[c] === asked.verdict);
      return asked.all || this.marks.has(c);
    };
    return data.checks.map((check, c) => (holds(check, c) ? c : -1)).filter((c) => c >= 0);
  },

  // rows returns the rows to show, each with the nodes that match the filter.
  rows(asked, columns) {
    const rows = [];
    for (const row of data.rows) {
      if (asked.verdict && !columns.some((c) => row.cells[c] === asked.verdict)) continue;
      if (row.nodes.length === 0) {
        const says = columns.some((c) => row.cells[c] !== "o");
        if (says && row.label.includes(asked.nodes)) rows.push({ label: row.label, nodes: [], cells: row.cells });
        continue;
      }
      const nodes = row.nodes.filter((i) => data.names[i].toLowerCase().includes(asked.nodes));
      if (nodes.length === 0) continue;
      rows.push({ label: nodes.length === row.nodes.length ? row.label : folded(nodes), nodes, cells: row.cells });
    }
    return asked.fold ? this.folded(rows, columns) : rows.flatMap(apart).sort((a, b) => (a.nodes[0] ?? -1) - (b.nodes[0] ?? -1));
  },

  // folded joins rows that differ only in hidden columns.
  folded(rows, columns) {
    const at = new Map();
    for (const row of rows) {
      const key = row.nodes.length === 0 ? row.label : columns.map((c) => row.cells[c]).join("");
      const same = at.get(key);
      if (!same) {
        at.set(key, { ...row, key });
        continue;
      }
      same.nodes = same.nodes.concat(row.nodes).sort((a, b) => a - b);
      same.label = "";
    }
    const joined = [...at.values()];
    for (const row of joined) row.label ||= folded(row.nodes);
    return joined.flatMap((row) => (this.open.has(row.key) ? [row, ...apart(row)] : [row]));
  },

  draw() {
    const asked = this.asked();
    const columns = this.columns(asked);
    const rows = this.rows(asked, columns);
    this.table.tHead.replaceChildren(this.header(columns));
    this.table.tBodies[0].replaceChildren(...rows.slice(0, this.shown).map((row) => this.row(row, columns)));
    const nodes = new Set(rows.flatMap((row) => row.nodes)).size;
    byId("matrix-count").textContent = count(nodes, "node") + " in " + count(rows.length, "row") + ", " +
      columns.length + " of " + count(data.checks.length, "check");
    const drawn = new Set(rows.flatMap((row) => columns.map((c) => row.cells[c])));
    for (const entry of byId("matrix-legend").children) entry.hidden = !drawn.has(entry.querySelector("dt").classList.item(1));
    const more = byId("matrix-more");
    more.hidden = rows.length <= this.shown;
    more.textContent = "Show " + Math.min(mostRows, rows.length - this.shown) + " more of " + rows.length + " rows";
  },

  header(columns) {
    const row = element("tr", {}, element("th", { scope: "col" }, element("span", { class: "hidden-text" }, "Nodes")));
    for (const c of columns) {
      const check = data.checks[c];
      const words = check.title + (check.reason ? "\n" + cells[check.cell].word + ": " + check.reason : "");
      row.append(element("th", { scope: "col", title: words }, element("span", {}, check.id)));
    }
    return row;
  },

  row(row, columns) {
    const made = element("tr", {}, element("th", { scope: "row" }, ...this.name(row)));
    for (const c of columns) {
      const cell = row.cells[c];
      const sign = [element("span", { "aria-hidden": "true" }, cells[cell].sign), element("span", { class: "hidden-text" }, cells[cell].word)];
      const anchor = this.anchor(c, row, cell);
      made.append(element("td", { class: "cell " + cell, title: row.label + " × " + data.checks[c].id + ": " + this.words(c, cell) },
        ...(anchor ? [element("a", { href: "#" + anchor }, ...sign)] : sign)));
    }
    return made;
  },

  // name returns the button of a row, which shows the facts of a single node and unfolds several.
  name(row) {
    if (row.nodes.length === 0) return [row.label];
    if (row.nodes.length === 1) {
      return [element("button", { type: "button", title: "Show the facts of " + row.label, onclick: () => facts.show(row.nodes[0], true) }, row.label)];
    }
    const toggle = () => {
      if (!this.open.delete(row.key)) this.open.add(row.key);
      this.draw();
      this.table.querySelector('button[data-key="' + CSS.escape(row.key) + '"]')?.focus();
    };
    return [
      element("button", { type: "button", "data-key": row.key, "aria-expanded": String(this.open.has(row.key)), title: row.label, onclick: toggle }, row.label),
      element("span", { class: "faint" }, " " + count(row.nodes.length, "node")),
    ];
  },

  // words describes a cell, with the reason of the check if it has one.
  words(c, cell) {
    const reason = "ns".includes(cell) ? data.checks[c].reason : "";
    return cells[cell].word + (reason ? ": " + reason : "");
  },

  // anchor returns the anchor of the finding of a cell.
  anchor(c, row, cell) {
    if (!"fwuv".includes(cell)) return "";
    const about = (mark) => (row.nodes.length === 0 ? mark.nodes.size === 0 : row.nodes.some((i) => mark.nodes.has(i)));
    return (this.marks.get(c) || []).find(about)?.anchor || "";
  },
};

// apart returns a row for each node of a folded row.
function apart(row) {
  if (row.nodes.length === 0) return [row];
  return row.nodes.map((i) => ({ label: data.names[i], nodes: [i], cells: row.cells }));
}

if (byId("matrix")) matrix.begin();

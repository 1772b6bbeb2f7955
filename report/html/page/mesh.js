// The heat map has a row for each caller and a column for each callee. Colours show latency relative to
// the median, so that slow calls stand out and noise does not.
const steps = [1, 2, 4, 8]; // times the median

// The calls of one mesh drill.
class Mesh {
  constructor(section) {
    this.calls = data.names.map(() => new Map()); // caller → callee → {seconds} or {outcome}
    const index = new Map(data.names.map((name, i) => [name, i]));
    const times = [];
    data.names.forEach((_, from) => {
      const part = store.section(section, from);
      if (!part) return;
      for (const [peer, seconds] of Object.entries(part.reached || {})) {
        if (!index.has(peer)) continue;
        this.calls[from].set(index.get(peer), { seconds });
        if (index.get(peer) !== from) times.push(seconds);
      }
      for (const path of part.failed || []) {
        if (index.has(path.peer)) this.calls[from].set(index.get(path.peer), { outcome: path.outcome || "failed", seconds: path.seconds });
      }
    });
    times.sort((a, b) => a - b);
    this.median = times[times.length >> 1] || 0;
    this.out = data.names.map((_, i) => this.share([...this.calls[i]].filter(([to]) => to !== i).map(([, call]) => call)));
    this.into = data.names.map((_, i) => this.share(this.calls.filter((_, from) => from !== i).map((made) => made.get(i)).filter(Boolean)));
  }

  // share returns how many calls were made, how many failed, and the median latency of the others.
  share(calls) {
    const times = calls.filter((call) => !call.outcome).map((call) => call.seconds).sort((a, b) => a - b);
    return { made: calls.length, failed: calls.length - times.length, median: times[times.length >> 1] };
  }

  level(seconds) {
    const above = steps.findIndex((step) => seconds <= step * this.median);
    return above < 0 ? steps.length : above;
  }

  // Pairs are drawn if there are not too many and most were tried.
  get isDense() {
    const callers = this.out.filter((share) => share.made > 0);
    const made = callers.reduce((sum, share) => sum + share.made, 0);
    return data.names.length <= 30 || (data.names.length <= 160 && made > callers.length * data.names.length / 3);
  }

  suspect(share) { return share.failed > 1 && share.failed * 2 > share.made; }
}

const milliseconds = (seconds) => {
  const ms = seconds * 1000;
  return ms >= 10 ? String(Math.round(ms)) : ms.toPrecision(2);
};

function words(mesh, from, to) {
  const call = mesh.calls[from].get(to);
  const pair = data.names[from] + " → " + data.names[to] + ": ";
  if (!call) return pair + "not called";
  return pair + (call.outcome ? call.outcome + " after " : "answered in ") + lasting(call.seconds);
}

function heatMap(mesh, readout) {
  const n = data.names.length;
  const side = Math.min(2.1, Math.max(0.4, 64 / n)); // of a cell, in rem, so that most maps fit the page
  const size = side > 2 ? "small" : side > 0.8 ? "middle" : "large";
  const head = element("tr", {}, element("td", { class: "corner" }, size === "small" ? "by ↓ of →" : ""));
  const body = element("tbody", {});
  const all = [];
  data.names.forEach((name, i) => head.append(element("th", { scope: "col", class: mesh.suspect(mesh.into[i]) ? "suspect" : "" },
    element("span", {}, (mesh.suspect(mesh.into[i]) ? "× " : "") + name))));
  data.names.forEach((name, from) => {
    const suspect = mesh.suspect(mesh.out[from]);
    const row = element("tr", {}, element("th", { scope: "row", class: suspect ? "suspect" : "" }, element("span", {}, (suspect ? "× " : "") + name)));
    for (let to = 0; to < n; to++) {
      const cell = heatCell(mesh, from, to);
      all.push(cell);
      row.append(cell);
    }
    body.append(row);
  });
  const table = element("table", { class: "heat " + size, role: "grid", "aria-label": "Calls between nodes: rows call, columns are called" }, element("thead", {}, head), body);
  table.style.setProperty("--side", side + "rem");
  const tell = (event) => {
    const at = all.indexOf(event.target.closest("td"));
    if (at >= 0) readout.textContent = visible(words(mesh, Math.floor(at / n), at % n));
  };
  table.addEventListener("pointerover", tell);
  table.addEventListener("focusin", tell);
  arrows(table, all, () => n);
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Heat map of calls" }, table);
}

function heatCell(mesh, from, to) {
  const call = mesh.calls[from].get(to);
  const cell = document.createElement("td"); // many of them: no attribute too much
  cell.tabIndex = -1;
  cell.setAttribute("role", "gridcell");
  if (!call) {
    cell.className = from === to ? "lself" : "ln";
    cell.textContent = from === to ? "" : "·";
  } else if (call.outcome) {
    cell.className = "lx";
    cell.textContent = "×";
  } else {
    cell.className = from === to ? "lself" : "l" + mesh.level(call.seconds);
    cell.textContent = milliseconds(call.seconds);
  }
  return cell;
}

function meshLegend(mesh, extra) {
  const legend = element("dl", { class: "legend" });
  const add = (key, sign, text) => legend.append(element("div", {}, element("dt", { class: "key " + key }, sign), element("dd", {}, text)));
  if (mesh.median) {
    steps.forEach((step, i) => add("l" + i, "", "up to " + lasting(step * mesh.median) + (i === 0 ? ", the median" : "")));
    add("l" + steps.length, "", "slower");
  }
  add("lx", "×", extra ? "all failed" : "failed");
  if (extra) add("lp", "/", "some failed");
  add("ln", "·", "not called");
  return legend;
}

// suspectsInWords names the nodes for which most calls failed.
function suspectsInWords(mesh) {
  const named = (shares) => few(shares.map((share, i) => (mesh.suspect(share) ? i : -1)).filter((i) => i >= 0));
  const suspects = [["to ", named(mesh.into)], ["from ", named(mesh.out)]].filter(([, names]) => names).map(([word, names]) => word + names);
  return suspects.length > 0 ? "Most calls " + suspects.join(" and ") + " fail." : "";
}

function drawMesh(box) {
  const mesh = new Mesh(box.dataset.section);
  const readout = element("p", { class: "readout faint" }, mesh.isDense ? "Milliseconds of each call: rows are callers, columns are callees. Point at a cell, or go through them by the arrow keys." :
    "A tile is a node: the left half shows its calls, the right half the calls to it. The arrow keys move between tiles.");
  const suspects = suspectsInWords(mesh);
  if (suspects) box.append(element("p", { class: "suspects" }, suspects));
  box.append(mesh.isDense ? heatMap(mesh, readout) : meshTiles(mesh, readout), meshLegend(mesh, !mesh.isDense), readout);
}

// A map of many nodes is drawn when it scrolls into view or is printed.
const atOnce = 32; // nodes of which a map takes no time worth waiting for
{
  const boxes = new Set(document.querySelectorAll(".heat-map"));
  const draw = (box) => {
    if (boxes.delete(box)) drawMesh(box);
  };
  const watch = new IntersectionObserver((seen) => seen.filter((s) => s.isIntersecting).forEach((s) => draw(s.target)), { rootMargin: "400px" });
  for (const box of [...boxes]) {
    box.hidden = false;
    if (data.names.length <= atOnce) draw(box);
    else watch.observe(box);
  }
  addEventListener("beforeprint", () => [...boxes].forEach(draw));
}

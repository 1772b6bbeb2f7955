// Facts that nodes share are stored once. A field has shapes, each with the value of the first node and
// the places at which the values of others differ. Some kernel limits are too large for an exact number:
// they stay exact if the browser passes the source text of a number.
const whole = (key, value, written) =>
  typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(written?.source ?? "") ? BigInt(written.source) : value;
const asJSON = (value, indent) =>
  JSON.stringify(value, (key, v) => (typeof v !== "bigint" ? v : JSON.rawJSON ? JSON.rawJSON(String(v)) : Number(v)), indent);

const store = {
  parsed: null,
  get table() {
    this.parsed ??= JSON.parse(byId("node-facts").textContent, whole);
    return this.parsed;
  },

  // field returns one field of a section of the i-th node, undefined if it has none.
  field(field, i) {
    let at = field.order < 0 ? 0 : this.table.orders[field.order][i];
    if (at < 0) return undefined;
    let which = 0;
    while (at >= field.shapes[which].count) at -= field.shapes[which++].count;
    const shape = field.shapes[which];
    const filling = (hole) => this.table.columns[hole.column][at];
    if (shape.holes.length === 1 && shape.holes[0].at.length === 0) return filling(shape.holes[0]);
    const value = structuredClone(shape.value);
    for (const hole of shape.holes) {
      let place = value;
      for (const key of hole.at.slice(0, -1)) place = place[key];
      Object.defineProperty(place, hole.at.at(-1), { value: filling(hole), enumerable: true, configurable: true, writable: true });
    }
    return value;
  },

  // section returns one section of the i-th node, null if it has none.
  section(name, i) {
    let found = null;
    for (const field of this.table.fields) {
      if (field.section !== name) continue;
      const value = this.field(field, i);
      if (value !== undefined) (found ??= {})[field.name] = value;
    }
    return found;
  },

  // all returns the sections of the i-th node.
  all(i) {
    const facts = {};
    for (const name of new Set(this.table.fields.map((field) => field.section))) {
      const section = this.section(name, i);
      if (section) facts[name] = section;
    }
    return facts;
  },

  // unit descends one step in the tree of units, whose leaves are texts.
  unit(above, key) {
    if (typeof above !== "object") return undefined;
    return Object.hasOwn(above, key) ? above[key] : above["*"];
  },

  missing(i) { return this.table.missing[i] || {}; },
};

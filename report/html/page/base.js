const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);

// visible writes out characters that would hide or reorder text, as the rest of the page does:
// control characters, text directions, and characters without a glyph.
function visible(text) {
  return String(text).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => {
    if (c === "\n") return c;
    const code = c.codePointAt(0).toString(16);
    return code.length > 2 ? "\\u" + code.padStart(4, "0") : "\\x" + code.padStart(2, "0");
  });
}

// element makes an element. All text that the script adds to the page passes through here, and none
// of it becomes markup.
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (typeof value === "boolean") made.toggleAttribute(key, value);
    else made.setAttribute(key, visible(value));
  }
  for (const child of children) {
    made.append(child instanceof Node ? child : visible(child));
  }
  return made;
}

const count = (n, noun) => n + " " + noun + (n === 1 ? "" : "s");

// announce makes a screen reader read a text, such as the result of a button.
function announce(text) {
  byId("status").textContent = text;
}

// soon calls a function once after a burst of events, such as typed letters.
function soon(call) {
  let waiting = 0;
  return () => {
    clearTimeout(waiting);
    waiting = setTimeout(call, 80);
  };
}

// arrows moves the focus within a grid of cells, one of which the Tab key reaches. columns returns the
// number of cells in a row.
function arrows(box, cells, columns) {
  if (cells.length === 0) return;
  cells[0].tabIndex = 0;
  box.addEventListener("keydown", (event) => {
    const at = cells.indexOf(document.activeElement);
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns(), ArrowUp: -columns(), Home: -at, End: cells.length - 1 - at }[event.key];
    const to = cells[at + step];
    if (at < 0 || !to) return;
    event.preventDefault();
    cells[at].tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  });
}

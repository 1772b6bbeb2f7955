// copyText puts text on the clipboard, also where a page may not do so by itself:
// then a selection is copied, or at least made.
async function copyText(text, source) {
  try {
    await navigator.clipboard.writeText(text);
    return "Copied";
  } catch { /* no permission, or no secure place: select it */ }
  const range = document.createRange();
  range.selectNodeContents(source);
  const selection = getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
  try {
    if (document.execCommand("copy")) return "Copied";
  } catch { /* left selected */ }
  return "Selected: press Ctrl+C";
}

function copyButton(source, label) {
  const button = element("button", { type: "button", "aria-label": label }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = await copyText(source.textContent, source);
    announce(button.textContent);
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return button;
}

for (const line of document.querySelectorAll(".copyable")) {
  const code = line.querySelector("code");
  line.append(copyButton(code, "Copy: " + code.textContent));
}

// Findings open and close together, and open when they are led to or printed.
{
  const findings = [...document.querySelectorAll(".finding")];
  const box = byId("unfold");
  if (box && findings.length > 1) {
    for (const [label, open] of [["Open all", true], ["Close all", false]]) {
      box.append(element("button", { type: "button", onclick: () => findings.forEach((f) => { f.open = open; }) }, label));
    }
    box.hidden = false;
  }
  const lead = () => {
    const target = byId(decodeURIComponent(location.hash.slice(1)));
    if (target && target.matches(".finding")) target.open = true;
  };
  addEventListener("hashchange", lead);
  lead();
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = findings.filter((f) => !f.open);
    closed.forEach((f) => { f.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((f) => { f.open = false; }));
}

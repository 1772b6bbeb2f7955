// copyText puts text on the clipboard. Where the page may not do that, it selects the source, which
// holds the same text, and copies the selection or leaves it to the reader.
async function copyText(text, source) {
  try {
    await navigator.clipboard.writeText(text);
    return "Copied";
  } catch { /* no permission, or no secure context: select the text */ }
  const range = document.createRange();
  range.selectNodeContents(source);
  const selection = getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
  try {
    if (document.execCommand("copy")) return "Copied";
  } catch { /* the text stays selected */ }
  return "Selected: press Ctrl+C";
}

function copyButton(source, label, word = "Copy") {
  const button = element("button", { type: "button", "aria-label": label }, word);
  button.addEventListener("click", async () => {
    button.textContent = await copyText(source.textContent, source);
    announce(button.textContent);
    setTimeout(() => { button.textContent = word; }, 2000);
  });
  return button;
}

for (const line of document.querySelectorAll(".copyable")) {
  const code = line.querySelector("code");
  line.append(copyButton(code, "Copy: " + code.textContent));
}

// A problem with several commands has a button that copies its fix and then commands in their order,
// without look commands and alternatives.
for (const problem of document.querySelectorAll(".finding")) {
  const lines = [...problem.querySelectorAll("[data-cures] code")].map((code) => code.textContent);
  if (lines.length === 0 || problem.querySelectorAll(".steps .copyable").length < 2) continue;
  const all = element("pre", { class: "all-lines" }, lines.join("\n") + "\n");
  const button = copyButton(all, "Copy all fix and then commands of " + problem.querySelector("h3").textContent.trim(), "Copy all");
  button.title = count(lines.length, "command") + ": fix and then";
  problem.querySelector(".steps-head").append(button, all);
}

// Buttons open and close all problems. A problem also opens when a link leads to it or it is printed.
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

// The colours follow the system until somebody says otherwise. A browser may
// refuse to remember it for a file.
{
  const box = byId("theme");
  const root = document.documentElement;
  const buttons = [];
  const choose = (theme) => {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    for (const button of buttons) {
      button.setAttribute("aria-pressed", String(button.value === theme));
    }
  };
  for (const [theme, label] of [["", "System"], ["light", "Light"], ["dark", "Dark"]]) {
    const button = element("button", {
      type: "button", value: theme,
      onclick: () => {
        choose(theme);
        try { localStorage.setItem("preflight-theme", theme); } catch { /* not remembered */ }
      },
    }, label);
    buttons.push(button);
    box.append(button);
  }
  let remembered = "";
  try { remembered = localStorage.getItem("preflight-theme") || ""; } catch { /* as the system */ }
  choose(["light", "dark"].includes(remembered) ? remembered : "");
  box.hidden = false;
}

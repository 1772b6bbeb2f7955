// The colours follow the system until the user picks a theme. A browser may refuse to remember the
// choice for a file.
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
  try { remembered = localStorage.getItem("preflight-theme") || ""; } catch { /* follow the system */ }
  choose(["light", "dark"].includes(remembered) ? remembered : "");
  box.hidden = false;
}

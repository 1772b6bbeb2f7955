// In a large fleet only some pairs are tried, and a map of all pairs would be mostly empty. There, each
// node is a tile, in hostfile order.
function meshTiles(mesh, readout) {
  const half = (share) => {
    if (share.made === 0) return element("span", { class: "ln" }, "·");
    if (share.failed === share.made) return element("span", { class: "lx" }, "×");
    if (share.failed > 0) return element("span", { class: "lp" }, "/");
    return element("span", { class: "l" + mesh.level(share.median) });
  };
  const shareInWords = (share) => share.made - share.failed + " of " + share.made + " answered" +
    (share.median === undefined ? "" : ", median " + lasting(share.median));
  const tiles = data.names.map((name, i) => {
    const bad = mesh.suspect(mesh.out[i]) || mesh.suspect(mesh.into[i]);
    return element("button", {
      type: "button", class: "tile" + (bad ? " bad" : ""), tabindex: "-1",
      "aria-label": name + ": calls from it: " + shareInWords(mesh.out[i]) + "; calls to it: " + shareInWords(mesh.into[i]),
      onclick: () => facts.show(i, true),
    }, half(mesh.out[i]), half(mesh.into[i]));
  });
  const box = element("div", { class: "tiles", role: "group", "aria-label": "Nodes and the results of their calls" }, ...tiles);
  const tell = (event) => {
    const tile = event.target.closest(".tile");
    if (tile) readout.textContent = tile.getAttribute("aria-label");
  };
  box.addEventListener("pointerover", tell);
  box.addEventListener("focusin", tell);
  arrows(box, tiles, () => {
    const below = tiles.findIndex((tile) => tile.offsetTop > tiles[0].offsetTop);
    return below < 0 ? tiles.length : below;
  });
  return element("div", { class: "scroll" }, box);
}

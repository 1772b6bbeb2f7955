// folded returns nodes as a set, as hostfile.Fold does for names that differ in their last number:
// w[1-3,7].
function folded(nodes) {
  const sets = new Map(); // what surrounds the number → the numbers as written
  for (const name of nodes.map((i) => data.names[i])) {
    const [, before, digits, after] = /[[\],\s]/.test(name) ? [] : name.match(/^(.*?)(\d{1,15})(\D*)$/) || [];
    const key = digits === undefined ? name : JSON.stringify([before, after]);
    if (!sets.has(key)) sets.set(key, { before: before ?? name, after: after ?? "", numbers: [] });
    if (digits !== undefined) sets.get(key).numbers.push(digits);
  }
  return [...sets.values()].map((set) => set.before + ranges(set.numbers) + set.after).join(",");
}

// ranges returns numbers in brackets, with consecutive numbers of the same width as a range.
function ranges(numbers) {
  if (numbers.length < 2) return numbers.join();
  const runs = [];
  for (const text of [...numbers].sort((a, b) => a - b || a.length - b.length)) {
    const run = runs.at(-1);
    if (run && follows(run, text)) run[1] = text;
    else runs.push([text, text]);
  }
  return "[" + runs.map(([first, last]) => (first === last ? first : first + "-" + last)).join() + "]";
}

// follows reports whether a number continues a run. A padded number must keep its width.
function follows([first, last], next) {
  if (Number(next) !== Number(last) + 1) return false;
  return first[0] === "0" && first.length > 1 ? next.length === first.length : next[0] !== "0";
}

// few names the first of many nodes.
function few(nodes) {
  const names = nodes.slice(0, 3).map((i) => data.names[i]).join(", ");
  return nodes.length > 3 ? names + " and " + (nodes.length - 3) + " more" : names;
}

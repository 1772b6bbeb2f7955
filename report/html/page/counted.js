// counted returns a number in its unit, as the rest of the page does: 64 MiB, 3.1 ms.
function counted(path, number, unit) {
  if (number < 0 && path.startsWith("limits.")) return "unlimited";
  const value = Number(number);
  if (unit === "bytes" && value >= 0) return size(value);
  if (unit === "bit/s") return rate(value) + unit;
  if (unit === "s") return lasting(value);
  return unit ? number + " " + unit : String(number);
}

function size(bytes) {
  if (bytes < 10) return bytes + " B";
  const power = Math.min(6, Math.floor(Math.log(bytes) / Math.log(1024)));
  const value = Math.floor((bytes / 1024 ** power) * 10 + 0.5) / 10;
  return (value < 10 ? value.toFixed(1) : value.toFixed(0)) + " " + ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][power];
}

function rate(bits) {
  const power = bits < 1 ? 0 : Math.min(5, Math.floor(Math.log10(bits) / 3 + 1e-9));
  return Math.trunc((bits / 1000 ** power) * 10) / 10 + " " + ["", "k", "M", "G", "T", "P"][power];
}

// lasting returns a duration as text.Duration of the program does.
function lasting(seconds) {
  const [minute, hour, day] = [60, 3600, 86400];
  const long = Math.abs(seconds);
  const sign = seconds < 0 ? "-" : "";
  const brief = (value) => sign + (value < 9.95 ? Math.round(value * 10) / 10 : Math.round(value));
  if (long === 0) return "0 s";
  if (long < 0.9995e-3) return brief(long * 1e6) + " µs";
  if (long < 0.9995) return brief(long * 1e3) + " ms";
  if (long < 2 * minute) return brief(long) + " s";
  if (long < 2 * hour) return brief(long / minute) + " min";
  if (long < 2 * day) return brief(long / hour) + " h";
  return brief(long / day) + " days";
}

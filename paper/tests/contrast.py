"""How well the texts of a page stand out, measured in the browser."""

# The smallest contrast (WCAG 2.1) of a text to the ground behind it, and of the explorer's lines to theirs.
CONTRAST = """selector => {
  const probe = document.createElement("i"); document.body.append(probe);
  const numbers = c => {
    probe.style.color = c;
    return getComputedStyle(probe).color.match(/[\\d.]+/g).map(Number);
  };
  const light = c => numbers(c).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const contrast = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const behind = e => {
    const c = getComputedStyle(e).backgroundColor;
    return /, 0\\)$/.test(c) ? behind(e.parentElement) : c;
  };
  const texts = [...document.querySelectorAll(selector)]
    .filter(e => e.innerText && !e.matches("script, style, option"))
    .map(e => contrast(getComputedStyle(e).color, behind(e)));
  const names = ["text", "soft", "plus", "minus", "star", "attractor", "cylinder"];
  const lines = (typeof colours === "undefined" ? [] : [...names, ...NAMES])
    .map(n => contrast(colours[n], colours.ground));
  return [Math.min(...texts), Math.min(...lines)];
}"""

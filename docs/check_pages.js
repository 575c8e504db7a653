// What check_pages.py asks of a page in the browser.
const checks = {
  // Blocks that scroll inside of themselves, and the page if it does; the tables of the report say that they scroll. Long
  // lines of code and prose wrap, but a table that is printed loses its columns if they do: two such lines in a row.
  overflows: isWide => {
    const found = [], page = document.documentElement;
    if (page.scrollWidth > innerWidth) found.push(`the page is ${page.scrollWidth} pixels wide`);
    if (!isWide) return found;
    const name = e => `${e.tagName.toLowerCase()} ${e.className}`;
    for (const e of document.querySelectorAll("main pre, main table, main mjx-container, main div, main img, main svg")) {
      if (!e.checkVisibility() || e.closest(".scroll, .sr-only, .visually-hidden, nav, [class*=bd-sidebar]")) continue;
      const scrolls = ["auto", "scroll", "hidden"].includes(getComputedStyle(e).overflowX);
      if (scrolls && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 40)
        found.push(`${name(e)} is ${e.scrollWidth} pixels wide in a column of ${e.clientWidth}: ${e.innerText.slice(0, 60)}`);
    }
    for (const e of document.querySelectorAll(".cell_output pre, .sphx-glr-script-out pre")) {
      const probe = document.createElement("span"), style = getComputedStyle(e);
      probe.textContent = "x".repeat(50);
      e.append(probe);
      const wide = probe.getBoundingClientRect().width / 50;
      probe.remove();
      const room = Math.floor((e.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight)) / wide);
      const lines = e.textContent.split("\n"), at = lines.findIndex((l, k) => k && l.length > room && lines[k - 1].length > room);
      if (at > 0) found.push(`a printed table has ${lines[at].length} columns where ${room} fit: ${lines[at].slice(0, 60)}`);
    }
    return found;
  },

  // A picture inside of a link or a button that has words needs none of its own.
  without_text: () => [...document.querySelectorAll("img, svg[role=img], canvas")]
    .filter(e => !e.closest("[aria-hidden=true]") && !e.alt && !e.getAttribute("aria-label"))
    .filter(e => { const link = e.closest("a, button"); return !link || !(link.innerText.trim() || link.ariaLabel); })
    .map(e => (e.src || e.id || e.outerHTML).slice(-80)),

  // What the Tab key reaches has words or a label, so that a screen reader can say what it is.
  without_name: () => [...document.querySelectorAll("a[href], button, summary, select, input, textarea")]
    .filter(e => e.checkVisibility() && !e.innerText.trim() && !e.ariaLabel && !e.title && !e.labels?.length)
    .filter(e => !e.querySelector("img[alt]:not([alt='']), [aria-label]") && !["hidden", "submit"].includes(e.type))
    .map(e => e.outerHTML.slice(0, 100)),

  // Elements that hold text themselves, on the nearest ground that is not transparent (WCAG 2.1).
  low_contrast: least => {
  const parse = c => { const n = c.match(/[\d.]+/g).map(Number); return c.startsWith("color(srgb") ? n.map((v, k) => (k < 3 ? 255 * v : v)) : n; };
  const over = (c, ground) => (c.length < 4 ? c : c.slice(0, 3).map((v, k) => c[3] * v + (1 - c[3]) * ground[k]));
  const light = c => c.slice(0, 3).map(v => v / 255).map(v => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const ground = e => {
    if (!e) return getComputedStyle(document.documentElement).colorScheme.includes("dark") ? [18, 18, 18] : [255, 255, 255];
    const c = parse(getComputedStyle(e).backgroundColor);
    return c.length === 4 && c[3] === 0 ? ground(e.parentElement) : over(c, c.length === 4 ? ground(e.parentElement) : []);
  };
  const found = new Map();
  for (const e of document.querySelectorAll("body *")) {
    const text = [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.data.trim()).join(" ").trim();
    if (!text || !e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })) continue;
    if (e.closest("svg, math, mjx-container, script, style, option, [disabled], .sr-only, .visually-hidden")) continue;
    const behind = ground(e), front = over(parse(getComputedStyle(e).color), behind);
    const [a, b] = [light(front), light(behind)].sort((p, q) => q - p), contrast = (a + 0.05) / (b + 0.05);
    if (contrast < least) found.set(`${e.tagName.toLowerCase()}.${e.className}`, `${text.slice(0, 40)} has contrast ${contrast.toFixed(2)}`);
  }
  return [...found].map(([name, said]) => `${name}: ${said}`);
},

  /* ---- the explorer ---- */

  // Where a point is on the screen, from its number.
  place: i => {
  const box = document.getElementById("data").getBoundingClientRect(), v = data_view(), p = state.points[i];
  return [box.left + v.x + p.x1 * v.scale, box.top + v.y - p.x2 * v.scale]; },
  settled: () => !requested && !dirty.view && runs.size > 0 && [...state.shown].every(n => runs.get(n).stopped || runs.get(n).length > state.t),
  controls: () => [...document.querySelectorAll("main :is(button, select, input, canvas[tabindex], summary)")].map(e => e.id || e.tagName),
  plot_ends: () => [document.getElementById("data").getBoundingClientRect().bottom, innerHeight],
};

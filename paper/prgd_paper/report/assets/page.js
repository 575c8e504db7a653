(function () {
  "use strict";
  document.documentElement.classList.add("js");
  var SVG = "http://www.w3.org/2000/svg", REACH = 40, MAX_TICKS = 7;

  function make(name, attributes, parent) {
    var element = document.createElementNS(SVG, name);
    Object.keys(attributes).forEach(function (key) { element.setAttribute(key, attributes[key]); });
    parent.appendChild(element);
    return element;
  }

  // a path of a drawing as pieces of absolute points; "M x y l dx dy ..." is all that drawings use
  function pieces(d) {
    return d.split("M").slice(1).map(function (piece) {
      var n = piece.match(/-?(?:\d+\.?\d*|\.\d+)/g).map(Number), points = [[n[0], n[1]]];
      for (var k = 2; k + 1 < n.length; k += 2) {
        var last = points[points.length - 1];
        points.push([last[0] + n[k], last[1] + n[k + 1]]);
      }
      return points;
    });
  }

  function superscript(power) {
    return String(power).replace(/./g, function (c) { return c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)]; });
  }

  // ticks between two ends as pairs of value and label; on a logarithmic axis ends and values are powers of 10
  function ticks(low, high, isLog) {
    var found = [], k, step;
    if (isLog && high - low >= 1.5) {
      step = Math.max(1, Math.ceil((high - low) / (MAX_TICKS - 1)));
      for (k = Math.ceil(low - 1e-9); k <= high + 1e-9; k += 1) {
        if (k % step === 0) { found.push([k, "10" + superscript(k)]); }
      }
      return found;
    }
    if (isLog) {
      return ticks(Math.pow(10, low), Math.pow(10, high), false).filter(function (tick) { return tick[0] > 0; })
        .map(function (tick) { return [Math.log10(tick[0]), tick[1]]; });
    }
    var rough = (high - low) / (MAX_TICKS - 2), power = Math.pow(10, Math.floor(Math.log10(rough)));
    step = [1, 2, 5, 10].map(function (m) { return m * power; }).find(function (s) { return s >= rough * (1 - 1e-9); });
    var digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    var look = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    for (k = Math.ceil(low / step - 1e-9); k <= high / step + 1e-9; k += 1) {
      found.push([k * step, (k * step + 0).toLocaleString("en", look)]);
    }
    return found;
  }

  function short(value) {
    var size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) { return value.toExponential(2).replace(/\.?0+e/, "e"); }
    return Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });
  }

  // one drawing: zoom, and the name and the values of the point under the pointer or chosen by the arrow keys
  function setUpPlot(plot) {
    var marks = plot.querySelector(".marks"), frame = plot.querySelector(".frame"), panel = plot.parentElement;
    var w = marks.width.baseVal.value, h = marks.height.baseVal.value;
    var ends = plot.dataset.ends.split(" ").map(Number), isLog = plot.dataset.kinds.split(" ").map(function (k) { return k === "log"; });
    var unzoomed = frame.innerHTML;
    var box = [0, 0, w, h]; // the part of the drawing that is shown, in its own units
    var tip = document.createElement("div"), dot = null, chosen = null;
    tip.className = "tip";
    tip.setAttribute("role", "status");
    panel.appendChild(tip);
    plot.setAttribute("tabindex", "0");
    plot.setAttribute("role", "group");
    plot.setAttribute("aria-roledescription", "plot");
    plot.setAttribute("aria-description", "Arrow keys go through its points, plus and minus zoom, 0 shows all.");

    var paths = Array.from(marks.querySelectorAll("path")).map(function (path) {
      return { element: path, d: path.getAttribute("d"), pieces: pieces(path.getAttribute("d")), isClosed: path.matches(".band") };
    });
    var uses = Array.from(marks.querySelectorAll("use")).map(function (use) {
      var parts = use.getAttribute("transform").match(/translate\((\S+) (\S+?)\)(.*)/);
      return { element: use, point: [Number(parts[1]), Number(parts[2])], rest: parts[3] };
    });
    // whether each point of a piece is its end: the line does not go on to the next point there
    function lastOf(piece) { return piece.map(function (_, k) { return k + 1 === piece.length; }); }
    var curves = paths.filter(function (p) { return p.element.matches(".line"); })
      .map(function (p) { return { group: p.element.parentElement, points: p.pieces.flat(), isEnd: p.pieces.map(lastOf).flat() }; });
    Array.from(marks.children).forEach(function (group) {
      if (group.querySelector("path.line") || !group.querySelector("use")) { return; }
      var own = uses.filter(function (u) { return u.element.parentElement === group; });
      curves.push({ group: group, points: own.map(function (u) { return u.point; }), isEnd: own.map(function () { return true; }) });
    });

    function shown(point) { return [(point[0] - box[0]) * w / (box[2] - box[0]), (point[1] - box[1]) * h / (box[3] - box[1])]; }
    function values(point) {
      var x = ends[0] + point[0] / w * (ends[1] - ends[0]), y = ends[3] - point[1] / h * (ends[3] - ends[2]);
      return [x, y];
    }

    function zoom(to) {
      var isWhole = to[2] - to[0] >= w * 0.999 && to[3] - to[1] >= h * 0.999;
      if (to[2] - to[0] < w / 200 || to[3] - to[1] < h / 200) { return; }
      var width = Math.min(to[2] - to[0], w), height = Math.min(to[3] - to[1], h);
      var left = Math.min(Math.max(to[0], 0), w - width), top = Math.min(Math.max(to[1], 0), h - height);
      box = [left, top, left + width, top + height];
      plot.classList.toggle("zoomed", !isWhole);
      paths.forEach(function (path) {
        path.element.setAttribute("d", isWhole ? path.d : path.pieces.map(function (points) {
          return "M" + points.map(function (p) { return shown(p).map(function (v) { return v.toFixed(1); }).join(" "); }).join("L");
        }).join("") + (path.isClosed ? "z" : ""));
      });
      uses.forEach(function (use) {
        use.element.setAttribute("transform", "translate(" + shown(use.point).join(" ") + ")" + use.rest);
      });
      if (isWhole) { frame.innerHTML = unzoomed; } else { label(values([box[0], box[3]]), values([box[2], box[1]])); }
      forget();
    }

    function label(low, high) {
      frame.querySelectorAll(".x, .y").forEach(function (text) { text.remove(); });
      var grid = "";
      ticks(low[0], high[0], isLog[0]).forEach(function (tick) {
        var at = (tick[0] - low[0]) / (high[0] - low[0]) * w;
        grid += "M" + at + " 0v" + h;
        make("text", { "class": "x", x: at, y: h + 16 }, frame).textContent = tick[1];
      });
      ticks(low[1], high[1], isLog[1]).forEach(function (tick) {
        var at = h - (tick[0] - low[1]) / (high[1] - low[1]) * h;
        grid += "M0 " + at + "h" + w;
        make("text", { "class": "y", x: -6, y: at + 4 }, frame).textContent = tick[1];
      });
      frame.querySelector(".grid").setAttribute("d", grid);
    }

    function forget() {
      tip.textContent = "";
      if (dot) { dot.remove(); dot = null; }
    }

    function show(curve, point) {
      forget();
      var at = shown(point), value = values(point).map(function (v, k) { return isLog[k] ? Math.pow(10, v) : v; });
      dot = make("circle", { "class": "here", cx: at[0], cy: at[1], r: 5 }, marks);
      tip.textContent = curve.group.dataset.group + ": " + short(value[0]) + ", " + short(value[1]);
      var spot = dot.getBoundingClientRect(), frameBox = panel.getBoundingClientRect();
      var left = Math.min(spot.left - frameBox.left + 14, frameBox.width - tip.offsetWidth);
      tip.style.left = Math.max(left, 0) + "px";
      tip.style.top = spot.top - frameBox.top - tip.offsetHeight - 4 + "px";
    }

    // the nearest point of a curve: on a line it may lie between two vertices
    function nearest(at) {
      var best = { distance: REACH * REACH };
      curves.forEach(function (curve) {
        if (curve.group.classList.contains("off")) { return; }
        curve.points.forEach(function (p, k) {
          var next = curve.isEnd[k] ? p : curve.points[k + 1], a = shown(p), b = shown(next);
          var dx = b[0] - a[0], dy = b[1] - a[1], size = dx * dx + dy * dy;
          var share = size ? Math.min(1, Math.max(0, ((at[0] - a[0]) * dx + (at[1] - a[1]) * dy) / size)) : 0;
          var x = a[0] + share * dx, y = a[1] + share * dy;
          if (x < 0 || y < 0 || x > w || y > h) { return; }
          var distance = (x - at[0]) * (x - at[0]) + (y - at[1]) * (y - at[1]);
          if (distance < best.distance) {
            best = { distance: distance, curve: curve, point: [p[0] + share * (next[0] - p[0]), p[1] + share * (next[1] - p[1])] };
          }
        });
      });
      return best;
    }

    function name(at) {
      var found = nearest(at);
      if (found.curve) { show(found.curve, found.point); } else { forget(); }
    }

    function place(event) {
      var spot = new DOMPoint(event.clientX, event.clientY).matrixTransform(marks.getScreenCTM().inverse());
      return [spot.x, spot.y];
    }
    function inner(at) { return [box[0] + at[0] * (box[2] - box[0]) / w, box[1] + at[1] * (box[3] - box[1]) / h]; }

    var start = null, rubber = null;
    plot.addEventListener("pointerdown", function (event) {
      if (event.button !== 0) { return; }
      if (event.pointerType === "mouse" || plot.classList.contains("zoomed")) {
        start = { at: place(event), box: box, isMouse: event.pointerType === "mouse" };
        plot.setPointerCapture(event.pointerId);
      }
    });
    plot.addEventListener("pointermove", function (event) {
      var at = place(event);
      if (start && start.isMouse) {
        if (!rubber) { rubber = make("rect", { "class": "rubber" }, marks); }
        rubber.setAttribute("x", Math.min(at[0], start.at[0]));
        rubber.setAttribute("y", Math.min(at[1], start.at[1]));
        rubber.setAttribute("width", Math.abs(at[0] - start.at[0]));
        rubber.setAttribute("height", Math.abs(at[1] - start.at[1]));
        return;
      }
      if (start) { // a finger moves a drawing that is larger than its frame
        var dx = (start.at[0] - at[0]) * (box[2] - box[0]) / w, dy = (start.at[1] - at[1]) * (box[3] - box[1]) / h;
        zoom([start.box[0] + dx, start.box[1] + dy, start.box[2] + dx, start.box[3] + dy]);
        return;
      }
      name(at);
    });
    plot.addEventListener("pointerup", function (event) {
      var from = start, at = place(event);
      start = null;
      if (rubber) { rubber.remove(); rubber = null; }
      if (event.pointerType !== "mouse") { name(at); } // a finger has no other way to point
      if (from && from.isMouse && Math.abs(at[0] - from.at[0]) > 8 && Math.abs(at[1] - from.at[1]) > 8) {
        var a = inner(from.at), b = inner(at);
        zoom([Math.min(a[0], b[0]), Math.min(a[1], b[1]), Math.max(a[0], b[0]), Math.max(a[1], b[1])]);
      }
    });
    // a browser that takes a gesture over, for scrolling, ends it without a pointerup
    plot.addEventListener("pointercancel", function () {
      start = null;
      if (rubber) { rubber.remove(); rubber = null; }
    });
    plot.addEventListener("pointerleave", function (event) { if (event.pointerType === "mouse") { forget(); } });
    plot.addEventListener("blur", forget);
    plot.addEventListener("dblclick", function () { zoom([0, 0, w, h]); });

    function scale(factor) {
      var x = (box[0] + box[2]) / 2, y = (box[1] + box[3]) / 2;
      var dx = factor * (box[2] - box[0]) / 2, dy = factor * (box[3] - box[1]) / 2;
      zoom([x - dx, y - dy, x + dx, y + dy]);
    }
    function whole() { zoom([0, 0, w, h]); }

    function walk(curveStep, pointStep) {
      var there = curves.filter(function (curve) { return !curve.group.classList.contains("off"); });
      if (!there.length) { return; }
      var k = chosen ? Math.max(there.indexOf(chosen.curve), 0) : 0;
      k = (k + curveStep + there.length) % there.length;
      var n = there[k].points.length, first = curveStep || !chosen ? 0 : chosen.index + pointStep;
      chosen = { curve: there[k], index: Math.min(Math.max(first, 0), n - 1) };
      show(chosen.curve, chosen.curve.points[chosen.index]);
    }
    var actions = {
      ArrowRight: function () { walk(0, 1); }, ArrowLeft: function () { walk(0, -1); },
      ArrowDown: function () { walk(1, 0); }, ArrowUp: function () { walk(-1, 0); },
      "+": function () { scale(0.5); }, "-": function () { scale(2); }, "0": whole, Escape: whole
    };
    plot.addEventListener("keydown", function (event) {
      if (actions[event.key] && !event.ctrlKey && !event.metaKey) { event.preventDefault(); actions[event.key](); }
    });

    var tools = document.createElement("div");
    tools.className = "zoom";
    [["+", "Zoom in", actions["+"]], ["−", "Zoom out", actions["-"]], ["all", "Show all", whole]].forEach(function (tool) {
      var button = document.createElement("button");
      button.type = "button";
      button.textContent = tool[0];
      button.title = tool[1];
      button.setAttribute("aria-label", tool[1]);
      button.addEventListener("click", tool[2]);
      tools.appendChild(button);
    });
    panel.appendChild(tools);
  }

  function setUpKeys(figure) {
    figure.querySelectorAll(".key").forEach(function (key) {
      key.addEventListener("click", function () {
        var show = key.getAttribute("aria-pressed") !== "true";
        key.setAttribute("aria-pressed", String(show));
        figure.querySelectorAll(".marks > g").forEach(function (group) {
          if (group.dataset.group === key.dataset.group) { group.classList.toggle("off", !show); }
        });
      });
    });
  }

  // files travel inside the page, compressed: the link beside the report works too, where there is no script
  function setUpFile(link) {
    var file = document.getElementById("file-" + link.dataset.file), ready = null;
    if (!file || !("DecompressionStream" in window)) { return; }

    function prepare() {
      if (ready) { return ready; }
      var bytes = Uint8Array.from(atob(file.textContent), function (c) { return c.charCodeAt(0); });
      var stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      ready = new Response(stream).blob().then(function (blob) {
        link.href = URL.createObjectURL(new Blob([blob], { type: file.dataset.type }));
        link.dataset.ready = "yes";
      });
      return ready;
    }
    // unpacked before the click, so that the click itself downloads: no browser asks twice about that
    ["pointerenter", "focus", "touchstart"].forEach(function (name) {
      link.addEventListener(name, prepare, { passive: true });
    });
    link.addEventListener("click", function (event) {
      if (link.dataset.ready) { return; }
      event.preventDefault();
      prepare().then(function () { link.click(); });
    });
  }

  // a table that is wider than the screen says so
  function cue() {
    document.querySelectorAll(".wide").forEach(function (wide) {
      var scroll = wide.querySelector(".scroll");
      wide.classList.toggle("overflows", scroll.scrollWidth > scroll.clientWidth + 1);
    });
  }

  // Without scripts all is open. With them a reader sees a page that is short, and opens what is of interest.
  function setUpFolds() {
    var folds = Array.from(document.querySelectorAll("details.fold")), all = document.getElementById("unfold"), kept = null;
    function fold(isOpen) {
      folds.forEach(function (each) { each.open = isOpen; });
      all.setAttribute("aria-pressed", String(isOpen));
      all.textContent = isOpen ? "Fold all" : "Open all";
    }
    function reveal() { // what an address names
      var target = document.getElementById(decodeURIComponent(location.hash.slice(1))), at = target;
      while (at && at.parentElement) {
        if (at.matches("details")) { at.open = true; }
        at = at.parentElement;
      }
      if (target) { target.scrollIntoView(); }
    }
    all.hidden = false;
    all.addEventListener("click", function () { fold(all.getAttribute("aria-pressed") !== "true"); });
    folds.forEach(function (each) { each.addEventListener("toggle", cue); });
    matchMedia("print").addEventListener("change", function (event) {
      if (event.matches) { kept = folds.filter(function (each) { return each.open; }); fold(true); }
      else if (kept) { folds.forEach(function (each) { each.open = kept.indexOf(each) >= 0; }); }
    });
    if (!matchMedia("print").matches) { fold(false); }
    window.addEventListener("hashchange", reveal);
    reveal();
  }

  // The switch of the site around the page, or of another page of the site. A page alone follows the system.
  function follow() {
    var mode = null;
    try { mode = localStorage.getItem("mode"); } catch (error) { /* the browser keeps nothing for this page */ }
    document.documentElement.dataset.theme = mode === "light" || mode === "dark" ? mode : "";
  }

  follow();
  window.addEventListener("storage", follow);
  document.querySelectorAll("figure.plots").forEach(setUpKeys);
  document.querySelectorAll(".plot[data-ends]").forEach(setUpPlot);
  document.querySelectorAll("a[data-file]").forEach(setUpFile);
  setUpFolds();
  cue();
  window.addEventListener("resize", cue);
})();

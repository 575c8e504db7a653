(function () {
  "use strict";
  document.documentElement.classList.add("js");
  // on a touch screen a drag scrolls the page; the buttons of a plot still zoom
  var touch = window.matchMedia("(pointer: coarse)").matches;
  // some versions of Plotly have a button that sends the plot to a server: nothing leaves this page
  var config = { responsive: true, displaylogo: false, scrollZoom: false, showSendToCloud: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "sendChartToCloud", "sendDataToCloud"] };

  function hasWebGL() {
    try {
      var canvas = document.createElement("canvas");
      return Boolean(window.WebGLRenderingContext && canvas.getContext("webgl"));
    } catch (error) { return false; }
  }

  function setUp(figure) {
    var specs = JSON.parse(figure.querySelector("script.spec").textContent);
    var plots = Array.from(figure.querySelectorAll(".plot"));
    var hidden = new Set();
    var picture = figure.querySelector(".static-picture");
    var toggle = figure.querySelector(".toggle");

    function showPicture(shown) {
      picture.classList.toggle("shown", shown);
      toggle.setAttribute("aria-expanded", String(shown));
      toggle.textContent = shown ? "Hide the static picture" : "Show the static picture";
    }
    toggle.addEventListener("click", function () { showPicture(!picture.classList.contains("shown")); });

    function visible(trace) { return !hidden.has(trace.legendgroup); }

    function draw(k) {
      var plot = plots[k], spec = specs[k];
      if (plot.dataset.drawn) { return; }
      plot.dataset.drawn = "yes";
      if (spec.layout.scene && !hasWebGL()) {
        plot.textContent = "This panel needs WebGL, which this browser does not offer: see the static picture.";
        plot.style.height = "auto";
        showPicture(true);
        return;
      }
      var layout = Object.assign({}, spec.layout, { autosize: true });
      if (touch && !spec.layout.scene) {
        layout.dragmode = false;
        layout.margin = Object.assign({}, layout.margin, { t: 38 }); // the buttons are always there
      }
      var data = spec.data.map(function (trace) { return Object.assign({}, trace, { visible: visible(trace) }); });
      window.Plotly.newPlot(plot, data, layout, config);
    }

    figure.querySelectorAll(".key").forEach(function (key) {
      key.addEventListener("click", function () {
        var group = key.dataset.group, show = key.getAttribute("aria-pressed") !== "true";
        key.setAttribute("aria-pressed", String(show));
        if (show) { hidden.delete(group); } else { hidden.add(group); }
        plots.forEach(function (plot) {
          if (!plot.data) { return; }
          var traces = [];
          plot.data.forEach(function (trace, i) { if (trace.legendgroup === group) { traces.push(i); } });
          if (traces.length) { window.Plotly.restyle(plot, { visible: show }, traces); }
        });
      });
    });

    if (!("IntersectionObserver" in window)) { plots.forEach(function (_, k) { draw(k); }); return; }
    var observer = new IntersectionObserver(function (entries) {
      entries.forEach(function (entry) {
        if (entry.isIntersecting) { observer.unobserve(entry.target); draw(plots.indexOf(entry.target)); }
      });
    }, { rootMargin: "600px" });
    plots.forEach(function (plot) { observer.observe(plot); });
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

  document.querySelectorAll("figure.plots").forEach(setUp);
  document.querySelectorAll("a[data-file]").forEach(setUpFile);
})();

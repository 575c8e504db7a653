// The theme's buttons that unfold a section of the sidebar have an arrow alone: say what each unfolds.
document.addEventListener("DOMContentLoaded", () => {
  for (const summary of document.querySelectorAll("nav .has-children > details > summary"))
    summary.ariaLabel = `Pages of ${summary.closest("li").querySelector("a").innerText}`;
});

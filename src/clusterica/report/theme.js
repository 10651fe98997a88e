// A button between light and dark. Without a choice the page is as the system of the reader is set.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const remembered = (() => {
    try { return localStorage.getItem("clusterica-theme"); } catch { return null; } // not allowed: fine
  })();
  if (remembered) root.dataset.theme = remembered;

  addEventListener("DOMContentLoaded", () => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "theme";
    const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
    const show = () => {
      button.textContent = isDark() ? "☀" : "☾";
      button.setAttribute("aria-label", isDark() ? "Light colours" : "Dark colours");
      button.title = button.getAttribute("aria-label");
    };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem("clusterica-theme", root.dataset.theme); } catch { /* not remembered */ }
      show();
    });
    system.addEventListener("change", show);
    show();
    document.body.prepend(button);
  });
})();

// Light, dark, or as the system says ("auto"). Runs before the page is painted, so that it does not flash in the other theme.
(() => {
  const KEY = "warmgate.theme";
  const NEXT = { auto: "dark", dark: "light", light: "auto" };
  const root = document.documentElement;

  function stored() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // a browser that keeps nothing for this site
    }
  }

  function apply(theme) {
    root.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) button.textContent = `Theme: ${theme}`;
  }

  function turn() {
    const theme = NEXT[root.dataset.theme];
    apply(theme);
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // it holds until the page is left
    }
  }

  const first = stored();
  apply(first in NEXT ? first : "auto");
  document.addEventListener("DOMContentLoaded", () => {
    apply(root.dataset.theme);
    document.getElementById("theme").addEventListener("click", turn);
  });
})();

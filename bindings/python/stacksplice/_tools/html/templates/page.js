"use strict";
(() => {
  const all = (selector) => Array.from(document.querySelectorAll(selector));
  const frames = all(".frame");
  let current = -1;

  const isFolded = (frame) => frame.parentElement.closest("details:not([open])") !== null;

  function go(step) {
    const focused = frames.indexOf(document.activeElement.closest(".frame"));
    let next = (focused < 0 ? current : focused) + step;
    while (next >= 0 && next < frames.length && isFolded(frames[next])) next += step;
    if (next < 0 || next >= frames.length) return;
    current = next;
    frames[next].focus({ preventScroll: true });
    frames[next].scrollIntoView({ block: "nearest" });
  }

  function openAll(open) {
    for (const details of all("details")) details.open = open;
  }

  const keys = {
    j: () => go(1), n: () => go(1), k: () => go(-1), p: () => go(-1),
    e: () => openAll(true), c: () => openAll(false),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });
  for (const button of all("button[data-open]")) {
    button.addEventListener("click", () => openAll(button.dataset.open === "yes"));
  }
  for (const button of all("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const text = button.closest("article").querySelector(".plain");
      text.closest("details").open = true; // what is folded cannot be selected
      getSelection().selectAllChildren(text);
      button.textContent = document.execCommand("copy") ? "copied" : "selected: press Ctrl+C";
    });
  }
  for (const button of all("button[data-dark]")) {
    button.addEventListener("click", () => {
      const { dataset } = document.documentElement;
      const isDark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      dataset.theme = isDark ? "light" : "dark";
    });
  }
  for (const tools of all(".tools")) tools.hidden = false;

  // Paper cannot be unfolded; the inside of interpreters and libraries stays as it is.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details:not([open]):not(.glue):not(.library):not(.repeat)");
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });
})();

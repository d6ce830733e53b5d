
"use strict";
(() => {
  const get = (id) => document.getElementById(id);
  const root = document.documentElement;
  const articles = [...document.querySelectorAll("article")];
  const texts = new Map();
  const opened = new Set();
  let hits = [];
  let at = -1;
  let found = [];
  let inner = 0;
  const text = (article) => {
    if (!texts.has(article)) texts.set(article, article.textContent.toLowerCase());
    return texts.get(article);
  };

  const colour = (article, query) => {
    found = [];
    const nodes = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
    for (let node = nodes.nextNode(); node && found.length < 500; node = nodes.nextNode()) {
      const lower = node.data.toLowerCase();
      if (lower.length !== node.data.length) continue;
      for (let i = lower.indexOf(query); i >= 0; i = lower.indexOf(query, i + query.length)) {
        const range = new Range();
        range.setStart(node, i);
        range.setEnd(node, i + query.length);
        found.push(range);
      }
    }
    found = found.filter((range) => range.getClientRects().length);
    if (CSS.highlights) CSS.highlights.set("found", new Highlight(...found));
  };

  // Output scrolls in a box of its own: first there, then the page.
  const aim = (range) => {
    if (CSS.highlights) {
      const here = new Highlight(range);
      here.priority = 1;
      CSS.highlights.set("here", here);
    }
    const box = range.startContainer.parentElement.closest("pre");
    if (box) {
      const place = range.getBoundingClientRect();
      const frame = box.getBoundingClientRect();
      if (place.top < frame.top || place.bottom > frame.bottom) {
        box.scrollTop += place.top - frame.top - frame.height / 3;
      }
      if (place.left < frame.left || place.right > frame.right) {
        box.scrollLeft += place.left - frame.left - frame.width / 3;
      }
    }
    const place = range.getBoundingClientRect();
    const top = get("bar").getBoundingClientRect().bottom;
    if (place.top < top || place.bottom > innerHeight) scrollBy(0, place.top - innerHeight / 3);
  };

  const unfold = (article, query) => {
    for (const details of article.querySelectorAll("details:not([open])")) {
      if (details.textContent.toLowerCase().includes(query)) {
        details.open = true;
        opened.add(details);
      }
    }
  };

  const tell = (query) => {
    const records = hits.length === 1 ? "record" : "records";
    get("found").textContent = !query
      ? ""
      : hits.length
        ? `${at + 1} of ${hits.length} ${records}`
        : "nothing";
  };

  const go = (to, back) => {
    const query = get("find").value.trim().toLowerCase();
    if (!query || !hits.length) return;
    at = (to + hits.length) % hits.length;
    const article = hits[at];
    unfold(article, query);
    colour(article, query);
    article.scrollIntoView({ block: "start" });
    inner = back ? found.length - 1 : 0;
    if (found[inner]) aim(found[inner]);
    tell(query);
  };

  // From match to match; behind the last one of a record comes the next record.
  const step = (by) => {
    if (at < 0 || !found[inner + by]) return go(at + by, by < 0);
    inner += by;
    aim(found[inner]);
  };

  const search = () => {
    const query = get("find").value.trim().toLowerCase();
    for (const details of opened) details.open = false;
    opened.clear();
    if (CSS.highlights) for (const name of ["found", "here"]) CSS.highlights.delete(name);
    found = [];
    hits = query ? articles.filter((article) => text(article).includes(query)) : [];
    const kept = new Set(hits);
    for (const article of articles) article.classList.toggle("missed", Boolean(query) && !kept.has(article));
    at = -1;
    tell(query);
    if (hits.length) go(0);
  };

  let timer = 0;
  get("find").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, 200);
  });
  get("find").addEventListener("keydown", (event) => {
    if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") {
      get("find").value = "";
      search();
    }
  });
  get("next").addEventListener("click", () => step(1));
  get("prev").addEventListener("click", () => step(-1));
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement === document.body) {
      event.preventDefault();
      get("find").focus();
    }
  });

  for (const box of document.querySelectorAll("[data-hides]")) {
    const name = box.dataset.hides;
    box.addEventListener("change", () => document.body.classList.toggle(`hide-${name}`, !box.checked));
    if (name === "off" && !document.querySelector(".off")) box.parentElement.hidden = true;
  }

  let all = false;
  get("unfold").addEventListener("click", () => {
    all = !all;
    for (const details of document.querySelectorAll("article details")) details.open = all;
    get("unfold").textContent = all ? "Fold all" : "Unfold all";
  });

  const themes = ["", "light", "dark"];
  const names = { "": "Theme: system", light: "Theme: light", dark: "Theme: dark" };
  const stored = () => {
    try {
      return localStorage.getItem("segno-theme") || "";
    } catch {
      return "";
    }
  };
  const show = (theme) => {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    get("theme").textContent = names[theme];
  };
  let theme = themes.includes(stored()) ? stored() : "";
  show(theme);
  get("theme").addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    show(theme);
    try {
      localStorage.setItem("segno-theme", theme);
    } catch {
      // The page is open without a place of its own; the choice lasts as long as it is.
    }
  });

  const reveal = () => {
    const target = location.hash && get(location.hash.slice(1));
    if (target) for (const details of target.querySelectorAll("details")) details.open = true;
  };
  addEventListener("hashchange", reveal);
  reveal();
  get("bar").hidden = false;
})();

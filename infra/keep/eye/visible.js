((most, marks, shells) => {
  // The part of the document that is laid out and can be seen, as HTML; it runs in a world of its own, so nothing here
  // is the page's but the elements. What hides by a colour like its ground's, or under something else, is not told.
  const out = [];
  let left = most, hidden = 0, words = 0;
  const put = (words) => {
    if (left > 0) out.push(words.slice(0, left));
    left -= words.length;
  };
  const escaped = (words) => words.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const skipped = new Set(["SCRIPT", "STYLE", "TEMPLATE", "NOSCRIPT", "HEAD", "META", "LINK", "IFRAME", "OBJECT", "EMBED"]);
  const kept = { A: "href", IMG: "src alt", TD: "colspan rowspan", TH: "colspan rowspan", OL: "start" };
  const wide = Math.max(document.documentElement.scrollWidth, innerWidth);
  const high = Math.max(document.documentElement.scrollHeight, innerHeight);
  const clear = (color) => color === "transparent" || /^rgba\(.*, 0\)$/.test(color);
  const stands = (rect) =>
    rect.width > 1 && rect.height > 1 && rect.right + scrollX > 0 && rect.bottom + scrollY > 0 &&
    rect.left + scrollX < wide && rect.top + scrollY < high;
  const cut = (style, rect) =>
    (style.clip !== "auto" && style.position === "absolute" && /^rect\((\S+), (\S+), \1, \2\)$/.test(style.clip)) ||
    /^inset\((50|100)%/.test(style.clipPath) || (style.overflow !== "visible" && (rect.width <= 1 || rect.height <= 1));
  const range = document.createRange();
  const walk = (node, style, depth) => {
    if (left < 0 || depth > 400) return;
    if (node.nodeType === 3) {
      if (!node.data.trim()) return put(node.data ? " " : "");
      range.selectNodeContents(node);
      const shows = parseFloat(style.fontSize) >= 2 && !clear(style.webkitTextFillColor || style.color) &&
        style.visibility === "visible" && [...range.getClientRects()].some(stands);
      if (shows) {
        put(escaped(node.data));
        words += node.data.trim().split(/\s+/).length;
      } else hidden += node.data.trim().length;
      return;
    }
    if (node.nodeType !== 1 || skipped.has(node.tagName.toUpperCase())) return;
    const own = getComputedStyle(node);
    if (own.display !== "contents" &&
        (!node.checkVisibility() || parseFloat(own.opacity) < 0.05 || cut(own, node.getBoundingClientRect()))) {
      hidden += (node.textContent || "").trim().length;
      return;
    }
    const name = node.tagName.toLowerCase().replace(/[^a-z0-9]/g, "") || "div";
    const attributes = (kept[node.tagName] || "").split(" ").filter(Boolean).map((word) => {
      const value = word === "href" || word === "src" ? node[word] : node.getAttribute(word);
      return typeof value === "string" && value && value.length < 8192 ? ` ${word}="${escaped(value)}"` : "";
    });
    put(`<${name}${attributes.join("")}>`);
    if (name === "input" && node.type !== "password" || name === "textarea" || name === "select") put(escaped(String(node.value || node.placeholder || "").slice(0, 1000)));
    else {
      const within = node.shadowRoot ? node.shadowRoot.childNodes : name === "slot" && node.assignedNodes().length ? node.assignedNodes() : node.childNodes;
      const shut = name === "details" && !node.open;
      for (const child of within) if (!shut || child.nodeName === "SUMMARY") walk(child, own, depth + 1);
    }
    put(`</${name}>`);
  };
  const root = document.body || document.documentElement;
  if (root) walk(root, getComputedStyle(root), 0);
  const signals = {
    words,
    scripts: document.scripts.length,
    marks: marks.filter((each) => document.querySelector(each)).length,
    is_shell: document.querySelector(shells) !== null,
  };
  const title = escaped(document.title.slice(0, 1000));
  const notes = left < 0 ? ["the end of a long page"] : [];
  if (hidden) notes.push(`${hidden} characters that no reader sees`);
  return { html: `<!doctype html><title>${title}</title>${out.join("")}`, notes, signals };
})

((most, marks, shells) => {
  // The part of the document that is laid out and can be seen, as HTML; it runs in a world of its own, so nothing here
  // is the page's but the elements. What hides by a colour like its ground's, or under something else, is not told.
  // A form has its fields, and a document some of its elements, as properties by their names, before its own: what is
  // asked of either is asked of its prototype.
  const out = [];
  const of = (kind, node, name, ...given) => {
    const found = Reflect.get(kind.prototype, name, node);
    return typeof found === "function" ? found.apply(node, given) : found;
  };
  const page = (name, ...given) => of(Document, document, name, ...given);
  let left = most, hidden = 0, words = 0;
  const put = (words) => {
    if (left > 0) out.push(words.slice(0, left));
    left -= words.length;
  };
  const escaped = (words) => words.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const skipped = new Set(["SCRIPT", "STYLE", "TEMPLATE", "NOSCRIPT", "HEAD", "META", "LINK", "IFRAME", "OBJECT", "EMBED"]);
  const kept = { A: "href", IMG: "src alt", TD: "colspan rowspan", TH: "colspan rowspan", OL: "start" };
  const top = page("documentElement");
  const wide = Math.max(top ? of(Element, top, "scrollWidth") : 0, innerWidth);
  const high = Math.max(top ? of(Element, top, "scrollHeight") : 0, innerHeight);
  const clear = (color) => color === "transparent" || /^rgba\(.*, 0\)$/.test(color);
  const stands = (rect) =>
    rect.width > 1 && rect.height > 1 && rect.right + scrollX > 0 && rect.bottom + scrollY > 0 &&
    rect.left + scrollX < wide && rect.top + scrollY < high;
  const cut = (style, rect) =>
    (style.clip !== "auto" && style.position === "absolute" && /^rect\((\S+), (\S+), \1, \2\)$/.test(style.clip)) ||
    /^inset\((50|100)%/.test(style.clipPath) || (style.overflow !== "visible" && (rect.width <= 1 || rect.height <= 1));
  const range = page("createRange");
  const walk = (node, style, depth) => {
    if (left < 0 || depth > 400) return;
    const kind = of(Node, node, "nodeType");
    if (kind === 3) {
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
    if (kind !== 1) return;
    const own = (name, ...given) => of(Element, node, name, ...given);
    const tag = own("tagName");
    if (skipped.has(tag.toUpperCase())) return;
    const laid = getComputedStyle(node);
    if (laid.display !== "contents" &&
        (!own("checkVisibility") || parseFloat(laid.opacity) < 0.05 || cut(laid, own("getBoundingClientRect")))) {
      hidden += (own("textContent") || "").trim().length;
      return;
    }
    const name = tag.toLowerCase().replace(/[^a-z0-9]/g, "") || "div";
    const attributes = (kept[tag] || "").split(" ").filter(Boolean).map((word) => {
      const value = word === "href" || word === "src" ? node[word] : own("getAttribute", word);
      return typeof value === "string" && value && value.length < 8192 ? ` ${word}="${escaped(value)}"` : "";
    });
    put(`<${name}${attributes.join("")}>`);
    if (name === "input" && node.type !== "password" || name === "textarea" || name === "select") put(escaped(String(node.value || node.placeholder || "").slice(0, 1000)));
    else {
      const shadow = own("shadowRoot"), assigned = tag === "SLOT" ? node.assignedNodes() : [];
      const within = shadow ? shadow.childNodes : assigned.length ? assigned : own("childNodes");
      const shut = tag === "DETAILS" && !node.open;
      for (const child of within) if (!shut || of(Node, child, "nodeName") === "SUMMARY") walk(child, laid, depth + 1);
    }
    put(`</${name}>`);
  };
  const root = page("body") || top;
  if (root) walk(root, getComputedStyle(root), 0);
  const signals = {
    words,
    scripts: page("scripts").length,
    marks: marks.filter((each) => page("querySelector", each)).length,
    is_shell: page("querySelector", shells) !== null,
  };
  const title = escaped(page("title").slice(0, 1000));
  const notes = left < 0 ? ["the end of a long page"] : [];
  if (hidden) notes.push(`${hidden} characters that no reader sees`);
  return { html: `<!doctype html><title>${title}</title>${out.join("")}`, notes, signals };
})

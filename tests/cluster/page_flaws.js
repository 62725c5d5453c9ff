() => {
  // What would keep somebody from using the page, as sentences. Colours are those that the browser computed.
  const flaws = [];
  const seen = (node) => { const box = node.getBoundingClientRect(); return box.width > 0 && box.height > 0 && box.right > 0; };
  const numbers = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = numbers(getComputedStyle(at).backgroundColor);
      if (colour.length && (colour.length < 4 || colour[3] === 1)) return colour;
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !seen(node) || node.closest("title, desc")) continue;
    const style = getComputedStyle(node);
    const [a, b] = [light(numbers(node.closest("svg") ? style.fill : style.color)), light(ground(node))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) flaws.push(`"${walker.currentNode.data.trim().slice(0, 40)}" has a contrast of ${contrast.toFixed(2)} only`);
  }
  for (const line of document.querySelectorAll("svg .estimate, svg .threshold, svg .bound")) {
    const [a, b] = [light(numbers(getComputedStyle(line).stroke)), light(ground(line))];
    if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 3) flaws.push(`a line of a plot can hardly be seen: ${line.getAttribute("class")}`);
  }
  if (document.documentElement.lang !== "en") flaws.push("the language of the page is not said");
  if (!document.title.trim()) flaws.push("the page has no title");
  for (const [selector, what] of [["main", "main part"], ["header", "header"], ["footer", "footer"], ["h1", "heading of the first level"]])
    if (document.querySelectorAll(selector).length !== 1) flaws.push(`there is not exactly one ${what}`);
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
    const own = Number(heading.tagName[1]);
    if (own > level + 1) flaws.push(`the heading "${heading.textContent}" skips a level`);
    level = own;
  }
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  for (const id of ids.filter((id, k) => ids.indexOf(id) !== k)) flaws.push(`the id ${id} is there twice`);
  for (const node of document.querySelectorAll("[aria-labelledby], [aria-describedby]"))
    for (const id of `${node.getAttribute("aria-labelledby") || ""} ${node.getAttribute("aria-describedby") || ""}`.split(" ").filter(Boolean))
      if (!document.getElementById(id)) flaws.push(`${node.tagName} is named by ${id}, which is not there`);
  for (const node of document.querySelectorAll("a, button, summary")) if (!node.textContent.trim()) flaws.push(`a ${node.tagName} has no name`);
  for (const node of document.querySelectorAll("input:not([type=hidden])")) if (!node.labels.length) flaws.push(`the field ${node.name} has no label`);
  for (const table of document.querySelectorAll("table")) {
    if (!table.caption || !table.caption.textContent.trim()) flaws.push("a table has no caption");
    for (const cell of table.querySelectorAll("th")) if (!cell.scope) flaws.push(`the header "${cell.textContent}" has no scope`);
  }
  for (const node of document.querySelectorAll("svg"))
    if (node.getAttribute("role") !== "img" || !node.querySelector("title") || !node.querySelector("desc")) flaws.push("a plot has no name or description");
  for (const node of document.querySelectorAll("[class*=scroll]")) if (node.tabIndex !== 0) flaws.push("what scrolls can't be reached by the keyboard");
  for (const node of document.querySelectorAll(".status")) if (!/[a-z]/.test(node.textContent)) flaws.push("a state is told without a word");
  return flaws;
}

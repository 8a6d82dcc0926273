// Tables of class "sortable": a click on a column's head sorts by it, a second click the other way.
document.querySelectorAll("table.sortable th").forEach((head) => {
  head.tabIndex = 0;
  head.addEventListener("click", () => {
    const falling = head.getAttribute("aria-sort") === "ascending";
    head.parentNode.querySelectorAll("th").forEach((th) => th.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", falling ? "descending" : "ascending");
    const body = head.closest("table").tBodies[0];
    const key = (row) => row.cells[head.cellIndex].textContent;
    const rows = [...body.rows].sort((a, b) => {
      if (!key(a) || !key(b)) return !key(a) - !key(b); // empty cells last, in both directions
      return (falling ? -1 : 1) * key(a).localeCompare(key(b), undefined, { numeric: true });
    });
    body.append(...rows);
  });
  head.addEventListener("keydown", (event) => event.key === "Enter" && head.click());
});
// Above a table of class "searchable" stands a field: rows without each of its words are hidden.
document.querySelectorAll("table.searchable").forEach((table) => {
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = "Search: hessian trace, chen2026, layer ...";
  field.setAttribute("aria-label", "Search this table");
  table.parentNode.before(field);
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
});
// The gallery: lists of papers, quantities and verdicts, which show only the pictures that have them.
const pictures = [...document.querySelectorAll(".picture")];
const filters = document.createElement("p");
const show = () => pictures.forEach((picture) => {
  const lists = [...filters.children];
  picture.hidden = !lists.every((list) => !list.value || picture.classList.contains(list.value));
});
for (const kind of pictures.length ? ["paper", "quantity", "verdict"] : []) {
  const list = document.createElement("select");
  const classes = pictures.flatMap((picture) => [...picture.classList]);
  const known = [...new Set(classes)].filter((name) => name.startsWith(`${kind}-`)).sort();
  const words = (name) => name.slice(kind.length + 1).replaceAll("-", " ");
  list.append(new Option(`every ${kind}`, ""), ...known.map((name) => new Option(words(name), name)));
  list.setAttribute("aria-label", kind);
  list.addEventListener("change", show);
  filters.append(list, " ");
}
if (pictures.length) document.querySelector("h1 + p").after(filters);

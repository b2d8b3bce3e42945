// The page: asks /v1/query as a stream, shows what comes, and opens documents at the units that were cited.
// Whatever comes from documents or the model is put in as text, never as markup.

const $ = (id) => document.getElementById(id);

/** An element with attributes and children; strings become text. */
function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== undefined && child !== null));
  return node;
}

// ------------------------------------------------------------------ the service

const TOKEN = "mrag-token";

/** A request with the token of this tab; a refusal becomes an Error with the service's own sentence. */
async function ask(path, body, signal) {
  const headers = { Accept: "application/json, text/event-stream" };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  const options = { method: body ? "POST" : "GET", headers, signal, body: body && JSON.stringify(body) };
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    throw error.name === "AbortError" ? error : new Error("The service can't be reached: is it running?");
  }
  $("sign-in").hidden = response.status !== 401;
  if (response.ok) return response;
  throw new Error(sentence(await response.json().catch(() => null)) ?? `The service answered ${response.status}.`);
}

const sentence = (told) => told?.error?.message;

/** The events of a stream, as [name, data], in order. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (waiting + value).split("\n\n");
    waiting = parts.pop();
    for (const part of parts) {
      const field = (name) => part.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      if (field("event")) yield [field("event"), JSON.parse(field("data"))];
    }
  }
}

// ------------------------------------------------------------------ asking

let running = null;
let answered = null;

const DOING = { "": "Searching…", retrieve: "Selecting candidates…", select: "Extracting evidence…", extract: "Writing the answer…" };

async function submit(event) {
  event.preventDefault();
  running?.abort();
  const mine = (running = new AbortController());
  const asked = { question: $("question").value, reader: $("reader").value || undefined, ...chosenCollection() };
  start();
  try {
    const response = await ask("v1/query", { ...asked, stream: true, trace: true }, mine.signal);
    let told = false;
    for await (const [name, data] of events(response)) {
      if (name === "stage") stage(data);
      else if (name === "text") $("answer").textContent += data.text;
      else if (name === "error") throw new Error(sentence(data));
      else if (name === "answer") { show(asked, data); told = true; }
    }
    if (!told) throw new Error("The answer broke off: ask again.");
  } catch (error) {
    if (mine !== running) return;
    if (error.name === "AbortError") $("status").textContent = "Stopped.";
    else fail("error", error);
  } finally {
    if (mine === running) finish();
  }
}

function start() {
  for (const id of ["stages", "answer", "notes", "rows", "context-text", "sources", "candidates"]) $(id).replaceChildren();
  for (const id of ["error", "evidence", "context", "source-list"]) $(id).hidden = true;
  answered = null;
  $("pool").open = false;
  $("pool").hidden = true;
  $("result").hidden = false;
  $("result").setAttribute("aria-busy", "true");
  $("status").textContent = DOING[""];
  $("stop").hidden = false;
}

function finish() {
  running = null;
  $("stop").hidden = true;
  $("result").removeAttribute("aria-busy");
}

function fail(id, error) {
  $("status").textContent = "";
  $(id).textContent = error.message;
  $(id).hidden = false;
}

function stage({ stage, seconds, usage }) {
  const calls = usage.calls ? `, ${usage.calls} call${usage.calls > 1 ? "s" : ""}, ${usage.prompt_tokens} + ${usage.completion_tokens} tokens` : "";
  $("stages").append(el("li", {}, `${stage} ${seconds.toFixed(1)} s${calls}`));
  $("status").textContent = DOING[stage] ?? "";
}

// ------------------------------------------------------------------ the answer

function show(asked, answer) {
  answered = { asked, answer };
  $("status").textContent = "";
  $("answer").replaceChildren(answer.text || "There is no answer.", ...answer.citations.flatMap(footnote));
  $("notes").replaceChildren(...answer.notes.map((note) => el("li", {}, note)));
  if (answer.evidence?.rows.length) evidence(answer);
  if (answer.context) {
    $("context").hidden = false;
    $("context-text").textContent = answer.context.text;
  }
  $("source-list").hidden = !answer.sources.length;
  $("sources").replaceChildren(...answer.sources.map((source) => el("li", {}, sourceLink(source))));
  $("pool").hidden = false;
}

function footnote(number) {
  const link = el("a", { href: `#row-${number}`, "aria-label": `Row ${number} of the evidence` }, `[${number}]`);
  link.addEventListener("click", (event) => {
    event.preventDefault();
    $(`row-${number}`).focus();
  });
  return [" ", link];
}

function evidence({ evidence: table, citations }) {
  const head = el("tr", {}, ...["", ...table.columns, "Quote", "Verdict", "Source"].map((name) => el("th", { scope: "col" }, name)));
  const rows = table.rows.map((row, index) => {
    const cited = citations.includes(index + 1);
    return el(
      "tr", { id: `row-${index + 1}`, tabindex: "-1", class: cited && "cited" },
      el("th", { scope: "row" }, String(index + 1)),
      ...table.columns.map((name) => el("td", {}, row.cells[name] ?? "")),
      el("td", { class: "quote" }, row.derivation ? `${row.derivation.operation} of rows ${row.derivation.rows.join(", ")}` : row.quote),
      el("td", { class: row.verdict }, row.verdict),
      el("td", {}, row.source ? sourceLink(row.source, row.quote) : ""),
    );
  });
  $("rows").replaceChildren(el("thead", {}, head), el("tbody", {}, ...rows));
  $("evidence").hidden = false;
}

function sourceLink(source, quote) {
  const query = new URLSearchParams({ document: source.document_id, units: source.units.join(",") });
  const collection = answered?.asked.collection;
  if (collection) query.set("collection", collection);
  if (quote) query.set("quote", quote);
  const pages = source.pages?.length ? `, page ${source.pages.join(", ")}` : "";
  return el("a", { href: `#${query}` }, `${source.title || source.document_id}, unit ${source.units.join(", ")}${pages}`);
}

/** What was selected from; it is laid out when it is wanted. */
function pool() {
  if (!$("pool").open || !answered || $("candidates").childElementCount) return;
  const { answer } = answered;
  const place = (source) => JSON.stringify([source.document_id, ...source.units]);
  const selected = new Set(answer.selected.map(place));
  $("candidates").replaceChildren(...answer.pool.map((candidate) => {
    const source = { document_id: candidate.document.id, title: candidate.document.title, units: candidate.units.map((unit) => unit.number) };
    const scores = Object.entries(candidate.scores).map(([leg, score]) => `${leg} ${score.toFixed(3)}`).join(", ");
    const text = candidate.units.map((unit) => unit.text).join(" ");
    return el(
      "li", {}, sourceLink(source), selected.has(place(source)) ? el("span", { class: "selected" }, " selected") : "",
      el("div", { class: "scores" }, `${candidate.key === text ? "" : `${candidate.key} `}(${scores})`),
      el("div", { class: "excerpt" }, text.length > 240 ? `${text.slice(0, 240)}…` : text),
    );
  }));
}

// ------------------------------------------------------------------ a document

let opening = 0;

async function openDocument(query) {
  const mine = ++opening;
  const units = new Set((query.get("units") ?? "").split(",").filter(Boolean).map(Number));
  const collection = query.get("collection");
  $("units").replaceChildren();
  $("document-error").hidden = true;
  $("document-facts").textContent = "";
  $("document-title").textContent = query.get("document");
  try {
    const path = `v1/documents/${encodeURIComponent(query.get("document"))}`;
    const found = await (await ask(collection ? `${path}?${new URLSearchParams({ collection })}` : path)).json();
    if (mine !== opening) return;
    const facts = Object.entries(found.metadata).map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`);
    $("document-title").textContent = found.title || found.id;
    $("document-facts").textContent = [found.id, ...facts].join(" · ");
    const text = Array.from(found.text); // offsets count characters, not UTF-16 units
    $("units").replaceChildren(...found.units.map((unit) => unitBlock(unit, text.slice(unit.start, unit.end).join(""), units, query.get("quote"))));
    document.querySelector("#units .cited")?.scrollIntoView({ block: "center" });
  } catch (error) {
    if (mine !== opening) return;
    fail("document-error", error);
  }
  $("document-title").focus({ preventScroll: units.size > 0 });
}

function unitBlock(unit, text, cited, quote) {
  const markers = unit.records.filter((record) => !record.fallback);
  const kind = cited.has(unit.number) ? "cited" : markers.length ? "marker" : unit.records.length ? "fallback" : "";
  const records = unit.records.map((record) => el("li", {}, el("strong", {}, record.keys.join(" / ")), el("br"), record.fallback ? "fallback: the unit's own text" : record.value));
  const count = markers.length ? `${markers.length} record${markers.length > 1 ? "s" : ""}` : unit.records.length ? "fallback" : "no record";
  return el(
    "div", { class: `unit ${kind}${markers.length > 1 ? " many" : ""}`, id: `unit-${unit.number}` },
    el("div", {}, ...(cited.has(unit.number) ? marked(text, quote) : [text])),
    el("details", { class: "records" }, el("summary", {}, `unit ${unit.number}${unit.page ? `, page ${unit.page}` : ""}: ${count}`), el("ul", {}, ...records)),
  );
}

/** The text with the quote marked where it stands in it, white space aside; … stands for what it leaves out. */
function marked(text, quote) {
  const words = (part) => part.split(/\s+/).filter(Boolean).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("\\s+");
  const parts = (quote ?? "").split(" … ").map(words).filter(Boolean);
  if (!parts.length) return [text];
  const pattern = parts.join("[^]*?");
  const found = new RegExp(pattern, "u").exec(text);
  if (!found) return [text];
  const end = found.index + found[0].length;
  return [text.slice(0, found.index), el("mark", {}, found[0]), text.slice(end)];
}

// ------------------------------------------------------------------ which view

function route() {
  const query = new URLSearchParams(location.hash.slice(1));
  const opened = query.has("document");
  $("ask-view").hidden = opened;
  $("document-view").hidden = !opened;
  document.title = opened ? `${query.get("document")} - mrag` : "mrag";
  if (opened) openDocument(query);
  else $("question").focus({ preventScroll: true });
}

/** The collection that is wanted, searched by what it has to search. */
function chosenCollection() {
  const chosen = $("collection").selectedOptions[0];
  return chosen?.value ? { collection: chosen.value, retrieval: chosen.dataset.searched } : {};
}

async function collections() {
  try {
    const found = await (await ask("v1/collections")).json();
    const options = found.collections.map(({ name, searched }) => el("option", { value: name, "data-searched": searched }, name));
    $("collection").replaceChildren(el("option", { value: "" }, "as configured"), ...options);
    $("error").hidden = true;
  } catch (error) {
    $("collection").replaceChildren(el("option", { value: "" }, "as configured"));
    if ($("sign-in").hidden) fail("error", error);
    else $("token").focus();
  }
}

$("ask").addEventListener("submit", submit);
$("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("ask").requestSubmit();
  }
});
$("stop").addEventListener("click", () => running?.abort());
$("pool").addEventListener("toggle", pool);
$("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, $("token").value.trim());
  $("token").value = "";
  $("sign-in").hidden = true;
  collections();
  route();
});
addEventListener("hashchange", route);
route();
collections();

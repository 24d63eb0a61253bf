/** A conversation as bubbles, with the relay's widget under each answer. Whatever was said is put in as text. */

/** The turns of a conversation, as list items; `feedback` has the attributes that all widgets share, and `getToken`. */
export const turnsOf = ({ id, turns }, feedback) => turns.map((turn) => turnOf(turn, { ...feedback, conversation: id }));

function turnOf({ question, answer, parts }, feedback) {
  const asked = make("div", { class: "bubble asked" }, make("h2", {}, question));
  const said = parts.map(partOf);
  return make("li", {}, asked, make("div", { class: "bubble answered" }, ...said, widget(answer, feedback)));
}

function partOf({ specialist, text, toolCalls }) {
  const face = make("span", { class: "face", "aria-hidden": "true" }, specialist[0]);
  const name = make("h3", {}, face, specialist);
  return make("section", { class: "part" }, name, make("p", {}, text), toolsOf(toolCalls));
}

function toolsOf(calls) {
  const count = calls.length === 1 ? "Used one tool" : `Used ${calls.length} tools`;
  return make("details", {}, make("summary", {}, count), make("ol", { class: "tools" }, ...calls.map(callOf)));
}

function callOf({ name, arguments: given, result }) {
  const returned = make("span", { class: "result" }, "→ ", make("code", {}, JSON.stringify(result)));
  return make("li", {}, make("code", {}, `${name}(${JSON.stringify(given)})`), " ", returned);
}

/** What any page embeds: two addresses, and a function that gives the access token. */
function widget(answer, { relay, conversation, getToken }) {
  const element = make("specialist-feedback", { relay, answer, conversation });
  element.getToken = getToken;
  return element;
}

function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
  element.append(...children);
  return element;
}

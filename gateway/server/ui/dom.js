// Elements. Text becomes text nodes only: names come from clients and servers, and none of them may become markup.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. attributes: null and false leave one out, a function listens to that event; children: nodes, text or null. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element, as `h`. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** A sentence in which names and settings stand between backticks. */
export const prose = (text) => text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));

/** Put these children in the place of those that are there. */
export function replace(element, ...children) {
  element.replaceChildren(...present(children));
}

const present = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);

/** Make `parent` hold exactly `wanted`, in this order, without touching those in the right place: they may have the focus. */
export function reorder(parent, wanted) {
  const keep = new Set(wanted);
  for (const child of [...parent.children]) if (!keep.has(child)) child.remove();
  let next = parent.firstElementChild;
  for (const child of wanted) {
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  }
}

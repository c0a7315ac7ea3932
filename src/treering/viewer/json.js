/** Arguments of tools, which are JSON as text: numbers of JavaScript have 53 bits, and ids of other services are often longer. */

/** Where so many digits stand together there may be a number that JavaScript would round. */
const LONG = /\d{16}/;

/** What writes text into JSON as it is; older browsers lack it. @type {((text: string) => any) | undefined} */
const raw = /** @type {any} */ (JSON).rawJSON;

// JSON.stringify refuses a BigInt without this method.
if (raw) Object.defineProperty(BigInt.prototype, "toJSON", { configurable: true, value() { return raw(String(this)); } });

/**
 * Read JSON. A whole number that would be rounded becomes a BigInt, which `JSON.stringify` writes as it was; in an older
 * browser it is rounded.
 * @param {string} text
 * @returns {any}
 */
export function parseJson(text) {
  return raw && LONG.test(text) ? JSON.parse(text, exactly) : JSON.parse(text);
}

/** @param {string} _ @param {any} value @param {{source?: string}} [context] */
function exactly(_, value, context) {
  const rounded = Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "");
  return rounded ? BigInt(/** @type {string} */ (context?.source)) : value;
}
